#include <map>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <etna/optim/optim.h>
#include <nn/on_device.h>

#include "data/temporary_folder.h"
#include "small_models.h"

// A model from a file is trained further, and written again.
namespace etna::models {
namespace {

double fine_tuning_difference(const Tensor& a, const Tensor& b) {
  return (a.to(kCPU) - b.to(kCPU)).abs().max().item<double>();
}

class FineTuning : public OnDevice {};

void expect_tuned(Device device, const std::string& architecture, const quant::BlockFormat* format) {
  const TemporaryFolder folder;
  save_gguf_model(folder / "given.gguf", *small_model(small_config(architecture)), nullptr, format);
  const Model model = load_model(folder / "given.gguf", {.device = device, .trainable = true});
  Decoder& decoder = *model.decoder;
  const std::vector<std::int32_t> tokens = some_text(65, 97);
  const Tensor x = from_vector(std::vector<std::int32_t>(tokens.begin(), tokens.end() - 1), {2, 32}).to(device);
  const Tensor y = from_vector(std::vector<std::int32_t>(tokens.begin() + 1, tokens.end()), {2, 32}).to(device);
  std::map<std::string, Tensor> given;
  for (const nn::NamedTensor& p : decoder.named_parameters()) {
    EXPECT_TRUE(p.tensor.requires_grad()) << p.name;
    EXPECT_EQ(p.tensor.device(), device) << p.name;
    given.emplace(p.name, p.tensor.detach().clone());
  }
  optim::AdamW optimizer(decoder.parameters(), {.lr = 2e-3, .weight_decay = 0});
  const double before = decoder.loss(x, y).item<double>();
  for (int i = 0; i < 12; ++i) {
    decoder.loss(x, y).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  EXPECT_LT(decoder.loss(x, y).item<double>(), 0.7 * before);
  for (const nn::NamedTensor& p : decoder.named_parameters())
    EXPECT_GT(fine_tuning_difference(p.tensor.detach(), given.at(p.name)), 0) << p.name << " was not trained";

  save_gguf_model(folder / "tuned.gguf", decoder, nullptr);
  const NoGrad no_grad;
  const Tensor tuned = decoder.forward(x);
  EXPECT_GT(fine_tuning_difference(load_model(folder / "given.gguf", {.trainable = true}).decoder->forward(x.to(kCPU)),
                                   tuned),
            0.1);
  const Model again = load_model(folder / "tuned.gguf", {.device = device, .trainable = true});
  EXPECT_LT(fine_tuning_difference(again.decoder->forward(x), tuned), 1e-5);
  const Model frozen = load_model(folder / "tuned.gguf", {.device = device});
  Generator generator(*frozen.decoder, {.device = device, .cache = {.dtype = f32}});
  const std::vector<std::int32_t> row(tokens.begin(), tokens.begin() + 32);
  EXPECT_LT(fine_tuning_difference(generator.logits(row), tuned.select(0, 0)), 5e-4);
}

TEST_P(FineTuning, ChangesAModelOfAFile) { expect_tuned(device(), "llama", nullptr); }

/// The blocks are decoded, so that the file that is written has dense weights.
TEST_P(FineTuning, ChangesAModelOfAQuantizedFile) { expect_tuned(device(), "qwen2", &quant::format_named("Q8_0")); }

ETNA_ON_EVERY_DEVICE(FineTuning);

}  // namespace
}  // namespace etna::models
