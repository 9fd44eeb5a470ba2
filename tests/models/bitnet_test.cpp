#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>
#include <nn/on_device.h>

#include "data/temporary_folder.h"
#include "hugging_face_folder.h"
#include "small_models.h"

// BitNet's weights of three values, in each of the files that hold them.
namespace etna::models {
namespace {

using testing::HasSubstr;

/// A name of a projection's weight, which is a matrix of a block.
bool is_ternary(const std::string& name) {
  return name.starts_with("blocks.") && name.ends_with(".weight") && name.find("norm") == std::string::npos;
}

/// Rounds to -s, 0 and s, where s is the mean magnitude (Ma et al. 2024), one value after the other.
Tensor rounded(const Tensor& weight) {
  std::vector<float> w = weight.to_vector<float>();
  double sum = 0;
  for (const float value : w) sum += std::abs(value);
  const double scale = sum / static_cast<double>(w.size());
  for (float& value : w)
    value = static_cast<float>(scale * std::clamp(std::nearbyint(static_cast<double>(value) / scale), -1.0, 1.0));
  return from_vector(w, weight.shape());
}

/// A small model whose projections have weights -s, 0 and s. s is a number of f16.
std::unique_ptr<Decoder> ternary_model(const std::string& architecture) {
  DecoderConfig config = small_config(architecture);
  config.width = 256;
  config.head_size = 64;
  config.rope.size = 64;
  config.feed_forward = 512;
  auto model = small_model(config);
  double scale = 0.0625;
  for (const nn::NamedTensor& p : model->named_parameters()) {
    if (!is_ternary(p.name)) continue;
    const Tensor codes = clamp(round(p.tensor.detach() * 16.0), -1.0, 1.0);
    p.tensor.detach().copy_(codes * scale);
    scale = scale == 0.0625 ? 0.09375 : 0.0625;
  }
  return model;
}

/// A GGUF file of a ternary model, its projections in a format.
/// @param apart whether the file has -1, 0 and 1, and the scale beside them
void save_ternary(const std::filesystem::path& path, const Decoder& model, const char* format, bool apart) {
  const TemporaryFolder folder;
  save_gguf_model(folder / "dense.gguf", model, nullptr);
  const io::GgufFile dense(folder / "dense.gguf");
  io::GgufWriter to(path);
  for (const io::GgufEntry& entry : dense.metadata())
    if (entry.key != "general.alignment") to.set(entry.key, entry.value);
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const io::GgufTensor& t : dense.tensors()) {
    Tensor values = dense.load(t).to(f32);
    const bool ternary = t.name.starts_with("blk.") && t.shape.rank() == 2;
    if (ternary && apart) {
      const Tensor scale = abs(values).max().reshape({1});
      const std::string name = t.name.substr(0, t.name.size() - 6) + "scale";
      to.add(name, quant::format_named("F32"), {1});
      tensors.emplace_back(name, scale);
      values = values / scale;
    }
    to.add(t.name, ternary ? quant::format_named(format) : *t.format, t.shape);
    tensors.emplace_back(t.name, values);
  }
  for (const auto& [name, values] : tensors) to.write(name, values);
  to.finish();
}

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

struct TernaryFile {
  const char* architecture;
  const char* format;
  bool apart;
};

class EachTernaryFile : public testing::TestWithParam<TernaryFile> {};

TEST_P(EachTernaryFile, RunsAsItsDequantizedWeights) {
  const auto [architecture, format, apart] = GetParam();
  const TemporaryFolder folder;
  const auto model = ternary_model(architecture);
  save_ternary(folder / "bitnet.gguf", *model, format, apart);
  const std::vector<std::int32_t> tokens = some_text(50, 97);
  const NoGrad no_grad;
  const Tensor text = from_vector(tokens, {1, 50}), wanted = model->forward(text);

  const Model trainable = load_model(folder / "bitnet.gguf", {.trainable = true});
  EXPECT_LT(largest(trainable.decoder->forward(text) - wanted), 1e-4 * largest(wanted));
  const Model frozen = load_model(folder / "bitnet.gguf");
  const QuantizedTensor up = frozen.decoder->blocks[1].ffn->up.blocks();
  EXPECT_EQ(up.format().name, apart ? "F32" : format);
  EXPECT_LT(largest(dequantize(up) - model->blocks[1].ffn->up.weight.detach()), 1e-7);
  // Activations that meet codes are rounded to 8 bits.
  Generator generator(*frozen.decoder, {.cache = {.dtype = f32}});
  EXPECT_LT(largest(generator.logits(tokens) - wanted.select(0, 0)), (apart ? 1e-4 : 0.05) * largest(wanted));
}

INSTANTIATE_TEST_SUITE_P(BitNet, EachTernaryFile,
                         testing::Values(TernaryFile{"bitnet", "I2_S", false}, TernaryFile{"bitnet", "TQ2_0", false},
                                         TernaryFile{"bitnet", "I2_S", true}, TernaryFile{"bitnet", "TQ2_0", true},
                                         TernaryFile{"bitnet-b1.58", "I2_S", false},
                                         TernaryFile{"bitnet-b1.58", "TQ2_0", false},
                                         TernaryFile{"bitnet-25", "TQ1_0", true}),
                         [](const auto& info) {
                           std::string name = fmt::format("{}_{}{}", info.param.architecture, info.param.format,
                                                          info.param.apart ? "_apart" : "");
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

class BitNetOnDevice : public OnDevice {};

TEST_P(BitNetOnDevice, RunsAsItsDequantizedWeights) {
  for (const auto& [architecture, format] : {std::pair{"bitnet", "TQ2_0"}, {"bitnet-b1.58", "I2_S"}}) {
    const TemporaryFolder folder;
    const auto model = ternary_model(architecture);
    save_ternary(folder / "bitnet.gguf", *model, format, false);
    const std::vector<std::int32_t> tokens = some_text(50, 97);
    const NoGrad no_grad;
    const Tensor wanted = model->forward(from_vector(tokens, {1, 50})).select(0, 0);
    const Model frozen = load_model(folder / "bitnet.gguf", {.device = device()});
    // A prompt, and one token after the other.
    for (const std::int64_t chunk : {50, 1}) {
      Generator generator(*frozen.decoder, {.device = device(), .chunk = chunk, .cache = {.dtype = f32}});
      EXPECT_LT(largest(generator.logits(tokens).to(kCPU) - wanted), 0.05 * largest(wanted)) << format << chunk;
    }
  }
}

ETNA_ON_EVERY_DEVICE(BitNetOnDevice);

TEST(BitNet, AScaleIsOneNumber) {
  const TemporaryFolder folder;
  const auto model = ternary_model("bitnet");
  save_ternary(folder / "bitnet.gguf", *model, "TQ2_0", true);
  const io::GgufFile whole(folder / "bitnet.gguf");
  io::GgufWriter to(folder / "changed.gguf");
  for (const io::GgufEntry& entry : whole.metadata())
    if (entry.key != "general.alignment") to.set(entry.key, entry.value);
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const io::GgufTensor& t : whole.tensors()) {
    const Tensor values = t.name == "blk.1.ffn_up.scale" ? ones({2}) : whole.load(t);
    to.add(t.name, *t.format, values.shape());
    tensors.emplace_back(t.name, values);
  }
  for (const auto& [name, values] : tensors) to.write(name, values);
  to.finish();
  try {
    load_model(folder / "changed.gguf");
    ADD_FAILURE();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'blk.1.ffn_up.scale' is [2]; a matrix has one scale"));
  }
}

const char* kOnline = R"(, "hidden_act": "relu2", "quantization_config":
    {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"})";
const char* kOffline = R"(, "hidden_act": "relu2", "quantization_config":
    {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"})";

TEST(BitNet, RoundsWeightsThatAreQuantizedOnline) {
  DecoderConfig config = small_config("bitnet-b1.58");
  const auto model = small_model(config), ternary = small_model(config);
  for (const nn::NamedTensor& p : ternary->named_parameters())
    if (is_ternary(p.name)) p.tensor.detach().copy_(rounded(p.tensor.detach()));
  const NoGrad no_grad;
  const Tensor text = from_vector(some_text(50, 97), {1, 50});
  const Tensor plain = model->forward(text), wanted = ternary->forward(text);
  EXPECT_GT(largest(plain - wanted), 0.1);

  const TemporaryFolder online, plain_folder;
  FolderWriter(*model, {"bitnet", "bitnet-b1.58", "model.", kOnline}).save(online);
  EXPECT_LT(largest(load_model(online.path(), {.trainable = true}).decoder->forward(text) - wanted), 1e-4);
  const Model frozen = load_model(online.path());
  Generator generator(*frozen.decoder, {.cache = {.dtype = f32}});
  EXPECT_LT(largest(generator.logits(some_text(50, 97)) - wanted.select(0, 0)), 2e-4);
  // Embeddings are not rounded, nor is a file that does not ask for it.
  EXPECT_EQ(largest(dequantize(frozen.decoder->token_embedding.blocks()) - model->token_embedding.weight.detach()), 0);
  FolderWriter(*model, {"bitnet", "bitnet-b1.58", "model.", R"(, "hidden_act": "relu2")"}).save(plain_folder);
  EXPECT_LT(largest(load_model(plain_folder.path(), {.trainable = true}).decoder->forward(text) - plain), 1e-4);

  // What was rounded when it was read needs no rounding in GGUF.
  save_gguf_model(online / "converted.gguf", *frozen.decoder, nullptr);
  const Model converted = load_model(online / "converted.gguf", {.trainable = true});
  EXPECT_LT(largest(converted.decoder->forward(text) - wanted), 1e-4);
}

TEST(BitNet, ReadsFoldersOfTheFirstModels) {
  const auto model = small_model(small_config("bitnet")), ternary = small_model(small_config("bitnet"));
  for (const nn::NamedTensor& p : ternary->named_parameters())
    if (is_ternary(p.name)) p.tensor.detach().copy_(rounded(p.tensor.detach()));
  const NoGrad no_grad;
  const Tensor text = from_vector(some_text(50, 97), {1, 50}), wanted = ternary->forward(text);
  const TemporaryFolder folder, other;
  FolderWriter(*model, {"llama", "bitnet", "model.", R"(, "hidden_act": "silu", "weight_bits": 1, "input_bits": 8)"})
      .save(folder);
  const Model read = load_model(folder.path(), {.trainable = true});
  EXPECT_EQ(read.decoder->config.architecture, "bitnet");
  EXPECT_LT(largest(read.decoder->forward(text) - wanted), 1e-4);
  FolderWriter(*model, {"llama", "bitnet", "model.", R"(, "weight_bits": 4)"}).save(other);
  EXPECT_THROW(load_model(other.path()), FormatError);
}

TEST(BitNet, MultipliesByTheScalesOfOfflineFiles) {
  const auto model = ternary_model("bitnet-b1.58");
  const Family family{"bitnet", "bitnet-b1.58", "model.", kOffline};
  FolderWriter writer(*model, family);
  NamedTensors scales;
  for (auto& [name, values] : writer.tensors()) {
    if (!name.ends_with("_proj.weight")) continue;
    const Tensor scale = abs(values).max().reshape({1});
    scales.emplace_back(name + "_scale", scale);
    values = values / scale;
  }
  writer.tensors().insert(writer.tensors().end(), scales.begin(), scales.end());
  const TemporaryFolder folder;
  writer.save(folder);
  const NoGrad no_grad;
  const Tensor text = from_vector(some_text(50, 97), {1, 50}), wanted = model->forward(text);
  const Model again = load_model(folder.path(), {.trainable = true});
  EXPECT_LT(largest(again.decoder->forward(text) - wanted), 1e-4 * largest(wanted));
}

TEST(BitNet, RefusesPackedSafetensors) {
  const auto model = ternary_model("bitnet-b1.58");
  FolderWriter writer(*model, {"bitnet", "bitnet-b1.58", "model.", kOffline});
  for (auto& [name, values] : writer.tensors())
    if (name.ends_with("_proj.weight")) values = zeros({values.size(0) / 4, values.size(1)}, u8);
  const TemporaryFolder folder;
  writer.save(folder);
  try {
    load_model(folder.path());
    ADD_FAILURE();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has an unknown format"));
  }
}

}  // namespace
}  // namespace etna::models
