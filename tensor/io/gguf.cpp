#include <etna/tensor/io/gguf.h>

#include <functional>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/io/internal/gguf_header.h>
#include <etna/tensor/io/internal/mapped_file.h>
#include <etna/tensor/io/internal/quoted_name.h>

namespace etna::io {

struct GgufFile::Contents {
  explicit Contents(const FilePath& from) : path(from), file(std::make_shared<MappedFile>(from, "a GGUF file")) {
    try {
      header = parse_gguf_header({file->bytes(), file->size()});
    } catch (const FormatError& error) {
      throw FormatError(fmt::format("{}: {}", path.string(), error.what()));
    }
    for (std::size_t i = 0; i < header.metadata.size(); ++i) keys.emplace(header.metadata[i].key, i);
    for (std::size_t i = 0; i < header.tensors.size(); ++i) names.emplace(header.tensors[i].name, i);
  }

  FormatError refusal(const std::string& what) const { return FormatError(fmt::format("{}: {}", path.string(), what)); }

  FilePath path;
  std::shared_ptr<const MappedFile> file;
  GgufHeader header;
  std::map<std::string_view, std::size_t> keys, names;  ///< views of strings in the header
};

GgufFile::GgufFile(const FilePath& path) : contents_(std::make_shared<const Contents>(path)) {}

const FilePath& GgufFile::path() const { return contents_->path; }
std::uint32_t GgufFile::version() const { return contents_->header.version; }
std::uint64_t GgufFile::alignment() const { return contents_->header.alignment; }
std::uint64_t GgufFile::file_bytes() const { return contents_->file->size(); }
const std::vector<GgufEntry>& GgufFile::metadata() const { return contents_->header.metadata; }
const std::vector<GgufTensor>& GgufFile::tensors() const { return contents_->header.tensors; }

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = contents_->keys.find(key);
  return found == contents_->keys.end() ? nullptr : &contents_->header.metadata[found->second].value;
}

template <typename T>
T GgufFile::convert(std::string_view key, T (GgufValue::*get)() const) const {
  const GgufValue* value = find(key);
  if (value == nullptr) throw contents_->refusal(fmt::format("has no metadata {}", quoted_name(key)));
  try {
    return (value->*get)();
  } catch (const FormatError& error) {
    throw contents_->refusal(fmt::format("metadata {} {}", quoted_name(key), error.what()));
  }
}

std::int64_t GgufFile::integer(std::string_view key) const { return convert(key, &GgufValue::integer); }
double GgufFile::number(std::string_view key) const { return convert(key, &GgufValue::number); }
bool GgufFile::boolean(std::string_view key) const { return convert(key, &GgufValue::boolean); }
std::string GgufFile::string(std::string_view key) const { return convert(key, &GgufValue::string); }
std::vector<std::int64_t> GgufFile::integers(std::string_view key) const { return convert(key, &GgufValue::integers); }
std::vector<float> GgufFile::numbers(std::string_view key) const { return convert(key, &GgufValue::numbers); }
std::vector<std::string> GgufFile::strings(std::string_view key) const { return convert(key, &GgufValue::strings); }

std::int64_t GgufFile::integer(std::string_view key, std::int64_t otherwise) const {
  return find(key) != nullptr ? integer(key) : otherwise;
}
double GgufFile::number(std::string_view key, double otherwise) const {
  return find(key) != nullptr ? number(key) : otherwise;
}
bool GgufFile::boolean(std::string_view key, bool otherwise) const {
  return find(key) != nullptr ? boolean(key) : otherwise;
}
std::string GgufFile::string(std::string_view key, const std::string& otherwise) const {
  return find(key) != nullptr ? string(key) : otherwise;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = contents_->names.find(name);
  return found == contents_->names.end() ? nullptr : &contents_->header.tensors[found->second];
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
  if (const GgufTensor* found = find_tensor(name)) return *found;
  throw contents_->refusal(fmt::format("has no tensor {} among its {}", quoted_name(name), tensors().size()));
}

MappedBytes GgufFile::bytes(const GgufTensor& tensor) const {
  const GgufTensor* own = find_tensor(tensor.name);
  if (own == nullptr || own->begin != tensor.begin || own->bytes != tensor.bytes)
    throw contents_->refusal(
        fmt::format("has no tensor {} equal to the given one, which is from another file", quoted_name(tensor.name)));
  if (own->format == nullptr) {
    throw contents_->refusal(fmt::format("tensor {} has {}, which is not supported; convert it with llama-quantize",
                                         quoted_name(own->name), gguf_type_name(own->type)));
  }
  return {contents_->file, static_cast<std::size_t>(own->begin), own->bytes};
}

Tensor GgufFile::load(const GgufTensor& tensor, Device device) const {
  const MappedBytes view = bytes(tensor);
  static constexpr std::pair<std::string_view, DType> kPlain[] = {
      {"F64", f64}, {"F32", f32}, {"F16", f16}, {"BF16", bf16}, {"I8", i8}, {"I32", i32}, {"I64", i64}};
  for (const auto& [name, dtype] : kPlain) {
    if (tensor.format->name == name) return from_bytes(view.data(), tensor.shape, dtype, device);
  }
  Tensor values = empty(tensor.shape, f32);
  quant::dequantize(*tensor.format, view, values.mutable_data<float>(), tensor.elements);
  return (tensor.format->name == "I16" ? values.to(i32) : values).to(device);
}

}  // namespace etna::io

namespace etna {

std::map<std::string, Tensor> load_gguf(const FilePath& path, Device device) {
  const io::GgufFile file(path);
  std::map<std::string, Tensor> tensors;
  for (const io::GgufTensor& tensor : file.tensors()) tensors.emplace(tensor.name, file.load(tensor, device));
  return tensors;
}

}  // namespace etna
