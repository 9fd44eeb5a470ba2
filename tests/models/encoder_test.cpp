#include <etna/models/encoder.h>

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <nn/on_device.h>

#include "small_encoders.h"

namespace etna::models {
namespace {

using testing::HasSubstr;

/// On a GPU one of them, since each takes seconds of compiled shaders.
std::vector<const char*> families_on(Device device, const char* on_gpu) {
  if (!device.is_cpu()) return {on_gpu};
  return {"bert", "electra", "mpnet", "modernbert", "nomic_bert"};
}

double largest_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

class Encoders : public OnDevice {};

// Rows of one text each with padding behind it, and texts packed in one row, read as each text does alone on the CPU.
TEST_P(Encoders, TextsDoNotSeeOthersNorPadding) {
  const std::vector<std::int64_t> sizes = {17, 5, 11};
  const std::int64_t longest = 17, all = 33;
  for (const char* family : families_on(device(), "modernbert")) {
    const auto model = small_encoder(small_encoder_config(family));
    const NoGrad no_grad;
    std::vector<std::int32_t> padded, packed;
    std::vector<Tensor> alone;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<std::int32_t> text = some_text(sizes[i] + 40, 97);
      text.erase(text.begin(), text.begin() + 40);
      alone.push_back(model->forward(from_vector(text, {1, sizes[i]})).select(0, 0));
      packed.insert(packed.end(), text.begin(), text.end());
      text.resize(static_cast<std::size_t>(longest), 3);
      padded.insert(padded.end(), text.begin(), text.end());
    }
    packed.resize(static_cast<std::size_t>(all) + 4, 9);
    model->to(device());
    const Tensor lengths = from_vector(sizes, {3, 1}, device());
    const Tensor rows = model->hidden({from_vector(padded, {3, longest}, device()), lengths});
    const Tensor row =
        model->hidden({from_vector(packed, {1, all + 4}, device()), from_vector(sizes, {1, 3}, device())});
    std::int64_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Tensor of_padded = rows.select(0, static_cast<std::int64_t>(i)).slice(0, 0, sizes[i]).to(kCPU);
      EXPECT_LT(largest_difference(of_padded, alone[i]), 1e-4) << family << ", padded text " << i;
      EXPECT_LT(largest_difference(row.select(0, 0).slice(0, at, at + sizes[i]).to(kCPU), alone[i]), 1e-4)
          << family << ", packed text " << i;
      at += sizes[i];
    }
  }
}

TEST_P(Encoders, EveryWeightIsTrained) {
  for (const char* family : families_on(device(), "electra")) {
    manual_seed(3);
    EncoderConfig config = small_encoder_config(family);
    config.classifier = {.labels = 1};
    Encoder model(config);
    model.to(device());
    const Tensor tokens = from_vector(some_text(4 * 12, 97), {4, 12}, device());
    const Tensor lengths = from_vector(std::vector<std::int64_t>{12, 7, 12, 3}, {4, 1}, device());
    const Tensor targets = from_vector(std::vector<float>{1, -1, 0.5f, 0}, {4, 1, 1}, device());
    optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
    const int steps = device().is_cpu() ? 20 : 3;
    double first = 0, last = 0;
    for (int step = 0; step < steps; ++step) {
      const Tensor loss = mean(square(model.classify({tokens, lengths}) - targets));
      last = loss.item<double>();
      if (step == 0) first = last;
      optimizer.zero_grad();
      loss.backward();
      for (const nn::NamedTensor& p : model.named_parameters()) {
        if (step > 0) break;
        ASSERT_TRUE(p.tensor.grad().defined()) << family << ": " << p.name;
        EXPECT_GT(p.tensor.grad().to(kCPU).abs().max().item<double>(), 0) << family << ": " << p.name;
      }
      optimizer.step();
    }
    EXPECT_LT(last, (device().is_cpu() ? 0.5 : 1) * first) << family;
  }
}

TEST_P(Encoders, PoolsTextsOfEachRow) {
  const Tensor x = arange(0, 12, 1, {f32, device()}).reshape({1, 6, 2});
  const Tensor lengths = from_vector(std::vector<std::int32_t>{2, 3}, {1, 2}, device());
  const auto pooled = [&](const Tensor& of, Pooling pooling) {
    return pool_texts(x, of, pooling).to(kCPU).flatten().to_vector<float>();
  };
  EXPECT_THAT(pooled(lengths, Pooling::mean), testing::ElementsAre(1, 2, 6, 7));
  EXPECT_THAT(pooled(lengths, Pooling::cls), testing::ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(pooled(lengths, Pooling::last), testing::ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(pooled({}, Pooling::mean), testing::ElementsAre(5, 6));
  EXPECT_THAT(pooled({}, Pooling::cls), testing::ElementsAre(0, 1));
  EXPECT_THAT(pooled({}, Pooling::last), testing::ElementsAre(10, 11));
}

// Other texts of other lengths are read by the same captured step.
TEST_P(Encoders, StepsAreCaptured) {
  const auto model = small_encoder(small_encoder_config("electra"));
  model->to(device());
  const NoGrad no_grad;
  auto step = capture(
      [&](const Tensor& tokens, const Tensor& lengths) {
        return pool_texts(model->hidden({tokens, lengths}), lengths, Pooling::mean);
      },
      {.device = device()});
  for (std::int64_t i = 0; i < 4; ++i) {
    std::vector<std::int32_t> text = some_text(24 + i, 97);
    text.erase(text.begin(), text.begin() + i);
    const Tensor tokens = from_vector(text, {2, 12}, device());
    const Tensor lengths = from_vector(std::vector<std::int64_t>{12 - i, 5 + i}, {2, 1}, device());
    const Tensor wanted = pool_texts(model->hidden({tokens, lengths}), lengths, Pooling::mean);
    EXPECT_LT(largest_difference(step(tokens, lengths), wanted), 1e-5) << "step " << i;
  }
}

ETNA_ON_EVERY_DEVICE(Encoders);

TEST(Encoder, NamesItsParameters) {
  std::vector<std::string> names;
  for (const nn::NamedTensor& p : small_encoder(small_encoder_config("electra"))->named_parameters())
    if (!p.name.starts_with("blocks.1.") && !p.name.starts_with("blocks.2.")) names.push_back(p.name);
  EXPECT_THAT(names, testing::ElementsAre(
                         "token_embedding.weight", "position_embedding.weight", "type_embedding.weight",
                         "embedding_norm.weight", "embedding_norm.bias", "embedding_projection.weight",
                         "embedding_projection.bias", "blocks.0.attention_norm.weight", "blocks.0.attention_norm.bias",
                         "blocks.0.qkv.weight", "blocks.0.qkv.bias", "blocks.0.output.weight", "blocks.0.output.bias",
                         "blocks.0.ffn_norm.weight", "blocks.0.ffn_norm.bias", "blocks.0.ffn.up.weight",
                         "blocks.0.ffn.up.bias", "blocks.0.ffn.down.weight", "blocks.0.ffn.down.bias"));
}

TEST(Encoder, SaysWhatIsWrongWithItsInput) {
  const auto model = small_encoder(small_encoder_config("bert"));
  const auto refusal = [&](const EncoderInput& input) -> std::string {
    try {
      model->hidden(input);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "";
  };
  const Tensor tokens = zeros({2, 3}, i64);
  EXPECT_THAT(refusal({zeros({3}, i64)}), HasSubstr("wanted [B, T]"));
  EXPECT_THAT(refusal({zeros({1, 65}, i64)}), HasSubstr("longer than the 64 positions"));
  EXPECT_THAT(refusal({tokens, zeros({3, 1}, i64)}), HasSubstr("wanted [B, N]"));
  EXPECT_THAT(refusal({tokens, {}, zeros({2, 4}, i64)}), HasSubstr("their types [2, 4]"));
  EXPECT_THROW(model->classify({tokens}), Error);
  EXPECT_THROW(pooling_named("max"), Error);
  EncoderConfig config = small_encoder_config("modernbert");
  config.windowed = {true};
  EXPECT_THROW(config.check(), FormatError);
  config = small_encoder_config("mpnet");
  config.relative_buckets = 3;
  EXPECT_THROW(config.check(), FormatError);
}

TEST(Encoder, TokensHaveTypes) {
  const auto model = small_encoder(small_encoder_config("bert"));
  const NoGrad no_grad;
  const Tensor tokens = from_vector(some_text(6, 97), {1, 6});
  const Tensor types = from_vector(std::vector<std::int64_t>{0, 0, 0, 1, 1, 1}, {1, 6});
  EXPECT_LT(largest_difference(model->hidden({tokens, {}, zeros_like(types)}), model->forward(tokens)), 1e-6);
  EXPECT_GT(largest_difference(model->hidden({tokens, {}, types}), model->forward(tokens)), 1e-2);
}

}  // namespace
}  // namespace etna::models
