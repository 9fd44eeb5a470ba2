#include <functional>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/etna.h>
#include <etna/tensor/io/internal/llama2c.h>

#include "data/temporary_folder.h"

namespace etna::io {
namespace {

using testing::HasSubstr;

/// A checkpoint in which weight i has the value i.
std::string checkpoint(std::array<std::int32_t, 7> config, std::size_t floats) {
  std::vector<float> weights(floats);
  std::iota(weights.begin(), weights.end(), 0.0f);
  return std::string(reinterpret_cast<const char*>(config.data()), sizeof config) +
         std::string(reinterpret_cast<const char*>(weights.data()), floats * sizeof(float));
}

// width 4, feed-forward 6, two layers, two heads, one key/value head, vocabulary 5, context 3
constexpr std::array<std::int32_t, 7> kSmall = {4, 6, 2, 2, 1, 5, 3};
constexpr std::size_t kLayer = 4 + 16 + 8 + 8 + 16 + 4 + 24 + 24 + 24;
constexpr std::size_t kFloats = 20 + 2 * kLayer + 4 + 2 * 3;

TEST(Llama2c, NamesTheWeightsOfALegacyCheckpoint) {
  const TemporaryFolder folder;
  const Llama2cCheckpoint file(folder.write("model.bin", checkpoint(kSmall, kFloats)));
  EXPECT_EQ(file.config().width, 4);
  EXPECT_EQ(file.config().kv_width(), 2);
  EXPECT_EQ(file.config().context, 3);
  EXPECT_TRUE(file.config().tied);
  EXPECT_EQ(file.tensors().size(), 2u + 2 * 9);
  EXPECT_EQ(file.load("tok_embeddings.weight").shape(), Shape({5, 4}));
  EXPECT_EQ(file.load("layers.1.attention_norm.weight").to_vector<float>(), (std::vector<float>{24, 25, 26, 27}));
  // All layers' wq come before all layers' wk.
  EXPECT_EQ(file.load("layers.0.attention.wq.weight").to_vector<float>()[0], 28);
  EXPECT_EQ(file.load("layers.1.attention.wq.weight").to_vector<float>()[0], 44);
  EXPECT_EQ(file.load("layers.0.attention.wk.weight").shape(), Shape({2, 4}));
  EXPECT_EQ(file.load("layers.1.feed_forward.w2.weight").shape(), Shape({4, 6}));
  EXPECT_EQ(file.load("norm.weight").to_vector<float>()[3], static_cast<float>(20 + 2 * kLayer + 3));
  EXPECT_EQ(file.bytes("norm.weight").size(), 16u);
  EXPECT_THROW(file.bytes("output.weight"), FormatError);
}

TEST(Llama2c, ReadsALastMatrixOfItsOwn) {
  const TemporaryFolder folder;
  std::array<std::int32_t, 7> config = kSmall;
  config[5] = -5;
  const Llama2cCheckpoint file(folder.write("model.bin", checkpoint(config, kFloats + 20)));
  EXPECT_FALSE(file.config().tied);
  EXPECT_EQ(file.config().vocabulary, 5);
  EXPECT_EQ(file.load("output.weight").to_vector<float>()[19], static_cast<float>(kFloats + 19));
}

TEST(Llama2c, RefusesOtherFilesInWords) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& bytes) -> std::string {
    const std::filesystem::path path = folder.write("bad.bin", bytes);
    try {
      Llama2cCheckpoint{path};
    } catch (const FormatError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith(path.string() + ": "));
      return error.what();
    }
    return "nothing was thrown";
  };
  const auto with = [](std::size_t field, std::int32_t value) {
    std::array<std::int32_t, 7> config = kSmall;
    config[field] = value;
    return checkpoint(config, kFloats);
  };
  EXPECT_THAT(said(""), HasSubstr("is 0 bytes long, too short"));
  EXPECT_THAT(said(with(0, 0x616b3432)), HasSubstr("export it with --version 0"));
  EXPECT_THAT(said(with(0, 0)), HasSubstr("has 0 as dim"));
  EXPECT_THAT(said(with(2, -1)), HasSubstr("has -1 as n_layers"));
  EXPECT_THAT(said(with(5, INT32_MIN)), HasSubstr("as vocab_size"));
  EXPECT_THAT(said(with(3, 3)), HasSubstr("has 3 heads for a width of 4"));
  EXPECT_THAT(said(with(3, 4)), HasSubstr("each head must have the same, even width"));
  EXPECT_THAT(said(with(4, 3)), HasSubstr("2 heads for 3 key/value heads"));
  EXPECT_THAT(said(with(2, INT32_MAX)), HasSubstr("ends within attention_norm"));
  EXPECT_THAT(said(with(5, INT32_MAX)), HasSubstr("ends within tok_embeddings.weight"));
  EXPECT_THAT(said(checkpoint(kSmall, kFloats - 1)), HasSubstr("ends within the table of sines"));
  EXPECT_THAT(said(checkpoint(kSmall, kFloats + 1)), HasSubstr("has 1 numbers after its last tensor"));
  EXPECT_THAT(said(checkpoint(kSmall, kFloats) + "x"), HasSubstr("does not end with a whole f32"));
}

}  // namespace
}  // namespace etna::io
