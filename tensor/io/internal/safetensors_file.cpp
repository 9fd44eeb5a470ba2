#include <etna/tensor/io/internal/safetensors_file.h>

#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include <etna/tensor/io/internal/mapped_file.h>

namespace etna::io {

struct SafetensorsFile::Contents {
  explicit Contents(const FilePath& from) : path(from), file(std::make_shared<MappedFile>(from, "a safetensors file")) {
    const auto refuse = [&](const std::string& what) {
      return FormatError(fmt::format("{}: {}", path.string(), what));
    };
    if (file->size() == 0) throw refuse("is empty, not a safetensors file");
    std::uint64_t length = 0;
    if (file->size() < sizeof length)
      throw refuse(fmt::format("is {} bytes long, too short for a safetensors file", file->size()));
    std::memcpy(&length, file->bytes(), sizeof length);
    const std::uint64_t rest = file->size() - sizeof length;
    if (length > safetensors::kMaxHeaderBytes)
      throw refuse(
          fmt::format("claims a header of {} bytes; this is not a safetensors file, or a damaged one", length));
    if (length > rest)
      throw refuse(fmt::format("claims a header of {} bytes, but only {} follow; it is cut short", length, rest));
    data = sizeof length + length;
    try {
      header = safetensors::parse_header(
          {reinterpret_cast<const char*>(file->bytes()) + sizeof length, static_cast<std::size_t>(length)},
          rest - length);
    } catch (const FormatError& error) {
      throw refuse(error.what());
    }
    for (std::size_t i = 0; i < header.entries.size(); ++i) names.emplace(header.entries[i].name, i);
  }

  FilePath path;
  std::shared_ptr<const MappedFile> file;
  safetensors::Header header;
  std::uint64_t data = 0;                         ///< offset of the tensors' bytes
  std::map<std::string_view, std::size_t> names;  ///< views of strings in the header
};

SafetensorsFile::SafetensorsFile(const FilePath& path) : contents_(std::make_shared<const Contents>(path)) {}

const FilePath& SafetensorsFile::path() const { return contents_->path; }
const std::vector<safetensors::Entry>& SafetensorsFile::tensors() const { return contents_->header.entries; }
const Metadata& SafetensorsFile::metadata() const { return contents_->header.metadata; }

const safetensors::Entry* SafetensorsFile::find(std::string_view name) const {
  const auto found = contents_->names.find(name);
  return found == contents_->names.end() ? nullptr : &contents_->header.entries[found->second];
}

MappedBytes SafetensorsFile::bytes(const safetensors::Entry& tensor) const {
  const safetensors::Entry* own = find(tensor.name);
  if (own == nullptr || own->begin != tensor.begin || own->end != tensor.end) {
    throw FormatError(fmt::format("{}: has no tensor '{}' equal to the given one, which is from another file",
                                  path().string(), tensor.name));
  }
  return {contents_->file, static_cast<std::size_t>(contents_->data + own->begin),
          static_cast<std::size_t>(own->end - own->begin)};
}

Tensor SafetensorsFile::load(const safetensors::Entry& tensor, Device device) const {
  const MappedBytes view = bytes(tensor);
  if (tensor.dtype != boolean) return from_bytes(view.data(), tensor.shape, tensor.dtype, device);
  // The file may contain any byte; in memory, a bool must be 0 or 1.
  std::vector<std::uint8_t> truth(view.size());
  std::transform(view.span().begin(), view.span().end(), truth.begin(),
                 [](std::byte b) { return b != std::byte{0} ? std::uint8_t{1} : std::uint8_t{0}; });
  return from_bytes(truth.data(), tensor.shape, boolean, device);
}

}  // namespace etna::io
