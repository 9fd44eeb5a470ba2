#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/stored_weights.h>
#include <etna/models/model_file.h>
#include <etna/optim/optim.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "small_models.h"

// Designs with parts that few decoders have, in other settings than those of published small models: a text that is
// read at once, and one that grows in a cache, give the same logits, and they learn.
namespace etna::models {
namespace {

struct Design {
  const char* name;
  const char* json;  ///< fields of config.json besides sizes that all have
};

void PrintTo(const Design& design, std::ostream* out) { *out << design.name; }

DecoderConfig config_of(const Design& design) {
  return decoder_config(fmt::format(R"({{"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 6, "head_dim": 8,
      "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, {}}})",
                                    design.json),
                        "config.json");
}

const Design kDesigns[] = {
    {"GptOss", R"("model_type": "gpt_oss", "intermediate_size": 24, "num_local_experts": 5, "experts_per_token": 3,
                 "sliding_window": 7, "swiglu_limit": 1.5, "attention_bias": true,
                 "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention",
                                 "sliding_attention", "full_attention"])"},
    {"Llama4",
     R"("model_type": "llama4_text", "intermediate_size": 24, "intermediate_size_mlp": 40, "num_local_experts": 3,
                 "num_experts_per_tok": 2, "attention_chunk_size": 5, "interleave_moe_layer_step": 3,
                 "no_rope_layers": [1, 0, 1, 1, 0, 1], "floor_scale": 8, "attn_scale": 0.4)"},
    {"Llama4WithoutNorms", R"("model_type": "llama4_text", "intermediate_size": 24, "num_local_experts": 3,
                 "attention_chunk_size": 64, "use_qk_norm": false, "moe_layers": [2, 3],
                 "attn_temperature_tuning": false)"},
    {"Gemma3n", R"("model_type": "gemma3n_text", "intermediate_size": [40, 32, 40, 32, 24, 24], "sliding_window": 6,
                 "activation_sparsity_pattern": [0.9, 0.5, 0, 0, 0.2, 0], "num_kv_shared_layers": 2,
                 "hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": 50, "laurel_rank": 4,
                 "altup_num_inputs": 3, "altup_active_idx": 1, "altup_coef_clip": 0.5,
                 "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention",
                                 "full_attention", "sliding_attention"])"},
    {"Gemma4", R"("model_type": "gemma4_text", "intermediate_size": 40, "sliding_window": 6, "global_head_dim": 16,
                 "attention_k_eq_v": true, "num_global_key_value_heads": 1, "hidden_size_per_layer_input": 6,
                 "vocab_size_per_layer_input": 61, "num_kv_shared_layers": 2, "use_double_wide_mlp": true,
                 "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention",
                                 "sliding_attention", "full_attention"])"},
    {"Gemma4WithExperts", R"("model_type": "gemma4_text", "intermediate_size": 40, "sliding_window": 6,
                 "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "enable_moe_block": true,
                 "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 12, "global_head_dim": 264,
                 "final_logit_softcapping": 20.0, "tie_word_embeddings": false)"},
    {"Llama4AsPublished",
     R"("model_type": "llama4_text", "intermediate_size": 24, "intermediate_size_mlp": 40, "num_local_experts": 3,
                 "num_experts_per_tok": 1, "interleave_moe_layer_step": 2)"},
    {"StableLmWithNormsOfHeads", R"("model_type": "stablelm", "intermediate_size": 48, "qk_layernorm": true,
                 "use_parallel_residual": true, "partial_rotary_factor": 0.5)"},
    {"OlmoeWithLimits", R"("model_type": "olmoe", "intermediate_size": 24, "num_experts": 4,
                 "num_experts_per_tok": 2, "clip_qkv": 0.6)"},
    {"DeepSeekWithBiases", R"("model_type": "deepseek_v3", "intermediate_size": 48, "moe_intermediate_size": 16,
                 "first_k_dense_replace": 5, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
                 "q_lora_rank": 20, "kv_lora_rank": 12, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
                 "rope_interleave": false, "attention_bias": true)"},
    {"GlmWithLatentAttention", R"("model_type": "glm4_moe_lite", "intermediate_size": 48, "moe_intermediate_size": 16,
                 "mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse", "sparse"],
                 "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "routed_scaling_factor": 1.8,
                 "q_lora_rank": 20, "kv_lora_rank": 12, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16,
                 "v_head_dim": 24)"},
    {"NemotronWithRowsOfExperts", R"("model_type": "nemotron_h", "hybrid_override_pattern": "ME*EME",
                 "n_routed_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 10, "moe_latent_size": 12,
                 "moe_shared_expert_intermediate_size": 20, "mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 2,
                 "ssm_state_size": 8, "conv_kernel": 4, "mlp_hidden_act": "relu2", "routed_scaling_factor": 2.5)"},
};

class FewPartsOf : public testing::TestWithParam<Design> {};
INSTANTIATE_TEST_SUITE_P(Designs, FewPartsOf, testing::ValuesIn(kDesigns), testing::PrintToStringParamName());

std::vector<std::int32_t> quadratic_text() {
  std::vector<std::int32_t> text;
  for (std::int32_t i = 0; i < 40; ++i) text.push_back((i * i * 7 + 3 * i) % 61);
  return text;
}

double furthest_apart(const Tensor& a, const Tensor& b) {
  return abs(a.detach().to(kCPU) - b.detach().to(kCPU)).max().item<double>();
}

/// Logits of a text of which prompts of 17 and then single tokens are read into a cache.
Tensor logits_by_steps(const Decoder& model, Device device, const std::vector<std::int32_t>& text) {
  KvCache cache(model.config, device, {.tokens = 256, .dtype = f32});
  const auto id = cache.start(text).id;
  cache.reserve(id, std::ssize(text));
  const Tensor table = from_vector(cache.row(id, 4), {1, 4}, device);
  std::vector<Tensor> rows;
  for (std::int64_t at = 0; at < std::ssize(text);) {
    const std::int64_t count = at == 0 ? 17 : 1;
    const std::vector<std::int32_t> part(text.begin() + at, text.begin() + at + count);
    const Tensor positions = full({1}, static_cast<double>(at), {i32, device});
    DecoderCache to{&cache.layers(), {table, positions}};
    if (cache.keeps_states()) {
      to.states = cache.states();
      to.state_rows = full({1}, static_cast<double>(cache.state_row(id)), {i32, device});
    }
    rows.push_back(model.head(model.extend(from_vector(part, {1, count}, device), to)));
    at += count;
  }
  return cat(rows, 1);
}

void expect_same_by_steps(const Design& design, Device device) {
  manual_seed(3);
  LoudWeights weights;
  Decoder model(config_of(design), weights);
  model.to(device);
  const NoGrad no_grad;
  const std::vector<std::int32_t> text = quadratic_text();
  const Tensor whole = model.forward(from_vector(text, {1, std::ssize(text)}, device));
  EXPECT_LT(furthest_apart(whole, logits_by_steps(model, device, text)), 2e-4 * abs(whole).max().item<double>());
}

TEST_P(FewPartsOf, TextsThatGrowGiveTheLogitsOfWholeOnes) { expect_same_by_steps(GetParam(), kCPU); }

TEST(FewParts, TextsThatGrowGiveTheLogitsOfWholeOnesOnVulkan) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  for (const Design& design : kDesigns) {
    const std::string name = design.name;
    if (name != "GptOss" && name != "Llama4" && name != "Gemma4" && name != "StableLmWithNormsOfHeads" &&
        name != "OlmoeWithLimits" && name != "DeepSeekWithBiases" && name != "NemotronWithRowsOfExperts")
      continue;
    SCOPED_TRACE(name);
    expect_same_by_steps(design, kVulkan);
  }
}

TEST_P(FewPartsOf, GgufFilesGiveTheSameLogits) {
  manual_seed(3);
  LoudWeights weights;
  const Decoder model(config_of(GetParam()), weights);
  const TemporaryFolder folder;
  const std::string name = GetParam().name;
  if (name == "GptOss" || name == "Llama4" || name == "Llama4WithoutNorms" || name == "OlmoeWithLimits" ||
      name == "DeepSeekWithBiases") {
    EXPECT_THROW(save_gguf_model(folder / "model.gguf", model, nullptr), FormatError);
    return;
  }
  save_gguf_model(folder / "model.gguf", model, nullptr);
  const Model again = load_model(folder / "model.gguf", {.trainable = true});
  const NoGrad no_grad;
  const std::vector<std::int32_t> text = quadratic_text();
  const Tensor tokens = from_vector(text, {1, std::ssize(text)}), whole = model.forward(tokens);
  EXPECT_LT(furthest_apart(whole, again.decoder->forward(tokens)), 1e-5 * abs(whole).max().item<double>());
}

TEST_P(FewPartsOf, HasAsManyWeightsAsItsConfigSays) {
  const Decoder model(config_of(GetParam()));
  std::int64_t count = 0;
  for (const nn::NamedTensor& p : model.named_parameters()) count += p.tensor.numel();
  EXPECT_EQ(count, model.config.num_parameters());
}

TEST_P(FewPartsOf, LearnsATextWithAndWithoutRecomputation) {
  const std::vector<std::int32_t> text = quadratic_text();
  const auto size = std::ssize(text) - 1;
  const Tensor in = from_vector(std::vector<std::int32_t>(text.begin(), text.end() - 1), {1, size}),
               target = from_vector(std::vector<std::int32_t>(text.begin() + 1, text.end()), {1, size}).to(i64);
  std::vector<double> last;
  for (const bool recompute : {false, true}) {
    manual_seed(5);
    DecoderConfig config = config_of(GetParam());
    config.recompute_blocks = recompute;
    Decoder model(config);
    optim::AdamW optimizer(model.parameters(), {.lr = 0.02});
    double first = 0;
    for (int step = 0; step < 20; ++step) {
      const Tensor loss = model.loss(in, target);
      if (step == 0) first = loss.item<double>();
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      last.resize(recompute ? 2 : 1);
      last.back() = loss.item<double>();
    }
    EXPECT_LT(last.back(), 0.7 * first);
  }
  EXPECT_NEAR(last[0], last[1], 1e-3 * std::max(1.0, last[0]));
}

using Row = std::vector<double>;

/// x divided by the root of its mean square, times weights.
Row normed_row(const Row& x, const Row& weight) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-6);
  Row y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i] * scale * weight[i]);
  return y;
}

/// Rows `first` to `first + count` of a matrix, times x.
Row times(const Row& matrix, std::size_t first, std::size_t count, const Row& x) {
  Row y(count);
  for (std::size_t r = 0; r < count; ++r)
    for (std::size_t i = 0; i < x.size(); ++i) y[r] += matrix[(first + r) * x.size() + i] * x[i];
  return y;
}

TEST(FewParts, ExpertsBesideALayerAreAsTheirFormulaSays) {
  const DecoderConfig config = config_of(kDesigns[5]);
  manual_seed(11);
  LoudWeights weights;
  const ExpertsBeside beside(weights, "beside", config);
  const auto values = [](const Tensor& x) { return x.detach().to(f64).flatten().to_vector<double>(); };
  constexpr std::size_t kWidth = 32, kColumns = 12, kExperts = 4;
  const Tensor x = randn({1, 3, 32}), dense = randn({1, 3, 32});
  const Row all = values(x), all_dense = values(dense), got = values(beside.forward(dense, x, {}));
  const Row logits_of = values(beside.ffn.router->logits.weight), gates = values(beside.ffn.gate->weight),
            ups = values(beside.ffn.up.weight), downs = values(beside.ffn.down.weight),
            factors = values(beside.factors);
  for (std::size_t row = 0; row < 3; ++row) {
    const auto part = [&](const Row& of) {
      return Row(of.begin() + static_cast<std::ptrdiff_t>(row * kWidth),
                 of.begin() + static_cast<std::ptrdiff_t>((row + 1) * kWidth));
    };
    Row read = normed_row(part(all), values(beside.router_scale));
    for (double& v : read) v /= std::sqrt(static_cast<double>(kWidth));
    Row shares = times(logits_of, 0, kExperts, read);
    for (double& v : shares) v = std::exp(v);
    std::vector<std::size_t> order{0, 1, 2, 3};
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
    const Row in = normed_row(part(all), values(beside.norm.weight));
    Row sum(kWidth);
    for (const std::size_t e : {order[0], order[1]}) {
      const Row gate = times(gates, e * kColumns, kColumns, in), up = times(ups, e * kColumns, kColumns, in);
      Row h;
      for (std::size_t i = 0; i < kColumns; ++i) {
        const double g = gate[i], inner = std::sqrt(2 / 3.14159265358979323846) * (g + 0.044715 * g * g * g);
        h.push_back(0.5 * g * (1 + std::tanh(inner)) * up[i]);
      }
      const Row down = times(downs, e * kWidth, kWidth, h);
      const double factor = shares[e] / (shares[order[0]] + shares[order[1]]) * factors[e];
      for (std::size_t i = 0; i < kWidth; ++i) sum[i] += factor * down[i];
    }
    const Row a = normed_row(part(all_dense), values(beside.dense_norm.weight)),
              b = normed_row(sum, values(beside.post_norm.weight));
    for (std::size_t i = 0; i < kWidth; ++i) EXPECT_NEAR(got[row * kWidth + i], a[i] + b[i], 2e-5) << row << " " << i;
  }
}

/// Attention without rotation, of heads whose queries and keys are normed and limited, as plain sums.
Tensor plain_attention(const DecoderAttention& own, const DecoderConfig& c, const Tensor& x) {
  const std::int64_t steps = x.size(1), group = c.heads / c.kv_heads;
  const auto rows_of = [&](const Projection& layer, const nn::UnaryModule* norm, const Tensor& weight,
                           std::int64_t head) {
    Tensor all = layer(x, {}).select(0, 0).to(f64);
    if (norm != nullptr && !weight.defined()) all = (*norm)(all.to(f32)).to(f64);
    Tensor rows = all.slice(-1, head * c.head_size, (head + 1) * c.head_size);
    if (weight.defined()) {
      const Tensor centered = rows - rows.mean(-1, true);
      const Tensor deviation = sqrt((centered * centered).mean(-1, true) + c.norm_eps);
      rows = centered / deviation * weight.to(f64).slice(0, head * c.head_size, (head + 1) * c.head_size);
    }
    return c.qkv_limit > 0 ? clamp(rows, -c.qkv_limit, c.qkv_limit) : rows;
  };
  const auto weight_of = [&](const Owned<Norm>& norm) { return c.layer_norms_heads ? norm->weight : Tensor(); };
  const Tensor positions = arange(0, steps, 1, {i64, kCPU});
  const Tensor behind = positions.unsqueeze(0) > positions.unsqueeze(1);
  std::vector<Tensor> heads;
  for (std::int64_t h = 0; h < c.heads; ++h) {
    const Tensor q = rows_of(*own.query, own.query_norm.get(), weight_of(own.query_norm), h);
    const Tensor k = rows_of(*own.key, own.key_norm.get(), weight_of(own.key_norm), h / group);
    const Tensor v = rows_of(*own.value, nullptr, {}, h / group);
    const Tensor scores = matmul(q, k.t()) / std::sqrt(static_cast<double>(c.head_size));
    heads.push_back(matmul(softmax(full_like(scores, -1e30).where(behind, scores), -1), v));
  }
  return own.output(cat(heads, -1).to(f32).unsqueeze(0), {});
}

TEST(FewParts, HeadsAreNormedAndLimitedAsTheirFormulasSay) {
  const NoGrad no_grad;
  for (const std::size_t design : {std::size(kDesigns) - 5, std::size(kDesigns) - 4}) {
    SCOPED_TRACE(kDesigns[design].name);
    DecoderConfig config = config_of(kDesigns[design]);
    config.each_layer.assign(static_cast<std::size_t>(config.layers), config.layer(0));
    for (LayerConfig& layer : config.each_layer) layer.rotary = false;
    const DecoderConfig plain = config;
    manual_seed(13);
    LoudWeights weights;
    const DecoderAttention attention(weights, "attention", plain, 0);
    const Tensor x = randn({1, 9, config.width});
    const Tensor wanted = plain_attention(attention, plain, x);
    EXPECT_LT(furthest_apart(attention.forward(x), wanted), 1e-5 * abs(wanted).max().item<double>());
    config.layer_norms_heads = false;
    config.qkv_limit = 0;
    manual_seed(13);
    LoudWeights again;
    const DecoderAttention other(again, "attention", config, 0);
    EXPECT_GT(furthest_apart(other.forward(x), wanted), 1e-2 * abs(wanted).max().item<double>());
  }
}

TEST(FewParts, PairsOfDeepSeekAreNeighboursOrHalves) {
  const NoGrad no_grad;
  DecoderConfig config = config_of(kDesigns[std::size(kDesigns) - 3]);
  EXPECT_FALSE(config.rope.interleaved);
  config.query_bias = false;
  // With rows of `query` and `down` in the other order, the pairs are the same ones.
  manual_seed(17);
  LoudWeights weights;
  DecoderAttention halves(weights, "attention", config, 0);
  config.rope.interleaved = true;
  manual_seed(17);
  LoudWeights again;
  DecoderAttention neighbours(again, "attention", config, 0);
  const std::int64_t turned = config.rope.size, still = config.head_size - turned;
  const auto reorder = [&](Tensor& weight, std::int64_t first) {
    std::vector<Tensor> rows;
    for (std::int64_t i = 0; i < turned; ++i)
      rows.push_back(weight.slice(0, first + i / 2 + i % 2 * turned / 2, first + i / 2 + i % 2 * turned / 2 + 1));
    weight.slice(0, first, first + turned).copy_(cat(rows).clone());
  };
  for (std::int64_t head = 0; head < config.heads; ++head)
    reorder(neighbours.latent->query.weight, head * config.head_size + still);
  reorder(neighbours.latent->down.weight, config.latent.size);
  const Tensor x = randn({1, 9, config.width});
  const Tensor wanted = halves.forward(x);
  EXPECT_LT(furthest_apart(neighbours.forward(x), wanted), 1e-5 * abs(wanted).max().item<double>());
}

TEST(FewParts, ExpertsReadRowsOfTheirOwnSize) {
  const NoGrad no_grad;
  const DecoderConfig config = config_of(kDesigns[std::size(kDesigns) - 1]);
  EXPECT_EQ(config.expert_width(), 12);
  manual_seed(19);
  LoudWeights weights;
  const DecoderFeedForward ffn(weights, "ffn", config, config.experts.feed_forward, &config.experts);
  const Tensor x = randn({1, 5, config.width});
  const Tensor got = ffn.forward(x).select(0, 0), rows = x.select(0, 0);
  const auto squared = [](const Tensor& y) { return relu(y) * relu(y); };
  const Tensor latent = matmul(rows, ffn.latent_down->weight.t());
  const Tensor scores = sigmoid(matmul(rows, ffn.router->logits.weight.t()));
  const Tensor best = topk(scores + ffn.router->choice_bias, 2, -1).indices;
  const Tensor factors = gather(scores, -1, best);
  std::vector<Tensor> wanted;
  for (std::int64_t row = 0; row < 5; ++row) {
    Tensor sum = zeros({12});
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto e = best.select(0, row).select(0, i).item<std::int64_t>();
      const Tensor up = ffn.up.weight.slice(0, e * 10, e * 10 + 10),
                   down = ffn.down.weight.slice(0, e * 12, e * 12 + 12);
      const Tensor y = matmul(squared(matmul(latent.select(0, row).unsqueeze(0), up.t())), down.t()).select(0, 0);
      const double share =
          factors.select(0, row).select(0, i).item<double>() / factors.select(0, row).sum().item<double>();
      sum = sum + y * (2.5 * share);
    }
    wanted.push_back(sum);
  }
  const Tensor beside = matmul(squared(matmul(rows, ffn.shared->up.weight.t())), ffn.shared->down.weight.t());
  const Tensor whole = matmul(stack(wanted), ffn.latent_up->weight.t()) + beside;
  EXPECT_LT(furthest_apart(got, whole), 1e-5 * abs(whole).max().item<double>());
}

TEST(FewParts, MatricesOfGridPointsStayInBlocks) {
  const quant::BlockFormat& format = quant::format_named("IQ2_XXS");
  std::vector<std::uint8_t> bytes(2 * format.bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 + 11);
  for (const std::size_t scale : {std::size_t{1}, 1 + format.bytes}) bytes[scale] = 0x2c;
  const Tensor blocks = from_vector(bytes);
  StoredWeights weights(
      "file",
      [&](const std::string&) {
        return StoredTensor{&format, {2, 256}, {}, blocks};
      },
      [](const std::string& name) { return StoredPlaces{{name}}; }, {kCPU, false, 0});
  const Matrix matrix = weights.matrix("blocks.0.ffn.up.weight", 2, 256);
  Tensor expected = empty({2, 256});
  quant::dequantize(format, std::as_bytes(std::span(bytes)), expected.mutable_data<float>(), 512);
  EXPECT_EQ(&matrix.blocks.format(), &format);
  EXPECT_EQ(dequantize(matrix.blocks).to_vector<float>(), expected.to_vector<float>());
}

TEST(FewParts, ExpertsInMxfp4AreThoseOfTheirValues) {
  // A layer of gpt-oss, whose experts are given in blocks, or as values [experts, in, out].
  const Design design{"", R"("model_type": "gpt_oss", "intermediate_size": 32, "num_local_experts": 2,
      "num_experts_per_tok": 1, "sliding_window": 7, "attention_bias": true, "num_hidden_layers": 1,
      "layer_types": ["full_attention"])"};
  const std::string sizes = R"({"vocab_size": 61, "hidden_size": 32, "head_dim": 8, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, )";
  constexpr float kLevels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  manual_seed(1);
  NamedTensors common;
  const auto add = [&](const std::string& name, Shape shape) { common.emplace_back(name, randn(shape) * 0.3); };
  const std::string layer = "model.layers.0.";
  add("model.embed_tokens.weight", {61, 32});
  add("lm_head.weight", {61, 32});
  for (const char* norm :
       {"model.norm.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.post_attention_layernorm.weight"})
    add(norm, {32});
  for (const auto& [name, rows, columns] :
       {std::tuple{"q_proj", 32, 32}, {"k_proj", 16, 32}, {"v_proj", 16, 32}, {"o_proj", 32, 32}}) {
    add(fmt::format("{}self_attn.{}.weight", layer, name), {rows, columns});
    add(fmt::format("{}self_attn.{}.bias", layer, name), {rows});
  }
  add(layer + "self_attn.sinks", {4});
  add(layer + "mlp.router.weight", {2, 32});
  add(layer + "mlp.router.bias", {2});
  add(layer + "mlp.experts.gate_up_proj_bias", {2, 64});
  add(layer + "mlp.experts.down_proj_bias", {2, 32});
  NamedTensors plain = common, packed = common;
  for (const auto& [name, rows] : {std::pair{"gate_up_proj", 64}, {"down_proj", 32}}) {
    std::vector<std::uint8_t> blocks, scales;
    std::vector<float> values;  // [2, rows, 32]
    for (int row = 0; row < 2 * rows; ++row) {
      const int scale = 122 + row % 4;
      scales.push_back(static_cast<std::uint8_t>(scale));
      for (int i = 0; i < 16; ++i) {
        const int low = (row * 5 + i * 3) % 16, high = (row + i * 7) % 16;
        blocks.push_back(static_cast<std::uint8_t>(low | high << 4));
        for (const int quant : {low, high}) values.push_back(std::ldexp(kLevels[quant], scale - 127));
      }
    }
    const std::string full = layer + "mlp.experts." + name;
    plain.emplace_back(full, from_vector(values, {2, rows, 32}).transpose(1, 2).contiguous());
    packed.emplace_back(full + "_blocks", from_vector(blocks, {2, rows, 1, 16}));
    packed.emplace_back(full + "_scales", from_vector(scales, {2, rows, 1}));
  }
  const TemporaryFolder of_values, of_blocks;
  const auto save = [&](const TemporaryFolder& folder, const NamedTensors& tensors, const std::string& more) {
    std::ofstream(folder / "config.json") << sizes << design.json << more << "}";
    save_safetensors(folder / "model.safetensors", tensors);
  };
  save(of_values, plain, "");
  save(of_blocks, packed, R"(, "quantization_config": {"quant_method": "mxfp4"})");
  const Model a = load_model(of_values.path()), b = load_model(of_blocks.path());
  EXPECT_NE(b.decoder->blocks[0].ffn->up.extra_repr().find("MXFP4"), std::string::npos);
  const std::vector<std::int32_t> text = quadratic_text();
  const NoGrad no_grad;
  const Tensor expected = logits_by_steps(*a.decoder, kCPU, text), given = logits_by_steps(*b.decoder, kCPU, text);
  EXPECT_LT(furthest_apart(expected, given), 0.03 * abs(expected).max().item<double>());
  packed.back().second = packed.back().second.slice(1, 0, 8).contiguous();
  save(of_blocks, packed, R"(, "quantization_config": {"quant_method": "mxfp4"})");
  EXPECT_THROW(load_model(of_blocks.path()), FormatError);
}

}  // namespace
}  // namespace etna::models
