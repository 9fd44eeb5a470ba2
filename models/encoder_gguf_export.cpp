#include <etna/models/encoder.h>

#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include <etna/models/internal/encoder_family.h>
#include <etna/models/internal/encoder_names.h>
#include <etna/models/internal/gguf_vocabulary.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// n where layers 0, n, 2n ... see whole texts, and only these; 0: other ones do.
std::int64_t whole_every(const EncoderConfig& c) {
  std::int64_t every = 1;
  while (every < c.layers && c.has_window(every)) ++every;
  for (std::int64_t i = 0; i < c.layers; ++i)
    if (c.has_window(i) != (i % every != 0)) return 0;
  return every;
}

/// GGUF has no words for some parts of a design: the architecture's name implies them.
void check_gguf_encoder(const EncoderConfig& c, const EncoderFamily& family) {
  const auto refuse = [&](const std::string& why) {
    throw FormatError(fmt::format("a GGUF file cannot hold the encoder: {}", why));
  };
  if (family.gguf.empty())
    refuse(fmt::format("'{}' is not written here; bert, its kin, nomic_bert and modernbert are", c.architecture));
  EncoderConfig usual;
  family.apply(usual);
  if (c.activation != usual.activation)
    refuse(fmt::format("its activation is {}; that of '{}' there is {}", etna::name(c.activation), family.gguf,
                       etna::name(usual.activation)));
  if (c.gated != usual.gated || c.positions != usual.positions || c.pre_norm != usual.pre_norm ||
      c.norm_bias != usual.norm_bias)
    refuse(fmt::format("its design is not that of '{}' there", family.gguf));
  if (c.embedding_width != c.width || c.head_rows() != c.width)
    refuse("its embeddings or heads have a width of their own");
  if (c.positions == PositionKind::rotary && c.rope_size != c.head_size) refuse("it rotates a part of each head");
  if (!c.windowed.empty() && whole_every(c) == 0) refuse("layers with a window do not take turns with others");
  if (c.classifier.labels > 0 && (c.classifier.activation || c.classifier.norm || !c.classifier.bias))
    refuse("its classifier is not BERT's");
}

class EncoderExporter {
 public:
  EncoderExporter(const Encoder& encoder, const quant::BlockFormat* format) : config_(encoder.config), format_(format) {
    const EncoderConfig& c = config_;
    matrix("token_embedding", encoder.token_embedding);
    // llama.cpp adds these tables row by row and wants them whole. It counts positions from 0.
    if (encoder.position_embedding) {
      const std::int64_t rows = encoder.position_embedding->out;
      plain("position_embedding.weight",
            dequantize(encoder.position_embedding->blocks().to(kCPU)).slice(0, c.position_offset, rows).contiguous());
    }
    if (encoder.type_embedding) plain("type_embedding.weight", dequantize(encoder.type_embedding->blocks().to(kCPU)));
    norm("embedding_norm", encoder.embedding_norm);
    for (std::size_t i = 0; i < encoder.blocks.size(); ++i) {
      const EncoderBlock& block = encoder.blocks[i];
      const std::string name = fmt::format("blocks.{}.", i);
      if (block.attention_norm) norm(name + "attention_norm", *block.attention_norm);
      if (c.positions == PositionKind::rotary)
        matrix(name + "qkv", block.qkv);
      else
        three(name, block.qkv);
      matrix(name + "output", block.output);
      norm(name + "ffn_norm", block.ffn_norm);
      if (gguf_encoder_name(c, name + "ffn.gate_and_up.weight").ends_with(".ffn_up.weight")) {
        const Tensor gate = dequantize(block.ffn.gate->blocks().to(kCPU)),
                     up = dequantize(block.ffn.up.blocks().to(kCPU));
        rows(name + "ffn.gate_and_up", cat({gate, up}), block.ffn.up.blocks().format());
      } else {
        if (block.ffn.gate) matrix(name + "ffn.gate", *block.ffn.gate);
        matrix(name + "ffn.up", block.ffn.up);
      }
      matrix(name + "ffn.down", block.ffn.down);
    }
    if (encoder.norm) norm("norm", *encoder.norm);
    if (encoder.classifier) {
      matrix("classifier.dense", encoder.classifier->dense);
      matrix("classifier.output", encoder.classifier->output);
    }
  }

  void write(io::GgufWriter& to) const {
    for (const EncoderTensor& tensor : tensors_) to.add(tensor.name, *tensor.format, tensor.values.shape());
    for (const EncoderTensor& tensor : tensors_) to.write(tensor.name, tensor.values);
  }

 private:
  struct EncoderTensor {
    std::string name;
    const quant::BlockFormat* format = nullptr;
    Tensor values;
  };

  void matrix(const std::string& name, const Projection& layer) {
    const QuantizedTensor blocks = layer.blocks().to(kCPU);
    rows(name, dequantize(blocks), blocks.format());
    if (layer.bias.defined()) plain(name + ".bias", layer.bias.detach().to(kCPU, f32));
  }
  void rows(const std::string& name, const Tensor& values, const quant::BlockFormat& own) {
    const bool fits = format_ == nullptr || io::gguf_can_hold(*format_, values.shape());
    const quant::BlockFormat* format = format_ == nullptr ? &own : fits ? format_ : &quant::format_named("F16");
    tensors_.push_back({gguf_encoder_name(config_, name + ".weight"), format, values});
  }
  /// Queries, keys and values, which are one matrix here.
  void three(const std::string& name, const Projection& layer) {
    const QuantizedTensor blocks = layer.blocks().to(kCPU);
    const Tensor all = dequantize(blocks);
    const std::int64_t size = layer.out / 3;
    std::int64_t at = 0;
    for (const char* part : {"query", "key", "value"}) {
      rows(name + part, all.slice(0, at, at + size).contiguous(), blocks.format());
      if (layer.bias.defined())
        plain(name + part + ".bias", layer.bias.detach().to(kCPU, f32).slice(0, at, at + size).contiguous());
      at += size;
    }
  }
  void plain(const std::string& name, const Tensor& values) {
    tensors_.push_back({gguf_encoder_name(config_, name), &quant::format_named("F32"), values.to(f32)});
  }
  void norm(const std::string& name, const Norm& norm) {
    plain(name + ".weight", norm.weight.detach().to(kCPU, f32));
    if (norm.bias.defined()) plain(name + ".bias", norm.bias.detach().to(kCPU, f32));
  }

  const EncoderConfig& config_;
  const quant::BlockFormat* format_;
  std::vector<EncoderTensor> tensors_;
};

}  // namespace

void save_gguf_encoder(const FilePath& path, const Encoder& encoder, const data::Tokenizer* tokenizer, Pooling pooling,
                       const quant::BlockFormat* format) {
  const EncoderConfig& c = encoder.config;
  const EncoderFamily& family = family_of(c);
  check_gguf_encoder(c, family);
  const std::optional<data::VocabularyFields> fields = vocabulary_to_write(tokenizer, c.vocabulary);
  const EncoderExporter exporter(encoder, format);
  io::GgufWriter to(path);
  const auto key = [&](const char* last) { return fmt::format("{}.{}", family.gguf, last); };
  const auto whole = [&](const char* last, std::int64_t value) {
    to.set(key(last), static_cast<std::uint32_t>(value));
  };
  to.set("general.architecture", std::string(family.gguf));
  if (!c.name.empty()) to.set("general.name", c.name);
  whole("context_length", c.context);
  whole("embedding_length", c.width);
  whole("block_count", c.layers);
  whole("feed_forward_length", c.feed_forward);
  whole("attention.head_count", c.heads);
  to.set(key("attention.layer_norm_epsilon"), static_cast<float>(c.norm_eps));
  to.set(key("attention.causal"), false);
  whole("pooling_type", c.classifier.labels > 0 ? kGgufRank : gguf_pooling(pooling));
  if (c.positions == PositionKind::rotary) to.set(key("rope.freq_base"), static_cast<float>(c.rope_base));
  if (!c.windowed.empty()) {
    whole("attention.sliding_window", 2 * c.window);
    whole("attention.sliding_window_pattern", whole_every(c));
    to.set(key("rope.freq_base_swa"), static_cast<float>(c.window_rope_base));
    to.set(key("hidden_activation"), etna::name(c.activation));
    whole("vocab_size", c.vocabulary);
  }
  // llama.cpp wants one where there is no table.
  to.set("tokenizer.ggml.token_type_count", static_cast<std::uint32_t>(std::max<std::int64_t>(1, c.token_types)));
  set_vocabulary(to, fields);
  exporter.write(to);
  to.finish();
}

}  // namespace etna::models
