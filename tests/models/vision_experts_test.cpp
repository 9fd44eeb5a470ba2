#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/encoder.h>
#include <etna/models/generator.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "vision_models.h"

// Qwen3-VL with experts, made of the dense model: each expert is its feed-forward layer, so that any choice of experts,
// whose factors sum to one, gives its logits.
namespace etna::models {
namespace {

constexpr std::int64_t kVisionExperts = 4, kWidth = 32, kExpertWidth = 48;

/// A dense layer's matrix with rows of zeros behind it.
Tensor with_zeros(const Tensor& rows, std::int64_t width) {
  return cat({rows.to(f32), zeros({width - rows.size(0), rows.size(1)})}, 0);
}

/// The same matrix for each expert. @param rows [out, in] @param by_row as [experts, out, in], else [experts, in, out]
Tensor of_all_experts(const Tensor& rows, bool by_row) {
  const Tensor one = by_row ? rows : rows.t();
  return one.unsqueeze(0).expand({kVisionExperts, one.size(0), one.size(1)}).contiguous().to(bf16);
}

/// Writes the folder of a model with experts in the place of the fixture's feed-forward layers.
void write_experts(const VisionFixture& dense, const std::filesystem::path& folder, bool by_row,
                   std::int64_t width = kExpertWidth) {
  std::filesystem::create_directory(folder);
  nlohmann::json config;
  std::ifstream(dense.folder / "config.json") >> config;
  config["model_type"] = "qwen3_vl_moe";
  nlohmann::json& text = config["text_config"];
  text["model_type"] = "qwen3_vl_moe_text";
  text["num_experts"] = kVisionExperts;
  text["num_experts_per_tok"] = 2;
  text["moe_intermediate_size"] = width;
  text["decoder_sparse_step"] = 1;
  text["mlp_only_layers"] = nlohmann::json::array();
  text["norm_topk_prob"] = true;
  std::ofstream(folder / "config.json") << config.dump();
  std::filesystem::copy(dense.folder / "preprocessor_config.json", folder / "preprocessor_config.json");
  const std::map<std::string, Tensor> all = load_safetensors(dense.folder / "model.safetensors");
  NamedTensors written;
  manual_seed(3);
  for (const auto& [name, values] : all) {
    const std::size_t at = name.find(".mlp.");
    if (name.find("language_model") == std::string::npos || at == std::string::npos) {
      written.emplace_back(name, values);
      continue;
    }
    const std::string block = name.substr(0, at + 5);
    if (name.ends_with("gate_proj.weight")) {
      const Tensor both = cat({with_zeros(values, width), with_zeros(all.at(block + "up_proj.weight"), width)}, 0);
      written.emplace_back(block + "experts.gate_up_proj", of_all_experts(both, by_row));
      written.emplace_back(block + "gate.weight", randn({kVisionExperts, kWidth}).to(bf16));
    } else if (name.ends_with("down_proj.weight")) {
      written.emplace_back(block + "experts.down_proj", of_all_experts(with_zeros(values.t(), width).t(), by_row));
    }
  }
  save_safetensors(folder / "model.safetensors", written);
}

TEST(VisionExperts, OfTheDenseLayerGiveItsLogits) {
  const VisionFixture fixture("qwen3_vl");
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const Model dense = load_model(fixture.folder, {.trainable = true});
  const auto vision = load_vision(fixture.folder);
  Generator wanted(*dense.decoder, {.cache = {.tokens = 256, .dtype = f32}});
  PromptImages images;
  images.images = vision->rows(full({3, 16, 24}, 99, u8));
  images.places = {3};
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(images.images[0].rows.size(0)) + 9, 5);
  const Tensor logits = wanted.logits(tokens, -1, &images), of_text = wanted.logits(tokens);
  EXPECT_GT(abs(logits - of_text).max().item<double>(), 1e-2);
  // The last ones have square matrices of values.
  for (const auto& [by_row, width] : {std::pair{false, kExpertWidth}, {true, kExpertWidth}, {true, kWidth}}) {
    const std::filesystem::path path = folder / fmt::format("{} {}", by_row ? "rows" : "columns", width);
    write_experts(fixture, path, by_row, width);
    const Model model = load_model(path, {.trainable = true});
    EXPECT_EQ(model.decoder->config.experts.count, kVisionExperts);
    EXPECT_EQ(model.decoder->config.rope.pairs_by_place, dense.decoder->config.rope.pairs_by_place);
    save_gguf_model(folder / "model.gguf", *model.decoder, nullptr);
    const Model from_gguf = load_model(folder / "model.gguf", {.trainable = true});
    EXPECT_EQ(from_gguf.decoder->config.architecture, "qwen3vlmoe");
    for (const Model* one : {&model, &from_gguf}) {
      Generator generator(*one->decoder, {.chunk = by_row ? 7 : 0, .cache = {.tokens = 256, .dtype = f32}});
      EXPECT_LT(abs(generator.logits(tokens, -1, &images) - logits).max().item<double>(), 5e-5);
      EXPECT_LT(abs(generator.logits(tokens) - of_text).max().item<double>(), 5e-5);
    }
    ASSERT_TRUE(has_vision(path));
    const Tensor rows = load_vision(path)->rows(full({3, 16, 24}, 99, u8))[0].rows;
    EXPECT_TRUE(equal(rows, images.images[0].rows)) << "the tower is the same";
  }
}

TEST(VisionExperts, OfOtherShapesAreRefused) {
  const VisionFixture fixture("qwen3_vl");
  const TemporaryFolder folder;
  write_experts(fixture, folder / "model", false);
  std::map<std::string, Tensor> all = load_safetensors(folder / "model" / "model.safetensors");
  const std::string name = "model.language_model.layers.1.mlp.experts.gate_up_proj";
  for (const Tensor& bad :
       {zeros({kVisionExperts, kWidth, 2 * kExpertWidth + 1}), zeros({kVisionExperts - 1, kWidth, 96}),
        zeros({kWidth, 96}), zeros({kVisionExperts, 31, 96})}) {
    all.at(name) = bad;
    save_safetensors(folder / "model" / "model.safetensors", all);
    EXPECT_THAT(message_of([&] { load_model(folder / "model"); }), testing::HasSubstr(name)) << str(bad.shape());
  }
}

}  // namespace
}  // namespace etna::models
