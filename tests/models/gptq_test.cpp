
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>

#include "small_models.h"

namespace etna::models {
namespace {

double squared(const Tensor& x) { return x.square().sum().item<double>(); }

TEST(Gptq, ProductsWithTheInputsAreNearerThanAfterRounding) {
  manual_seed(3);
  // Inputs of few directions, as a network's are.
  const Tensor x = matmul(randn({500, 20}), randn({20, 128})) + randn({500, 128}) * 0.1;
  const Tensor weight = randn({48, 128}), exact = matmul(x, weight.t());
  const Tensor moments = matmul(x.t().to(f64), x.to(f64));
  for (const char* name : {"Q4_0", "Q4_1"}) {
    const auto& format = quant::format_named(name);
    const double rounded = squared(matmul(x, dequantize(quantize(weight, format)).t()) - exact);
    const double corrected = squared(matmul(x, dequantize(gptq(weight, moments, format)).t()) - exact);
    EXPECT_LT(corrected, 0.5 * rounded) << name;
  }
}

TEST(Gptq, WithoutCorrelationsItIsRounding) {
  manual_seed(3);
  const Tensor weight = randn({8, 64});
  const auto& format = quant::format_named("Q4_0");
  const QuantizedTensor corrected = gptq(weight, eye(64, 64, {f64}), format);
  EXPECT_LT(squared(dequantize(corrected) - weight), 1.02 * squared(dequantize(quantize(weight, format)) - weight));
}

TEST(Gptq, InputsThatAreAlwaysZeroAreNoFault) {
  manual_seed(3);
  const Tensor weight = randn({4, 32});
  const Tensor y = dequantize(gptq(weight, zeros({32, 32}, f64), quant::format_named("Q4_1")));
  EXPECT_LT(squared(y - weight), 0.02 * squared(weight));
}

TEST(Gptq, RefusesWhatItCannotRound) {
  const auto model = small_model(small_config("llama"));
  EXPECT_THROW(quantize_gptq(*model, {}), Error);
  const std::vector<std::vector<std::int32_t>> texts = {some_text(20, 97)}, long_text = {some_text(300, 97)};
  EXPECT_THROW(quantize_gptq(*model, long_text), ShapeError);
  EXPECT_THROW(quantize_gptq(*model, texts, {.format = &quant::format_named("Q4_K")}), Error);
  quantize_gptq(*model, texts);
  EXPECT_TRUE(model->frozen());
  EXPECT_THROW(quantize_gptq(*model, texts), Error);
}

/// Mean loss of the stories' model on a text that it wrote itself, but not the one it was calibrated with.
TEST(Gptq, LosesLessThanRoundingOfATrainedModel) {
  const char* data = std::getenv("ETNA_DATA");
  const auto file = data == nullptr
                        ? std::filesystem::path()
                        : std::filesystem::path(data).parent_path() / "stories260K" / "checkpoint_legacy.bin";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "stories260K is not there";
  const auto written = [&](std::uint64_t seed) {
    const Model model = load_model(file);
    Generator generator(*model.decoder);
    std::vector<std::int32_t> tokens = {1};
    generator.generate(
        tokens, {.max_tokens = 255, .sampling = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed}},
        [&](std::int32_t token) {
          tokens.push_back(token);
          return true;
        });
    return tokens;
  };
  std::vector<std::vector<std::int32_t>> texts, tests;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) (seed <= 16 ? texts : tests).push_back(written(seed));
  const auto loss = [&](const Decoder& decoder) {
    const NoGrad no_grad;
    double sum = 0;
    for (const auto& text : tests) {
      const auto length = std::ssize(text);
      sum += decoder
                 .loss(from_vector(std::vector<std::int32_t>(text.begin(), text.end() - 1), {1, length - 1}),
                       from_vector(std::vector<std::int32_t>(text.begin() + 1, text.end()), {1, length - 1}))
                 .item<double>();
    }
    return sum / static_cast<double>(tests.size());
  };
  const Model exact = load_model(file, {.trainable = true}), rounded = load_model(file, {.trainable = true}),
              corrected = load_model(file, {.trainable = true});
  const auto& format = quant::format_named("Q4_0");
  for (DecoderBlock& block : rounded.decoder->blocks) {
    for (const NamedProjection& own : block.projections())
      if (own.name != "ffn.down") own.layer->freeze(quantize(own.layer->weight, format));
  }
  quantize_gptq(*corrected.decoder, texts);
  const double before = loss(*exact.decoder), plain = loss(*rounded.decoder), after = loss(*corrected.decoder);
  RecordProperty("exact", std::to_string(before));
  RecordProperty("rounded", std::to_string(plain));
  RecordProperty("gptq", std::to_string(after));
  std::printf("f32 %.4f, rounded %.4f, GPTQ %.4f nats a token\n", before, plain, after);
  EXPECT_LT(after - before, 0.8 * (plain - before));
}

}  // namespace
}  // namespace etna::models
