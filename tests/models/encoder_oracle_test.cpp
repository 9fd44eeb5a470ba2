#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/models/encoder.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

#include "data/temporary_folder.h"
#include "small_models.h"

// Encoders of random weights against what Hugging Face's transformers computes with them. ETNA_MODELS names the folder
// that has them: bert/config.json, bert/model.safetensors, bert/expected.json ... They run on the CPU, or where
// ETNA_DEVICE says.
namespace etna::models {
namespace {

class EncoderOracle : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const char* models = std::getenv("ETNA_MODELS");
    if (models == nullptr) GTEST_SKIP() << "ETNA_MODELS names no folder of models";
    folder_ = std::filesystem::path(models) / GetParam();
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << folder_ << " is missing";
    std::ifstream(folder_ / "expected.json") >> expected_;
  }
  /// @return the largest difference of the vectors of tokens, and of their mean
  double error_of(Device device, bool trainable) const {
    return error_of(load_encoder(folder_, {.device = device, .trainable = trainable}), device);
  }
  double error_of(const EncoderModel& model, Device device) const {
    const NoGrad no_grad;
    const auto tokens = expected_["tokens"].get<std::vector<std::int64_t>>();
    const Tensor input = from_vector(tokens, {1, std::ssize(tokens)}, device);
    const Tensor hidden = model.encoder->forward(input);
    const std::vector<float> values = hidden.to(kCPU).flatten().to_vector<float>(),
                             pooled = pool_texts(hidden, {}, Pooling::mean).to(kCPU).flatten().to_vector<float>();
    const auto wanted = expected_["hidden"].get<std::vector<double>>();
    const auto wanted_pooled = expected_["pooled"].get<std::vector<double>>();
    const auto stride = expected_["hidden_stride"].get<std::size_t>();
    EXPECT_EQ(wanted.size(), (values.size() + stride - 1) / stride);
    EXPECT_EQ(wanted_pooled.size(), pooled.size());
    double error = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      error = std::max(error, std::abs(static_cast<double>(values.at(i * stride)) - wanted[i]));
    for (std::size_t i = 0; i < wanted_pooled.size(); ++i)
      error = std::max(error, std::abs(static_cast<double>(pooled.at(i)) - wanted_pooled[i]));
    return error;
  }

  std::filesystem::path folder_;
  nlohmann::json expected_;
};

TEST_P(EncoderOracle, GivesTheVectorsOfTheOriginal) {
  const Device device = std::getenv("ETNA_DEVICE") == nullptr ? kCPU : select_device();
  const double error = error_of(device, false);
  RecordProperty("error", std::to_string(error));
  EXPECT_LT(error, multiplies_exactly(device, "BF16") ? 2e-5 : 5e-2);
  EXPECT_LT(error_of(device, true), 2e-5);
}

TEST_P(EncoderOracle, GivesTheSameFromGguf) {
  const TemporaryFolder folder;
  const EncoderModel model = load_encoder(folder_, {.trainable = true});
  const std::string name = GetParam();
  if (name == "electra" || name == "mpnet") {
    EXPECT_THROW(save_gguf_encoder(folder / "model.gguf", *model.encoder, nullptr), FormatError);
    return;
  }
  save_gguf_encoder(folder / "model.gguf", *model.encoder, nullptr);
  EXPECT_LT(error_of(load_encoder(folder / "model.gguf", {.trainable = true}), kCPU), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Encoders, EncoderOracle,
                         testing::Values("bert", "roberta", "xlm_roberta", "distilbert", "modernbert", "nomic_bert",
                                         "electra", "mpnet"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace etna::models
