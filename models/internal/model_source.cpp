#include <etna/models/internal/model_source.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/device/internal/log.h>
#include <etna/models/internal/file_config.h>
#include <etna/tensor/internal/name_list.h>

namespace etna::models {

std::string read_text(const FilePath& file) {
  require_plain_file(file);
  std::ifstream in(std::filesystem::path(file), std::ios::binary);
  std::stringstream text;
  if (!in || !(text << in.rdbuf())) throw FormatError(fmt::format("{}: the file cannot be read", file.string()));
  return text.str();
}

bool is_file(const FilePath& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool begins_as_gguf(const FilePath& path) {
  std::ifstream in(std::filesystem::path(path), std::ios::binary);
  char magic[4] = {};
  in.read(magic, sizeof magic);
  return std::string_view(magic, 4) == "GGUF";
}

const quant::BlockFormat* format_of(DType dtype) {
  return dtype == f32 || dtype == f16 || dtype == bf16 ? &quant::format_named(dtype == f32   ? "F32"
                                                                              : dtype == f16 ? "F16"
                                                                                             : "BF16")
                                                       : nullptr;
}

WeightPlacement placement_of(const LoadOptions& options) {
  return {options.device, options.trainable, options.host_layers, options.host_experts};
}

void check_unused(const std::string& file, const std::vector<std::string>& unused,
                  const std::function<UnusedTensor(const std::string& name)>& kind_of) {
  std::vector<std::string> parts, others;
  for (const std::string& name : unused) {
    const UnusedTensor kind = kind_of(name);
    if (kind == UnusedTensor::part) parts.push_back(name);
    if (kind == UnusedTensor::other) others.push_back(name);
  }
  if (!parts.empty()) {
    throw FormatError(
        fmt::format("{}: the model that the file's sizes describe has no place for {}; its number of "
                    "layers or another field is wrong",
                    file, name_list(parts, "'")));
  }
  if (!others.empty()) log().warn("{}: these tensors are not used: {}", file, name_list(others, "'"));
}

StoredWeights::Find tensors_of(const io::GgufFile& file) {
  return [file](const std::string& name) -> std::optional<StoredTensor> {
    const io::GgufTensor* tensor = file.find_tensor(name);
    if (tensor == nullptr) return std::nullopt;
    if (tensor->format == nullptr) return StoredTensor{};
    return StoredTensor{tensor->format, tensor->shape, file.bytes(*tensor)};
  };
}

StoredWeights::Find tensors_of(const io::ShardedSafetensors& file) {
  return [file](const std::string& name) -> std::optional<StoredTensor> {
    if (!file.contains(name)) return std::nullopt;
    const safetensors::Entry& entry = file.entry(name);
    return StoredTensor{format_of(entry.dtype), entry.shape, file.bytes(name)};
  };
}

HasTensor names_of(const io::GgufFile& file) {
  return [file](const std::string& name) { return file.find_tensor(name) != nullptr; };
}

HasTensor names_of(const io::ShardedSafetensors& file) {
  return [&file](const std::string& name) { return file.contains(name); };
}

std::shared_ptr<const data::Tokenizer> tokenizer_in(const io::GgufFile& file, const FilePath& path) {
  const std::string kind = file.string("tokenizer.ggml.model", "none");
  if (kind == "none" || kind == "no_vocab") return nullptr;
  return std::make_shared<data::ModelTokenizer>(vocabulary_of(file), path.string());
}

}  // namespace etna::models
