#include <fmt/format.h>

#include <etna/models/internal/encoder_family.h>
#include <etna/tensor/io/gguf.h>

namespace etna::models {
namespace {

/// Layers with a window: all but the first of every n.
void read_windows_gguf(const io::GgufFile& file, const std::string& architecture, EncoderConfig& c) {
  const std::string of_window = architecture + ".attention.sliding_window";
  c.window = file.integer(of_window, 2 * c.window) / 2;
  c.window_rope_base = file.number(architecture + ".rope.freq_base_swa", c.window_rope_base);
  const std::int64_t every = file.integer(of_window + "_pattern", 3);
  if (every < 1) throw FormatError(fmt::format("'{}_pattern' is {}; it must be above 0", of_window, every));
  if (c.layers < 1 || c.layers > 1 << 14) return;  // which check() refuses
  for (std::int64_t i = 0; i < c.layers; ++i) c.windowed.push_back(i % every != 0);
}

EncoderConfig read_encoder_gguf(const io::GgufFile& file) {
  const std::string architecture = file.string("general.architecture");
  const EncoderFamily* family = find_encoder_gguf(architecture);
  if (family == nullptr) {
    throw FormatError(
        fmt::format("models of the architecture '{}' are no text encoders that run here; these do: bert, nomic-bert, "
                    "modern-bert",
                    architecture));
  }
  const auto key = [&](const char* last) { return architecture + "." + last; };
  const auto rows_of = [&](const char* name) -> std::int64_t {
    const io::GgufTensor* tensor = file.find_tensor(name);
    return tensor != nullptr && tensor->shape.rank() == 2 ? tensor->shape[0] : 0;
  };
  const auto has = [&](const char* name) { return file.find_tensor(name) != nullptr; };
  EncoderConfig c;
  family->apply(c);
  c.architecture = family->hugging_face;
  c.name = file.string("general.name", "");
  c.vocabulary = rows_of("token_embd.weight");
  c.width = c.embedding_width = file.integer(key("embedding_length"));
  c.layers = file.integer(key("block_count"));
  c.heads = file.integer(key("attention.head_count"));
  c.head_size = c.heads > 0 ? c.width / c.heads : 0;
  c.feed_forward = file.integer(key("feed_forward_length"));
  c.context = file.integer(key("context_length"));
  c.norm_eps = file.number(key("attention.layer_norm_epsilon"), c.norm_eps);
  c.token_types = rows_of("token_types.weight");
  c.attention_bias = has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias");
  c.ffn_bias = has("blk.0.ffn_up.bias");
  c.gated = has("blk.0.ffn_gate.weight") || rows_of("blk.0.ffn_up.weight") == 2 * c.feed_forward;
  if (c.positions == PositionKind::learned) c.context = rows_of("position_embd.weight");
  if (c.positions == PositionKind::rotary) {
    c.rope_base = file.number(key("rope.freq_base"), c.rope_base);
    c.rope_size = c.head_size;
  }
  if (c.window > 0) read_windows_gguf(file, architecture, c);
  c.classifier.labels = has("cls.weight") ? rows_of("cls.output.weight") : 0;
  return c;
}

}  // namespace

EncoderConfig encoder_config(const io::GgufFile& file) {
  try {
    EncoderConfig config = read_encoder_gguf(file);
    config.check();
    return config;
  } catch (const FormatError& error) {
    const std::string what = error.what(), path = file.path().string();
    if (what.find(path) != std::string::npos) throw;
    throw FormatError(fmt::format("{}: {}", path, what));
  }
}

}  // namespace etna::models
