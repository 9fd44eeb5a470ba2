#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/autograd/autograd.h>
#include <etna/models/encoder.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "letter_tokenizer.h"
#include "small_models.h"

// EmbeddingGemma, and decoders with a classifier, against what Hugging Face's transformers computes with random
// weights. ETNA_MODELS names the folder that has them; they run on the CPU, or where ETNA_DEVICE says.
namespace etna::models {
namespace {

/// A folder of an oracle, with a tokenizer of a letter for each token.
class EmbeddingOracle : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const char* models = std::getenv("ETNA_MODELS");
    if (models == nullptr) GTEST_SKIP() << "ETNA_MODELS names no folder of models";
    const std::filesystem::path source = std::filesystem::path(models) / GetParam();
    if (!std::filesystem::exists(source)) GTEST_SKIP() << source << " is missing";
    std::filesystem::copy(source, folder_.path(), std::filesystem::copy_options::recursive);
    std::ofstream(folder_ / "tokenizer.json") << letter_json();
    std::ifstream(folder_ / "expected.json") >> expected_;
    device_ = std::getenv("ETNA_DEVICE") == nullptr ? kCPU : select_device();
    most_ = multiplies_exactly(device_, "BF16") ? 2e-5 : 5e-2;
  }
  void expect_near_list(const Tensor& got, const std::string& name, double most, std::size_t stride = 1) const {
    const std::vector<float> values = got.to(kCPU, f32).flatten().to_vector<float>();
    const auto wanted = expected_[name].get<std::vector<double>>();
    ASSERT_EQ(wanted.size(), (values.size() + stride - 1) / stride) << name;
    double error = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      error = std::max(error, std::abs(static_cast<double>(values[i * stride]) - wanted[i]));
    if (most < 1e-3) RecordProperty(name, fmt::format("{:.1e}", error));
    EXPECT_LT(error, most) << name;
  }

  TemporaryFolder folder_;
  nlohmann::json expected_;
  Device device_;
  double most_ = 0;
};

using EmbeddingGemmaOracle = EmbeddingOracle;

TEST_P(EmbeddingGemmaOracle, GivesTheVectorsOfTheOriginal) {
  const NoGrad no_grad;
  const auto ids = expected_["tokens"].get<std::vector<std::int32_t>>();
  for (const bool trainable : {true, false}) {
    const double most = trainable ? 2e-5 : most_;
    const Model model = load_model(folder_.path(), {.device = device_, .trainable = trainable});
    const Tensor hidden = model.decoder->hidden(from_vector(ids, {1, std::ssize(ids)}, device_));
    expect_near_list(hidden, "hidden", most, expected_["hidden_stride"].get<std::size_t>());
    expect_near_list(mean(hidden, {1}), "pooled", most);
    const TextEmbedder embedder(folder_.path(), {.device = device_, .trainable = trainable});
    expect_near_list(embedder.embed({text_of_letters(ids)}).vectors, "embedding", most);
    save_gguf_model(folder_ / "model.gguf", *model.decoder, nullptr);
    const Model again = load_model(folder_ / "model.gguf", {.trainable = trainable});
    expect_near_list(again.decoder->hidden(from_vector(ids, {1, std::ssize(ids)})), "hidden", trainable ? 2e-5 : 5e-2,
                     expected_["hidden_stride"].get<std::size_t>());
  }
}

INSTANTIATE_TEST_SUITE_P(Decoders, EmbeddingGemmaOracle, testing::Values("gemma_embedding"),
                         [](const auto& info) { return info.param; });

using RerankerOracle = EmbeddingOracle;

TEST_P(RerankerOracle, GivesTheScoresOfTheOriginal) {
  std::vector<std::string> texts;
  for (const auto& ids : expected_["texts"]) texts.push_back(text_of_letters(ids.get<std::vector<std::int32_t>>()));
  for (const bool trainable : {true, false}) {
    const Reranker reranker(folder_.path(), {.device = device_, .trainable = trainable});
    expect_near_list(from_vector(reranker.scores("", texts).scores), "scores", trainable ? 2e-5 : most_);
  }
}

INSTANTIATE_TEST_SUITE_P(Decoders, RerankerOracle,
                         testing::Values("qwen3_reranker", "llama_reranker", "gemma2_reranker"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace etna::models
