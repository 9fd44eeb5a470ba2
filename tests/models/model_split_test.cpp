#include <etna/models/internal/model_split.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>

#include "data/temporary_folder.h"
#include "small_models.h"

// Which part of a model each rank reads. That ranks write the whole model's text: tests/dist/world/decoder_split.cpp.
namespace etna::models {
namespace {

using testing::HasSubstr;

std::string split_error_of(const DecoderConfig& config, const ModelSplit& split) {
  try {
    decoder_part(config, split);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ModelSplit, PartsFollowEachOtherAndCoverTheModel) {
  DecoderConfig c = small_config("llama");
  for (const std::int64_t kv_heads : {1, 2, 3, 6, 12}) {
    c.heads = 12;
    c.kv_heads = kv_heads;
    c.feed_forward = 172;
    for (int ranks = 1; ranks <= 6; ++ranks) {
      if (kv_heads < ranks && (ranks % kv_heads != 0 || 12 % ranks != 0)) continue;
      PartRange heads, feed_forward, vocabulary;
      for (int rank = 0; rank < ranks; ++rank) {
        const DecoderPart part = decoder_part(c, {rank, ranks});
        EXPECT_EQ(part.heads.begin, heads.end());
        EXPECT_EQ(part.feed_forward.begin, feed_forward.end());
        EXPECT_EQ(part.vocabulary.begin, vocabulary.end());
        const std::int64_t group = c.heads / c.kv_heads;
        EXPECT_EQ(part.kv_heads.begin, part.heads.begin / group) << kv_heads << " over " << ranks;
        EXPECT_EQ(part.kv_heads.end() - 1, (part.heads.end() - 1) / group);
        EXPECT_EQ(part.heads.size % part.kv_heads.size, 0);
        heads = part.heads, feed_forward = part.feed_forward, vocabulary = part.vocabulary;
      }
      EXPECT_EQ(heads.end(), 12);
      EXPECT_EQ(feed_forward.end(), 172);
      EXPECT_EQ(vocabulary.end(), 97);
    }
  }
}

TEST(ModelSplit, BlocksStayTogether) {
  DecoderConfig c = small_config("gpt2");
  c.heads = c.kv_heads = 12;
  c.head_size = 64;
  c.feed_forward = 11008;  // 43 blocks of 256
  const DecoderPart first = decoder_part(c, {0, 2, 256}), second = decoder_part(c, {1, 2, 256});
  EXPECT_EQ(first.heads.size, 4);  // three blocks of attention's output
  EXPECT_EQ(second.heads.size, 8);
  EXPECT_EQ(first.feed_forward.size, 21 * 256);
  EXPECT_EQ(second.feed_forward.size, 22 * 256);
  EXPECT_EQ(decoder_part(c, {0, 2}).heads.size, 6);
}

TEST(ModelSplit, ErrorsNameTheNumbersThatWork) {
  DecoderConfig c = small_config("gpt2");
  c.heads = c.kv_heads = 12;
  c.head_size = 64;
  c.feed_forward = 3072;
  EXPECT_EQ(split_error_of(c, {0, 4, 256}),
            "a model with 12 heads of 64 elements, 12 of them with keys, whose weights are in blocks of 256, cannot be "
            "divided over 4 ranks; it can over 2, 3");
  c = small_config("llama");
  c.heads = 4;
  c.kv_heads = 2;
  EXPECT_THAT(split_error_of(c, {0, 3}), HasSubstr("cannot be divided over 3 ranks; it can over 2, 4"));
  c.feed_forward = 1;
  EXPECT_THAT(split_error_of(c, {0, 2}), HasSubstr("a feed-forward layer of 1 columns, cannot be divided over 2 ranks; "
                                                   "it runs on one only"));
  EXPECT_THAT(split_error_of(small_config("bitnet"), {0, 2}), HasSubstr("run it on one device"));
  EXPECT_THAT(split_error_of(c, {2, 2}), HasSubstr("there is no such part"));
  EXPECT_THAT(split_error_of(c, {0, 0}), HasSubstr("there is no such part"));
  EXPECT_THAT(split_error_of(c, {-1, 2}), HasSubstr("there is no such part"));
}

/// Values of a projection, however it holds them.
Tensor split_values_of(const Projection& layer) { return dequantize(layer.blocks()); }

void expect_parts_of(const std::filesystem::path& file, int ranks) {
  const Model whole = load_model(file);
  const DecoderConfig& c = whole.decoder->config;
  std::vector<Model> parts;
  for (int rank = 0; rank < ranks; ++rank) parts.push_back(load_model(file, {.split = {rank, ranks}}));
  const auto joined = [&](auto&& layer_of, std::int64_t dim) {
    std::vector<Tensor> values;
    for (const Model& part : parts) values.push_back(split_values_of(layer_of(*part.decoder)));
    return cat(values, dim);
  };
  const auto expect = [&](const char* name, auto&& layer_of, std::int64_t dim) {
    const Tensor wanted = split_values_of(layer_of(*whole.decoder)), got = joined(layer_of, dim);
    ASSERT_EQ(got.shape(), wanted.shape()) << name;
    EXPECT_TRUE(got.equal(wanted)) << name;
  };
  expect(
      "embedding", [](const Decoder& d) -> auto& { return d.token_embedding; }, 0);
  if (!c.tied)
    expect(
        "head", [](const Decoder& d) -> auto& { return *d.output; }, 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.layers); ++i) {
    expect(
        "output", [&](const Decoder& d) -> auto& { return d.blocks[i].attention->output; }, 1);
    expect(
        "up", [&](const Decoder& d) -> auto& { return d.blocks[i].ffn->up; }, 0);
    expect(
        "down", [&](const Decoder& d) -> auto& { return d.blocks[i].ffn->down; }, 1);
    if (c.packed_qkv) {
      // Each rank's own queries, keys and values lie below each other.
      const Tensor wanted = split_values_of(*whole.decoder->blocks[i].attention->qkv);
      for (std::int64_t k = 0; k < 3; ++k) {
        std::vector<Tensor> own;
        for (const Model& part : parts) {
          const Tensor rows = split_values_of(*part.decoder->blocks[i].attention->qkv);
          const std::int64_t third = rows.size(0) / 3;
          own.push_back(rows.slice(0, k * third, (k + 1) * third));
        }
        EXPECT_TRUE(cat(own).equal(wanted.slice(0, k * c.query_rows(), (k + 1) * c.query_rows()).contiguous()));
      }
    } else {
      expect(
          "query", [&](const Decoder& d) -> auto& { return *d.blocks[i].attention->query; }, 0);
      expect(
          "key", [&](const Decoder& d) -> auto& { return *d.blocks[i].attention->key; }, 0);
    }
    if (!whole.decoder->blocks[i].ffn->down.bias.defined()) continue;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const Tensor &bias = parts[rank].decoder->blocks[i].ffn->down.bias,
                   &all = whole.decoder->blocks[i].ffn->down.bias;
      EXPECT_TRUE(bias.equal(rank == 0 ? all : zeros_like(all)));
    }
  }
}

TEST(ModelSplit, PartsOfAFileAreThoseOfTheModel) {
  const TemporaryFolder folder;
  for (const char* architecture : {"llama", "gpt2", "gemma2", "qwen2", "phi2"}) {
    for (const char* format : {"F32", "F16", "Q8_0"}) {
      SCOPED_TRACE(std::string(architecture) + " in " + format);
      save_gguf_model(folder / "model.gguf", *small_model(small_config(architecture)), nullptr,
                      &quant::format_named(format));
      expect_parts_of(folder / "model.gguf", 2);
    }
  }
}

TEST(ModelSplit, BlocksOfKQuantsAreDivided) {
  const TemporaryFolder folder;
  DecoderConfig c = small_config("llama");
  c.width = 256;
  c.heads = 8;
  c.kv_heads = 4;
  c.head_size = 64;
  c.feed_forward = 768;
  fill_defaults(c);
  for (const char* format : {"Q4_K", "Q6_K", "Q5_K"}) {
    SCOPED_TRACE(format);
    save_gguf_model(folder / "model.gguf", *small_model(c), nullptr, &quant::format_named(format));
    expect_parts_of(folder / "model.gguf", 2);
    try {
      load_model(folder / "model.gguf", {.split = {0, 4}});
      ADD_FAILURE() << "512 columns of attention are two blocks";
    } catch (const FormatError& error) {
      EXPECT_THAT(error.what(), HasSubstr("model.gguf: a model with 8 heads of 64 elements"));
      EXPECT_THAT(error.what(), HasSubstr("blocks of 256, cannot be divided over 4 ranks; it can over 2"));
    }
  }
}

std::uint64_t bytes_in(const nn::Module& module) {
  std::uint64_t bytes = 0;
  for (const auto& [name, x] : module.state_dict())
    bytes += static_cast<std::uint64_t>(x.numel()) * item_size(x.dtype());
  return bytes;
}

TEST(ModelSplit, EachRankHoldsItsShareOfBytes) {
  const TemporaryFolder folder;
  DecoderConfig c = small_config("llama");
  c.vocabulary = 512;
  c.width = 128;
  c.kv_heads = 4;
  c.head_size = 32;
  c.feed_forward = 256;
  fill_defaults(c);
  save_gguf_model(folder / "model.gguf", *small_model(c), nullptr, &quant::format_named("Q8_0"));
  const Model whole = load_model(folder / "model.gguf");
  const auto all = static_cast<double>(bytes_in(*whole.decoder));
  for (const int ranks : {2, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Model part = load_model(folder / "model.gguf", {.split = {rank, ranks}});
      const auto own = static_cast<double>(bytes_in(*part.decoder));
      EXPECT_NEAR(own / all, 1.0 / ranks, 0.02);  // norms are everywhere
      const Generator one(*whole.decoder, {.cache = {.dtype = f32}});
      Generator generator(*part.decoder, {.cache = {.dtype = f32}});
      EXPECT_EQ(generator.cache().stats().bytes * static_cast<std::uint64_t>(ranks),
                const_cast<Generator&>(one).cache().stats().bytes);
    }
  }
  const ModelSizes sizes = model_sizes(folder / "model.gguf"), half = part_sizes(sizes, {1, 2});
  EXPECT_NEAR(static_cast<double>(half.total()) / static_cast<double>(sizes.total()), 0.5, 0.01);
  EXPECT_EQ(half.config.kv_heads, 2);
}

TEST(ModelSplit, APartOnlyGenerates) {
  const TemporaryFolder folder;
  save_gguf_model(folder / "model.gguf", *small_model(small_config("llama")), nullptr);
  const Model part = load_model(folder / "model.gguf", {.split = {1, 2}});
  EXPECT_THROW(save_gguf_model(folder / "part.gguf", *part.decoder, nullptr), Error);
  EXPECT_THROW(part.decoder->add_adapters(2, 2), Error);
  EXPECT_THROW(load_adapters(folder / "none.gguf", *part.decoder), Error);
  EXPECT_THROW(stack_adapters(folder / "none.gguf", *part.decoder), Error);
  EXPECT_THROW(load_model(folder / "model.gguf", {.trainable = true, .split = {1, 2}}), Error);
  // In a process that is in no group.
  Generator generator(*part.decoder);
  try {
    generator.logits(some_text(3, 97));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("this is part 1 of 2 of a model, in rank 0 of a group of 1"));
  }
}

}  // namespace
}  // namespace etna::models
