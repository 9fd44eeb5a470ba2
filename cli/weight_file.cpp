#include "weight_file.h"

#include <fstream>
#include <memory>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/internal/llama2c.h>
#include <etna/tensor/io/internal/sharded_safetensors.h>

#include "model_kind.h"

namespace etna::cli {
namespace {

namespace fs = std::filesystem;

/// What a plain dtype is called as a block format; null for dtypes that no weights have.
const quant::BlockFormat* layout_of(DType t) {
  switch (t) {
    case f64:
      return quant::find_format("F64");
    case f32:
      return quant::find_format("F32");
    case f16:
      return quant::find_format("F16");
    case bf16:
      return quant::find_format("BF16");
    case i8:
      return quant::find_format("I8");
    case i32:
      return quant::find_format("I32");
    case i64:
      return quant::find_format("I64");
    default:
      return nullptr;
  }
}

WeightFile of_gguf(const fs::path& path) {
  const io::GgufFile file(path);
  WeightFile all{.kind = fmt::format("GGUF version {}", file.version()), .metadata = {}, .tensors = {}};
  for (const io::GgufEntry& entry : file.metadata()) all.metadata.emplace_back(entry.key, entry.value.str());
  for (const io::GgufTensor& t : file.tensors()) {
    all.tensors.push_back({.name = t.name,
                           .shape = t.shape,
                           .elements = t.elements,
                           .format = io::gguf_type_name(t.type),
                           .layout = t.format,
                           .bytes = t.bytes,
                           .data = [file, &t] { return file.bytes(t); }});
  }
  return all;
}

WeightFile of_safetensors(const fs::path& path) {
  const auto file = std::make_shared<const io::ShardedSafetensors>(path);
  const std::size_t files = file->files().size();
  WeightFile all{.kind = files == 1 ? "safetensors" : fmt::format("safetensors in {} files", files),
                 .metadata = {},
                 .tensors = {}};
  for (const auto& [key, value] : file->files().front().metadata()) all.metadata.emplace_back(key, value);
  for (const std::string& name : file->names()) {
    const safetensors::Entry& entry = file->entry(name);
    const quant::BlockFormat* layout = layout_of(entry.dtype);
    all.tensors.push_back(
        {.name = name,
         .shape = entry.shape,
         .elements = numel(entry.shape),
         .format = layout != nullptr ? std::string(layout->name) : std::string(etna::name(entry.dtype)),
         .layout = layout,
         .bytes = entry.end - entry.begin,
         .data = [file, name] { return file->bytes(name); }});
  }
  return all;
}

WeightFile of_llama2c(const fs::path& path) {
  const auto file = std::make_shared<const io::Llama2cCheckpoint>(path);
  const io::Llama2cConfig& c = file->config();
  WeightFile all{.kind = "llama2.c checkpoint", .metadata = {}, .tensors = {}};
  for (const auto& [key, value] :
       {std::pair{"width", c.width}, std::pair{"feed_forward", c.feed_forward}, std::pair{"layers", c.layers},
        std::pair{"heads", c.heads}, std::pair{"kv_heads", c.kv_heads}, std::pair{"vocabulary", c.vocabulary},
        std::pair{"context", c.context}}) {
    all.metadata.emplace_back(key, std::to_string(value));
  }
  const quant::BlockFormat& layout = quant::format_named("F32");
  for (const io::Llama2cTensor& t : file->tensors()) {
    const std::int64_t elements = numel(t.shape);
    all.tensors.push_back({.name = t.name,
                           .shape = t.shape,
                           .elements = elements,
                           .format = "F32",
                           .layout = &layout,
                           .bytes = quant::storage_bytes(layout, elements),
                           .data = [file, name = t.name] { return file->bytes(name); }});
  }
  return all;
}

}  // namespace

WeightFile open_weights(const fs::path& path) {
  std::error_code none;
  require_plain_files(path);
  if (fs::exists(path / "adapter_config.json", none)) return of_safetensors(path / "adapter_model.safetensors");
  if (fs::is_directory(path, none) || path.extension() == ".json") {
    if (const std::string why = why_no_model(path); !why.empty())
      throw FormatError(fmt::format("{}: {}", path.string(), why));
    return of_safetensors(path);
  }
  std::string begin(9, '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in) throw FormatError(fmt::format("{}: cannot be opened", path.string()));
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (begin.starts_with("GGUF")) return of_gguf(path);
  // The length of a header, then JSON.
  if (begin[8] == '{') return of_safetensors(path);
  if (const std::string why = why_no_model(path); !why.empty())
    throw FormatError(fmt::format("{}: {}", path.string(), why));
  try {
    return of_llama2c(path);
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}; nor is it GGUF or safetensors", error.what()));
  }
}

}  // namespace etna::cli
