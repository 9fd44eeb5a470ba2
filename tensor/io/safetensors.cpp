#include <etna/tensor/io/safetensors.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <etna/device/atomic_file.h>
#include <etna/tensor/io/mapped_file.h>
#include <etna/tensor/io/safetensors_header.h>
#include <etna/tensor/op.h>

static_assert(std::endian::native == std::endian::little,
              "files are little-endian, and tensors are written as they lie in memory");

namespace etna {
namespace {

namespace fs = std::filesystem;
using safetensors::Entry;
using safetensors::Header;

/// Reads the header and sets `data` to the first byte of the tensors.
Header read_header(const fs::path& path, const io::MappedFile& file, const std::byte*& data) {
  auto refuse = [&](const std::string& what) { return FormatError(fmt::format("{}: {}", path.string(), what)); };
  if (file.size() == 0) throw refuse("is empty, not a safetensors file");
  std::uint64_t length = 0;
  if (file.size() < sizeof length)
    throw refuse(fmt::format("is {} bytes long, too short for a safetensors file", file.size()));
  std::memcpy(&length, file.bytes(), sizeof length);
  std::uint64_t rest = file.size() - sizeof length;
  if (length > safetensors::kMaxHeaderBytes)
    throw refuse(fmt::format("claims a header of {} bytes; this is no safetensors file, or a damaged one", length));
  if (length > rest)
    throw refuse(fmt::format("claims a header of {} bytes, but only {} follow; it is cut short", length, rest));
  data = file.bytes() + sizeof length + length;
  try {
    return safetensors::parse_header(
        {reinterpret_cast<const char*>(file.bytes()) + sizeof length, static_cast<std::size_t>(length)}, rest - length);
  } catch (const FormatError& error) {
    throw refuse(error.what());
  }
}

Tensor read_tensor(const Entry& entry, const std::byte* data, Device device) {
  const std::byte* bytes = data + entry.begin;
  if (entry.dtype != boolean) return from_bytes(bytes, entry.shape, entry.dtype, device);
  // The file may contain any byte; a bool in memory must be 0 or 1.
  std::vector<std::uint8_t> truth(static_cast<std::size_t>(entry.end - entry.begin));
  std::transform(bytes, bytes + truth.size(), truth.begin(),
                 [](std::byte b) { return b != std::byte{0} ? std::uint8_t{1} : std::uint8_t{0}; });
  return from_bytes(truth.data(), entry.shape, boolean, device);
}

}  // namespace

void save_safetensors(const fs::path& path, const NamedTensors& tensors, const Metadata& metadata) {
  std::vector<std::pair<Entry, Tensor>> ordered;
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__" || !names.insert(name).second) {
      throw FormatError(fmt::format("{}: '{}' cannot name a tensor: it is {}", path.string(), name,
                                    name == "__metadata__" ? "reserved" : "given twice"));
    }
    ordered.push_back({{name, tensor.dtype(), tensor.shape(), 0, 0}, tensor});
  }
  // Widest elements first, so that every tensor is aligned to its element size.
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return item_size(a.first.dtype) > item_size(b.first.dtype); });
  Header header{{}, metadata};
  std::uint64_t at = 0;
  for (auto& [entry, tensor] : ordered) {
    entry.begin = at;
    entry.end = at += byte_size(tensor.shape(), item_size(entry.dtype), "save_safetensors");
    header.entries.push_back(entry);
  }
  std::string text = safetensors::format_header(header);
  std::uint64_t length = text.size();
  io::AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(text.data(), text.size());
  GradMode off(false);
  for (const auto& [entry, tensor] : ordered) {
    Tensor host = tensor.contiguous().to(kCPU);
    if (host.numel() > 0) file.write(host.raw_data(), static_cast<std::size_t>(entry.end - entry.begin));
  }
  file.finish();
}

void save_safetensors(const fs::path& path, const std::map<std::string, Tensor>& tensors, const Metadata& metadata) {
  save_safetensors(path, NamedTensors(tensors.begin(), tensors.end()), metadata);
}

std::map<std::string, Tensor> load_safetensors(const fs::path& path, Device device) {
  const io::MappedFile file(path, "a safetensors file");
  const std::byte* data = nullptr;
  Header header = read_header(path, file, data);
  std::map<std::string, Tensor> tensors;
  for (const Entry& entry : header.entries) tensors.emplace(entry.name, read_tensor(entry, data, device));
  return tensors;
}

Metadata load_safetensors_metadata(const fs::path& path) {
  const io::MappedFile file(path, "a safetensors file");
  const std::byte* data = nullptr;
  return read_header(path, file, data).metadata;
}

}  // namespace etna
