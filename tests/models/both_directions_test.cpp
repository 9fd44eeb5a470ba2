#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>
#include <nn/on_device.h>

#include "small_models.h"

// Decoders that read in both directions, as EmbeddingGemma does.
namespace etna::models {
namespace {

using testing::HasSubstr;

/// Layers with a window and without one, by turns.
DecoderConfig both_directions_config(std::int64_t window = 8, std::int64_t layers = 2) {
  DecoderConfig c = small_config("gemma-embedding");
  c.layers = layers;
  c.window = window;
  c.window_every = 2;
  return c;
}

double difference_of_both(const Tensor& a, const Tensor& b) {
  return (a.to(kCPU, f64) - b.to(kCPU, f64)).abs().max().item<double>();
}

/// The whole model in f64, of plain ops.
class ReferenceOfBoth {
 public:
  explicit ReferenceOfBoth(const Decoder& model) : c_(model.config) {
    for (const nn::NamedTensor& p : model.named_parameters()) own_.emplace(p.name, p.tensor.detach().to(kCPU, f64));
  }

  /// @return [T, width]
  Tensor hidden(const std::vector<std::int32_t>& tokens) const {
    const std::int64_t steps = std::ssize(tokens);
    Tensor x = embedding(own_.at("token_embedding.weight"), from_vector(tokens)) * std::sqrt(c_.width);
    for (std::int64_t layer = 0; layer < c_.layers; ++layer) {
      const std::string block = "blocks." + std::to_string(layer) + ".";
      const bool windowed = layer % 2 == 0;
      const std::int64_t side = windowed ? c_.window / 2 : steps;
      const double base = windowed ? c_.window_rope_base : c_.rope.base;
      x = x + normed(attention(normed(x, block + "attention_norm"), block + "attention.", side, base),
                     block + "attention_post_norm");
      const Tensor n = normed(x, block + "ffn_norm"), gate = times(n, block + "ffn.gate");
      const Tensor cubed = gate * gate * gate * 0.044715;
      const Tensor act = gate * 0.5 * (tanh((gate + cubed) * std::sqrt(2 / 3.14159265358979323846)) + 1.0);
      x = x + normed(times(act * times(n, block + "ffn.up"), block + "ffn.down"), block + "ffn_post_norm");
    }
    return normed(x, "norm");
  }

 private:
  Tensor times(const Tensor& x, const std::string& name) const { return matmul(x, own_.at(name + ".weight").t()); }
  Tensor normed(const Tensor& x, const std::string& name) const {
    return x / sqrt(mean(x * x, {-1}, true) + c_.norm_eps) * own_.at(name + ".weight");
  }
  Tensor turned(const Tensor& x, double base) const {
    const std::int64_t half = c_.head_size / 2, steps = x.size(0);
    std::vector<double> cosines, sines;
    for (std::int64_t at = 0; at < steps; ++at) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(at) * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
        cosines.push_back(std::cos(angle));
        sines.push_back(std::sin(angle));
      }
    }
    const Tensor c = from_vector(cosines, {steps, half}), s = from_vector(sines, {steps, half});
    const Tensor a = x.slice(-1, 0, half), b = x.slice(-1, half, 2 * half);
    return cat({a * c - b * s, b * c + a * s}, -1);
  }
  Tensor attention(const Tensor& n, const std::string& name, std::int64_t side, double base) const {
    const std::int64_t steps = n.size(0), size = c_.head_size;
    std::vector<double> hides;
    for (std::int64_t i = 0; i < steps; ++i)
      for (std::int64_t j = 0; j < steps; ++j) hides.push_back(std::abs(i - j) <= side ? 0 : -1e300);
    const Tensor hidden = from_vector(hides, {steps, steps});
    std::vector<Tensor> heads;
    for (std::int64_t h = 0; h < c_.heads; ++h) {
      const std::int64_t g = h / (c_.heads / c_.kv_heads);
      const auto of = [&](const char* part, std::int64_t head) {
        return times(n, name + part).slice(-1, head * size, (head + 1) * size).contiguous();
      };
      const Tensor q = turned(normed(of("query", h), name + "query_norm"), base),
                   k = turned(normed(of("key", g), name + "key_norm"), base);
      heads.push_back(matmul(softmax(matmul(q, k.t()) * c_.score_scale() + hidden, -1), of("value", g)));
    }
    return times(cat(heads, -1), name + "output");
  }

  const DecoderConfig& c_;
  std::map<std::string, Tensor> own_;
};

class BothDirections : public OnDevice {};

TEST_P(BothDirections, ComputesWhatPlainOpsDo) {
  const auto model = small_model(both_directions_config());
  const std::vector<std::int32_t> text = some_text(37, 97);
  const NoGrad no_grad;
  const Tensor wanted = ReferenceOfBoth(*model).hidden(text);
  model->to(device());
  const Tensor got = model->hidden(from_vector(text, {1, 37}, device())).select(0, 0);
  EXPECT_LT(difference_of_both(got, wanted), 2e-5);
  // The weights of a single block make their own mask.
  const Tensor x = model->embedded(from_vector(text, {1, 37}, device()));
  Tensor y = x;
  for (const DecoderBlock& block : model->blocks) y = block.forward(y);
  EXPECT_LT(difference_of_both(model->norm(y).select(0, 0), wanted), 2e-5);
}

// Rows of one text each with padding behind it, and texts packed in one row.
TEST_P(BothDirections, TextsDoNotSeeOthersNorPadding) {
  const std::vector<std::int64_t> sizes = {17, 5, 11};
  const auto model = small_model(both_directions_config());
  const ReferenceOfBoth reference(*model);
  const NoGrad no_grad;
  std::vector<std::int32_t> padded, packed;
  std::vector<Tensor> alone;
  for (const std::int64_t size : sizes) {
    std::vector<std::int32_t> text = some_text(size + 40, 97);
    text.erase(text.begin(), text.begin() + 40);
    alone.push_back(reference.hidden(text));
    packed.insert(packed.end(), text.begin(), text.end());
    text.resize(17, 3);
    padded.insert(padded.end(), text.begin(), text.end());
  }
  packed.resize(36, 9);
  model->to(device());
  const Tensor rows = model->hidden(from_vector(padded, {3, 17}, device()), {},
                                    document_bounds(from_vector(sizes, {3, 1}, device()), 17));
  const Tensor row = model->hidden(from_vector(packed, {1, 36}, device()), {},
                                   document_bounds(from_vector(sizes, {1, 3}, device()), 36));
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Tensor of_padded = rows.select(0, static_cast<std::int64_t>(i)).slice(0, 0, sizes[i]);
    EXPECT_LT(difference_of_both(of_padded, alone[i]), 2e-5) << "padded text " << i;
    EXPECT_LT(difference_of_both(row.select(0, 0).slice(0, at, at + sizes[i]), alone[i]), 2e-5) << "packed text " << i;
    at += sizes[i];
  }
}

// Gradients, also where blocks are computed again, and in captured steps with other texts.
TEST_P(BothDirections, AreTrained) {
  const auto model = small_model(both_directions_config(4));
  model->to(device());
  const Tensor lengths = from_vector(std::vector<std::int64_t>{12, 7}, {2, 1}, device());
  const auto loss_of = [&](const Tensor& tokens, const Tensor& of) {
    return mean(square(model->hidden(tokens, {}, document_bounds(of, 12))));
  };
  const Tensor tokens = from_vector(some_text(24, 97), {2, 12}, device());
  std::vector<Tensor> gradients;
  for (const bool again : tried<bool>({false, true})) {
    model->recompute_blocks = again;
    model->zero_grad();
    loss_of(tokens, lengths).backward();
    gradients.push_back(model->blocks[0].attention->key->weight.grad().clone());
    EXPECT_GT(gradients.back().abs().max().item<double>(), 0);
  }
  EXPECT_LT(difference_of_both(gradients.front(), gradients.back()), 1e-6);
  if (!device().is_cpu()) return;  // compiling the step for a GPU takes seconds
  const NoGrad no_grad;
  auto step = capture(loss_of, {.device = device()});
  for (std::int64_t i = 0; i < 4; ++i) {
    std::vector<std::int32_t> text = some_text(24 + i, 97);
    text.erase(text.begin(), text.begin() + i);
    const Tensor others = from_vector(text, {2, 12}, device());
    const Tensor sizes = from_vector(std::vector<std::int64_t>{12 - i, 5 + i}, {2, 1}, device());
    EXPECT_NEAR(step(others, sizes).item<double>(), loss_of(others, sizes).item<double>(), 1e-5) << "step " << i;
  }
}

ETNA_ON_EVERY_DEVICE(BothDirections);

// A window of w positions is of w / 2 on each side: 256 of EmbeddingGemma's 512.
TEST(BothDirectionsWindow, ReachesHalfOfItOnEachSide) {
  const NoGrad no_grad;
  for (const std::int64_t window : {1, 2, 7, 16, 0}) {
    const auto model = small_model(both_directions_config(window, 1));
    const auto rows_of = [&](std::int32_t token) {
      std::vector<std::int32_t> text = some_text(40, 97);
      text[20] = token;
      return model->hidden(from_vector(text, {1, 40})).select(0, 0);
    };
    const std::vector<float> changes = (rows_of(5) - rows_of(6)).abs().max({-1}).to_vector<float>();
    for (std::int64_t i = 0; i < 40; ++i) {
      const bool sees = window == 0 || std::abs(i - 20) <= window / 2;
      EXPECT_EQ(changes[static_cast<std::size_t>(i)] > 0, sees) << "window " << window << ", position " << i;
    }
  }
}

TEST(BothDirectionsConfig, IsReadAndRefusedInOneSentence) {
  const auto read = [](const std::string& more) {
    return decoder_config(R"({"model_type": "gemma3_text", "vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96,
      "sliding_window": 512)" +
                              more + "}",
                          "config.json");
  };
  EXPECT_FALSE(read("").bidirectional);
  EXPECT_FALSE(read(R"(, "use_bidirectional_attention": false)").bidirectional);
  const DecoderConfig both = read(R"(, "use_bidirectional_attention": true)");
  EXPECT_TRUE(both.bidirectional);
  EXPECT_EQ(both.architecture, "gemma-embedding");
  EXPECT_EQ(both.window, 512);
  EXPECT_EQ(both.window_rope_base, 10000);
  const auto refusal = [](const std::string& json) -> std::string {
    try {
      decoder_config(json, "config.json");
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(R"({"model_type": "gemma3_text", "use_bidirectional_attention": 3})"), HasSubstr("is 3"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3", "use_bidirectional_attention": true})"), HasSubstr("gemma3_text"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma4_text", "use_bidirectional_attention": "all"})"), HasSubstr("\"all\""));
  DecoderConfig sinks = both;
  sinks.sinks = true;
  EXPECT_THROW(sinks.check(), FormatError);
  const auto model = small_model(both_directions_config());
  try {
    const Generator generator(*model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("both directions"));
  }
}

}  // namespace
}  // namespace etna::models
