#include <etna/models/architecture.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace etna::models {
namespace {

void plain(DecoderConfig&) {}
/// GGUF files of this family hold queries and keys in the order of Meta's.
void llama(DecoderConfig& c) { c.rope.interleaved = true; }
void qwen2(DecoderConfig& c) { c.query_bias = true; }
void qwen3(DecoderConfig& c) { c.query_key_norm = true; }
void gemma(DecoderConfig& c) {
  c.activation = ActivationKind::gelu_tanh;
  c.tied = true;
}
void gemma2(DecoderConfig& c) {
  gemma(c);
  c.post_norms = true;
  c.window_every = 2;
  c.attention_softcap = 50;
  c.logit_softcap = 30;
}
void gemma3(DecoderConfig& c) {
  gemma(c);
  c.post_norms = c.query_key_norm = true;
  c.window_every = 6;
  c.window_rope_base = 10000;
}
void gpt2(DecoderConfig& c) {
  c.norm = NormKind::layer;
  c.norm_bias = c.query_bias = c.output_bias = c.ffn_bias = c.tied = true;
  c.positions = PositionKind::learned;
  c.gated = false;
  c.activation = ActivationKind::gelu_tanh;
}
void phi2(DecoderConfig& c) {
  c.norm = NormKind::layer;
  c.norm_bias = c.query_bias = c.output_bias = c.ffn_bias = c.head_bias = c.parallel = true;
  c.gated = false;
  c.activation = ActivationKind::gelu_tanh;
}
void bitnet(DecoderConfig& c) { c.sub_norms = c.tied = true; }
void bitnet_squared(DecoderConfig& c) {
  bitnet(c);
  c.activation = ActivationKind::relu_squared;
}

constexpr Architecture kAll[] = {{"llama", "llama", llama},
                                 {"llama", "mistral", llama},
                                 {"qwen2", "qwen2", qwen2},
                                 {"qwen3", "qwen3", qwen3},
                                 {"gemma", "gemma", gemma},
                                 {"gemma2", "gemma2", gemma2},
                                 {"gemma3", "gemma3_text", gemma3},
                                 {"gemma3", "gemma3", gemma3},
                                 {"phi2", "phi", phi2},
                                 {"phi3", "phi3", plain},
                                 {"gpt2", "gpt2", gpt2},
                                 {"bitnet", "", bitnet},
                                 {"bitnet-25", "", bitnet_squared},
                                 {"bitnet-b1.58", "bitnet", bitnet_squared}};

}  // namespace

const Architecture* find_architecture_gguf(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kAll), std::end(kAll), [&](const Architecture& a) { return a.gguf == name; });
  return found == std::end(kAll) ? nullptr : found;
}

const Architecture* find_architecture_hugging_face(std::string_view name) {
  const auto* found = std::find_if(std::begin(kAll), std::end(kAll),
                                   [&](const Architecture& a) { return !name.empty() && a.hugging_face == name; });
  return found == std::end(kAll) ? nullptr : found;
}

std::vector<std::string_view> known_architectures() {
  std::vector<std::string_view> names;
  for (const Architecture& a : kAll)
    if (names.empty() || std::find(names.begin(), names.end(), a.gguf) == names.end()) names.push_back(a.gguf);
  return names;
}

std::string architecture_names() { return fmt::format("{}", fmt::join(known_architectures(), ", ")); }

void fill_defaults(DecoderConfig& c) {
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_size == 0 && c.heads > 0) c.head_size = c.width / c.heads;
  if (c.rope.size == 0) c.rope.size = c.head_size;
  if (c.architecture.starts_with("gemma")) c.embedding_scale = std::sqrt(static_cast<double>(c.width));
}

bool set_windows(DecoderConfig& c, const std::vector<bool>& windowed) {
  if (windowed.empty() || static_cast<std::int64_t>(windowed.size()) != c.layers) return false;
  const auto full = std::find(windowed.begin(), windowed.end(), false);
  if (full == windowed.begin()) {
    c.window = 0;
  } else {
    c.window_every = full == windowed.end() ? 1 : full - windowed.begin() + 1;
  }
  for (std::size_t i = 0; i < windowed.size(); ++i)
    if (windowed[i] != c.has_window(static_cast<std::int64_t>(i))) return false;
  return true;
}

}  // namespace etna::models
