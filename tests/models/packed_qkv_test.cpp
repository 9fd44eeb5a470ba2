#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>
#include <nn/on_device.h>

#include "small_models.h"

/// Queries, keys and values by one projection, as GPT-2 has them, or by three.
namespace etna::models {
namespace {

DecoderConfig packed_qkv_config(bool packed) {
  DecoderConfig config = small_config("gpt2");
  config.packed_qkv = packed;
  return config;
}

std::unique_ptr<Decoder> same_model(const Decoder& model, bool packed) {
  return decoder_of(packed_qkv_config(packed), model.state_dict(), {.trainable = true});
}

Tensor text_of_sixty() { return from_vector(some_text(60, 97), {1, 60}); }

TEST(PackedQkv, GivesWhatThreeProjectionsGive) {
  const auto three = small_model(packed_qkv_config(false)), one = same_model(*three, true),
             again = same_model(*one, false);
  ASSERT_TRUE(one->blocks[0].attention->qkv);
  EXPECT_EQ(one->blocks[0].attention->query, nullptr);
  EXPECT_EQ(one->num_parameters(), three->num_parameters());
  EXPECT_EQ(again->blocks[1].attention->key->weight.to_vector<float>(),
            three->blocks[1].attention->key->weight.to_vector<float>());
  const Tensor x = text_of_sixty();
  expect_near(one->forward(x), three->forward(x), 1e-4);
  one->loss(x, x).backward(), three->loss(x, x).backward();
  const DecoderAttention& a = *three->blocks[0].attention;
  expect_near(one->blocks[0].attention->qkv->weight.grad(),
              cat({a.query->weight.grad(), a.key->weight.grad(), a.value->weight.grad()}), 1e-5);
}

/// What a model may have beside it does not depend on it.
TEST(PackedQkv, GoesWithNormsWindowsAndSoftcaps) {
  for (const int part : {0, 1, 2}) {
    DecoderConfig packed = packed_qkv_config(true);
    packed.query_key_norm = part == 0;
    packed.window = part == 1 ? 24 : 0;
    packed.attention_softcap = part == 2 ? 20 : 0;
    packed.kv_heads = 2;
    DecoderConfig separate = packed;
    separate.packed_qkv = false;
    const auto three = small_model(separate);
    const auto one = decoder_of(packed, three->state_dict(), {.trainable = true});
    const NoGrad no_grad;
    const Tensor whole = three->forward(text_of_sixty());
    expect_near(one->forward(text_of_sixty()), whole, 1e-4);
    Generator generator(*one, {.chunk = 31, .cache = {.dtype = f32}});
    expect_near(generator.logits(some_text(60, 97)), whole.select(0, 0), 2e-4);
  }
}

TEST(PackedQkv, IsOneTensorInAFileEitherWay) {
  const TemporaryFolder folder;
  const auto three = small_model(packed_qkv_config(false)), one = same_model(*three, true);
  for (const char* format : {"F32", "Q8_0"}) {
    save_gguf_model(folder / "three.gguf", *three, nullptr, &quant::format_named(format));
    save_gguf_model(folder / "one.gguf", *one, nullptr, &quant::format_named(format));
    const io::GgufFile a(folder / "three.gguf"), b(folder / "one.gguf");
    ASSERT_EQ(a.tensors().size(), b.tensors().size());
    for (const io::GgufTensor& tensor : a.tensors())
      EXPECT_EQ(b.load(b.tensor(tensor.name)).to_vector<float>(), a.load(tensor).to_vector<float>()) << tensor.name;
    const Model loaded = load_model(folder / "one.gguf");
    EXPECT_TRUE(loaded.decoder->blocks[0].attention->qkv->frozen());
    EXPECT_EQ(loaded.decoder->blocks[0].attention->qkv->blocks().format().name, format);
  }
}

TEST(PackedQkv, IsReadFromThreeTensors) {
  const TemporaryFolder folder;
  const auto model = small_model(packed_qkv_config(true));
  for (const char* format : {"F32", "Q8_0"}) {
    save_gguf_model(folder / "packed.gguf", *model, nullptr, &quant::format_named(format));
    const io::GgufFile file(folder / "packed.gguf");
    io::GgufWriter to(folder / "split.gguf");
    for (const io::GgufEntry& entry : file.metadata())
      if (entry.key != "general.alignment") to.set(entry.key, entry.value);
    struct Rows {
      std::string name;
      const io::GgufTensor* of;
      std::size_t part, parts;
    };
    std::vector<Rows> all;
    for (const io::GgufTensor& tensor : file.tensors()) {
      const std::size_t at = tensor.name.find("attn_qkv");
      if (at == std::string::npos) all.push_back({tensor.name, &tensor, 0, 1});
      for (std::size_t i = 0; at != std::string::npos && i < 3; ++i) {
        std::string name = tensor.name;
        all.push_back({name.replace(at, 8, std::string("attn_") + "qkv"[i]), &tensor, i, 3});
      }
    }
    for (const Rows& rows : all) {
      Shape shape = rows.of->shape;
      shape[0] /= static_cast<std::int64_t>(rows.parts);
      to.add(rows.name, *rows.of->format, shape);
    }
    for (const Rows& rows : all) {
      const io::MappedBytes bytes = file.bytes(*rows.of);
      const std::span<const std::byte> whole = bytes;
      const std::size_t size = whole.size() / rows.parts;
      to.write(rows.name, whole.subspan(rows.part * size, size));
    }
    to.finish();
    const Model packed = load_model(folder / "packed.gguf"), split = load_model(folder / "split.gguf");
    const Projection& one = *packed.decoder->blocks[1].attention->qkv;
    const Projection& three = *split.decoder->blocks[1].attention->qkv;
    EXPECT_EQ(three.blocks().format().name, format);
    EXPECT_EQ(three.packed.to_vector<std::uint8_t>(), one.packed.to_vector<std::uint8_t>());
    EXPECT_EQ(three.bias.to_vector<float>(), one.bias.to_vector<float>());
  }
}

TEST(PackedQkv, IsRefusedWithRotaryPositions) {
  DecoderConfig config = small_config("llama");
  config.packed_qkv = true;
  EXPECT_THROW(Decoder{config}, FormatError);
}

}  // namespace
}  // namespace etna::models
