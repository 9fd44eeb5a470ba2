#include <cmath>

#include <fmt/format.h>

#include <etna/models/architecture.h>
#include <etna/models/decoder_config.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/llama2c.h>

namespace etna::models {
namespace {

RopeScaling scaling_named(const std::string& type) {
  if (type.empty() || type == "none") return RopeScaling::none;
  if (type == "linear") return RopeScaling::linear;
  if (type == "yarn") return RopeScaling::yarn;
  if (type == "longrope") return RopeScaling::none;  // its divisors say all
  throw FormatError(fmt::format("the scaling of rope is '{}'; known are none, linear, yarn and longrope", type));
}

class Reader {
 public:
  Reader(const io::GgufFile& file, std::string architecture) : file_(file), prefix_(architecture + ".") {}
  std::int64_t integer(const char* key) const { return file_.integer(prefix_ + key); }
  std::int64_t integer(const char* key, std::int64_t otherwise) const {
    return file_.integer(prefix_ + key, otherwise);
  }
  double number(const char* key, double otherwise) const { return file_.number(prefix_ + key, otherwise); }
  std::string string(const char* key, const std::string& otherwise) const {
    return file_.string(prefix_ + key, otherwise);
  }
  bool has(const char* key) const { return file_.find(prefix_ + key) != nullptr; }

 private:
  const io::GgufFile& file_;
  std::string prefix_;
};

void read_rope(const Reader& read, const io::GgufFile& file, DecoderConfig& c) {
  RopeConfig& rope = c.rope;
  rope.size = read.integer("rope.dimension_count", rope.size);
  rope.base = read.number("rope.freq_base", rope.base);
  rope.scaling = scaling_named(read.string("rope.scaling.type", ""));
  rope.factor = read.number("rope.scaling.factor", 1);
  if (!read.has("rope.scaling.factor") && read.has("rope.scale_linear")) {
    rope.scaling = RopeScaling::linear;
    rope.factor = read.number("rope.scale_linear", 1);
  }
  rope.original_context = read.integer("rope.scaling.original_context_length", c.context);
  const double given = read.number("rope.scaling.attn_factor", 0);
  if (given > 0) rope.attention_factor = given * c.rope_magnitude();
  if (file.find_tensor("rope_freqs.weight") != nullptr)
    rope.divisors = file.load("rope_freqs.weight").to(f32).to_vector<float>();
  const bool longer = c.context > rope.original_context;
  const char* factors = longer ? "rope_factors_long.weight" : "rope_factors_short.weight";
  if (file.find_tensor(factors) != nullptr) rope.divisors = file.load(factors).to(f32).to_vector<float>();
}

DecoderConfig read_config(const io::GgufFile& file) {
  DecoderConfig c;
  c.architecture = file.string("general.architecture");
  const Architecture* architecture = find_architecture_gguf(c.architecture);
  if (architecture == nullptr) {
    throw FormatError(fmt::format("models of the architecture '{}' do not run here; these do: {}", c.architecture,
                                  architecture_names()));
  }
  architecture->apply(c);
  const Reader read(file, c.architecture);
  c.name = file.string("general.name", "");
  c.context = read.integer("context_length");
  c.width = read.integer("embedding_length");
  c.layers = read.integer("block_count");
  c.heads = read.integer("attention.head_count");
  c.kv_heads = read.integer("attention.head_count_kv", c.heads);
  c.head_size = read.integer("attention.key_length", 0);
  c.feed_forward = read.integer("feed_forward_length");
  if (read.integer("attention.value_length", c.head_size) != c.head_size)
    throw FormatError("heads of keys and of values have different sizes; they must be equal");
  if (read.integer("expert_count", 0) > 0) throw FormatError("a mixture of experts does not run here");
  c.norm_eps = read.number(
      c.norm == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", c.norm_eps);
  const io::GgufTensor& table = file.tensor("token_embd.weight");
  c.vocabulary = table.shape.rank() == 2 ? table.shape[0] : 0;
  c.attention_softcap = read.number("attn_logit_softcapping", 0);
  c.logit_softcap = read.number("final_logit_softcapping", 0);
  c.attention_scale = read.number("attention.scale", 0);
  c.window = read.integer("attention.sliding_window", 0);
  fill_defaults(c);
  read_rope(read, file, c);

  const auto has = [&](const char* name) { return file.find_tensor(name) != nullptr; };
  c.tied = !has("output.weight");
  c.query_bias = has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias");
  c.output_bias = has("blk.0.attn_output.bias");
  c.ffn_bias = has("blk.0.ffn_down.bias");
  c.head_bias = has("output.bias");
  c.query_key_norm = has("blk.0.attn_q_norm.weight");
  c.ternary_scales = has("blk.0.attn_q.scale");
  // Gemma 2 with 27 billion weights scales by what a head has of the width.
  if (c.architecture == "gemma2" && c.layers == 46 && c.attention_scale == 0)
    c.attention_scale = 1 / std::sqrt(static_cast<double>(c.width / c.heads));
  return c;
}

}  // namespace

DecoderConfig decoder_config(const io::GgufFile& file) {
  try {
    DecoderConfig config = read_config(file);
    config.check();
    return config;
  } catch (const FormatError& error) {
    const std::string what = error.what(), path = file.path().string();
    if (what.find(path) != std::string::npos) throw;
    throw FormatError(fmt::format("{}: {}", path, what));
  }
}

DecoderConfig decoder_config(const io::Llama2cConfig& from) {
  DecoderConfig c;
  c.vocabulary = from.vocabulary;
  c.context = from.context;
  c.width = from.width;
  c.layers = from.layers;
  c.heads = from.heads;
  c.kv_heads = from.kv_heads;
  c.head_size = from.head_width();
  c.feed_forward = from.feed_forward;
  c.tied = from.tied;
  c.rope.size = c.head_size;
  c.rope.interleaved = true;
  c.check();
  return c;
}

}  // namespace etna::models
