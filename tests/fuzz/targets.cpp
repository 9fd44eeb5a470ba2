#include <fuzz/targets.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include <data/temporary_folder.h>
#include <etna/data/tokenizers/internal/chat/jinja_template.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/device/error.h>
#include <etna/models/decoder_config.h>
#include <etna/models/encoder.h>
#include <etna/models/model_file.h>
#include <etna/nn/linear.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/internal/gguf_header.h>
#include <etna/tensor/io/internal/llama2c.h>
#include <etna/tensor/io/internal/safetensors_header.h>
#include <etna/tensor/io/internal/sharded_safetensors.h>
#include <etna/tensor/quant/block_format.h>
#include <models/small_models.h>

namespace etna::fuzz {
namespace {

/// Refusals must be a sentence, not a dump.
void check_sentence(const FormatError& error) {
  const std::string_view text = error.what();
  if (text.empty() || text.size() > 1000 || text.find('\n') != std::string_view::npos) std::abort();
}

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

bool gguf(const std::uint8_t* data, std::size_t size) try {
  // A copy of just this size, so that a sanitizer sees each byte too many.
  const std::vector<std::byte> file(reinterpret_cast<const std::byte*>(data),
                                    reinterpret_cast<const std::byte*>(data) + size);
  const io::GgufHeader header = io::parse_gguf_header(file);
  for (const io::GgufEntry& entry : header.metadata) {
    entry.value.str();
    if (entry.value.is_list() && entry.value.item_type() == io::GgufType::string) entry.value.strings();
    try {
      entry.value.integer();
    } catch (const FormatError& error) {
      check_sentence(error);
    }
  }
  std::vector<float> values;
  for (const io::GgufTensor& tensor : header.tensors) {
    // A tensor without elements may stand behind the end of a file that has none.
    if (tensor.format == nullptr || tensor.bytes == 0) continue;
    require(tensor.begin <= size && tensor.bytes <= size - tensor.begin);
    const std::span<const std::byte> bytes(file.data() + tensor.begin, tensor.bytes);
    values.resize(static_cast<std::size_t>(tensor.elements));
    quant::dequantize(*tensor.format, bytes, values.data(), tensor.elements);
    quant::find_suspicious(*tensor.format, bytes, tensor.elements);
  }
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool llama2c(const std::uint8_t* data, std::size_t size) try {
  const std::vector<std::byte> file(reinterpret_cast<const std::byte*>(data),
                                    reinterpret_cast<const std::byte*>(data) + size);
  const io::Llama2cHeader header = io::parse_llama2c(file);
  for (const io::Llama2cTensor& tensor : header.tensors)
    require(tensor.begin + byte_size(tensor.shape, sizeof(float), "fuzz") <= size);
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool safetensors(const std::uint8_t* data, std::size_t size) try {
  std::uint64_t length = 0;
  if (size < sizeof length) return false;
  std::memcpy(&length, data, sizeof length);
  if (length > size - sizeof length) return false;
  const std::vector<char> text(data + sizeof length, data + sizeof length + length);
  const std::uint64_t rest = size - sizeof length - length;
  const etna::safetensors::Header header = etna::safetensors::parse_header({text.data(), text.size()}, rest);
  for (const etna::safetensors::Entry& entry : header.entries) require(entry.begin <= entry.end && entry.end <= rest);
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool decoder_config(const std::uint8_t* data, std::size_t size) try {
  const std::vector<char> text(data, data + size);
  const models::DecoderConfig config = models::decoder_config({text.data(), text.size()}, "config.json");
  config.check();
  for (std::int64_t layer = 0; layer < std::min<std::int64_t>(config.layers, 8); ++layer)
    if (config.positions == models::PositionKind::rotary) config.rope_frequencies(layer);
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool decoder_file(const std::uint8_t* data, std::size_t size) try {
  static const TemporaryFolder folder;
  const auto path = folder.write("model.gguf", {reinterpret_cast<const char*>(data), size});
  models::load_model(path);
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool encoder_config(const std::uint8_t* data, std::size_t size) try {
  const std::vector<char> text(data, data + size);
  models::encoder_config({text.data(), text.size()}, "config.json").check();
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool encoder_file(const std::uint8_t* data, std::size_t size) try {
  static const TemporaryFolder folder;
  const auto path = folder.write("encoder.gguf", {reinterpret_cast<const char*>(data), size});
  models::load_encoder(path);
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

std::unique_ptr<models::Decoder> tiny_decoder() {
  models::DecoderConfig config = models::small_config("llama");
  config.vocabulary = 5;
  config.width = config.head_size = config.feed_forward = config.rope.size = 4;
  config.heads = config.kv_heads = config.layers = 1;
  return models::small_model(config);
}

bool adapter_file(const std::uint8_t* data, std::size_t size) try {
  static const TemporaryFolder folder;
  const auto path = folder.write("adapter.gguf", {reinterpret_cast<const char*>(data), size});
  const auto decoder = tiny_decoder();
  models::load_adapters(path, *decoder);
  decoder->merge_adapters();
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool adapter_config(const std::uint8_t* data, std::size_t size) try {
  static const TemporaryFolder folder;
  static const bool written = [] {
    const auto decoder = tiny_decoder();
    decoder->add_adapters(2, 4);
    models::save_adapters(folder / "adapter_model.safetensors", *decoder);
    return true;
  }();
  require(written);
  folder.write("adapter_config.json", {reinterpret_cast<const char*>(data), size});
  const auto decoder = tiny_decoder();
  models::load_adapters(folder.path(), *decoder);
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool tokenizer_config(const std::uint8_t* data, std::size_t size) try {
  static const TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"added_tokens":[{"id":3,"content":"</s>","special":true}],)"
                                 R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                                 R"("decoder":{"type":"ByteLevel"},)"
                                 R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})");
  folder.write("tokenizer_config.json", {reinterpret_cast<const char*>(data), size});
  const auto tokenizer = data::load_tokenizer(folder / "tokenizer.json");
  require(tokenizer->size() == 4);
  tokenizer->encode_prompt("ab</s>", {.special = data::SpecialTokens::recognize, .add_special = true});
  data::recognize_chat_format(tokenizer->chat_template());
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool chat_template(const std::uint8_t* data, std::size_t size) try {
  data::VocabularyFields fields;
  fields.model = "llama";
  fields.tokens = {"<unk>", "<s>", "</s>", "a"};
  fields.types = {2, 3, 3, 1};
  fields.scores = {0, 0, 0, 0};
  fields.bos = 1;
  fields.eos = 2;
  fields.chat_template.assign(reinterpret_cast<const char*>(data), size);
  const data::ModelTokenizer tokenizer(fields);
  data::recognize_chat_format(tokenizer.chat_template());
  const std::vector<data::ChatMessage> talk = {{"system", "a"}, {"user", "</s> a"}, {"assistant", "a"}, {"user", "b"}};
  data::format_chat_by_template(tokenizer, talk);
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool checkpoint(const std::uint8_t* data, std::size_t size) try {
  static const TemporaryFolder folder;
  const auto path = folder.write("run.safetensors", {reinterpret_cast<const char*>(data), size});
  nn::Linear layer(2, 3);
  std::int64_t step = 0;
  load(path, {{"layer", layer}, {"step", step}});
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

bool shard_index(const std::uint8_t* data, std::size_t size) try {
  const std::vector<char> text(data, data + size);
  for (const auto& [tensor, file] : io::parse_shard_index({text.data(), text.size()}))
    require(file.find('/') == std::string::npos && file.ends_with(".safetensors"));
  return true;
} catch (const FormatError& error) {
  check_sentence(error);
  return false;
}

}  // namespace etna::fuzz
