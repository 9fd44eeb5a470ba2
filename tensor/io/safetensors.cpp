#include <etna/tensor/io/safetensors.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/atomic_file.h>
#include <etna/tensor/io/internal/safetensors_file.h>
#include <etna/tensor/io/internal/safetensors_header.h>
#include <etna/tensor/op.h>

static_assert(std::endian::native == std::endian::little,
              "files are little-endian, and tensors are written in their memory layout");

namespace etna {
namespace {

using safetensors::Entry;
using SafetensorsHeader = safetensors::Header;

}  // namespace

void save_safetensors(const FilePath& path, const NamedTensors& tensors, const Metadata& metadata) {
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
  SafetensorsHeader header{{}, metadata};
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

void save_safetensors(const FilePath& path, const std::map<std::string, Tensor>& tensors, const Metadata& metadata) {
  save_safetensors(path, NamedTensors(tensors.begin(), tensors.end()), metadata);
}

std::map<std::string, Tensor> load_safetensors(const FilePath& path, Device device) {
  const io::SafetensorsFile file(path);
  std::map<std::string, Tensor> tensors;
  for (const Entry& entry : file.tensors()) tensors.emplace(entry.name, file.load(entry, device));
  return tensors;
}

Metadata load_safetensors_metadata(const FilePath& path) { return io::SafetensorsFile(path).metadata(); }

}  // namespace etna
