#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/io/gguf.h>

#include "data/temporary_folder.h"
#include "small_encoders.h"

// Encoders in GGUF files.
namespace etna::models {
namespace {

using testing::HasSubstr;

double gguf_difference(const Encoder& a, const Encoder& b) {
  const NoGrad no_grad;
  const Tensor text = from_vector(some_text(30, 97), {1, 30});
  return (a.forward(text) - b.forward(text)).abs().max().item<double>();
}

TEST(EncoderGguf, GivesTheVectorsOfTheModelItWasWrittenFrom) {
  const TemporaryFolder folder;
  for (const char* family : {"bert", "roberta", "nomic_bert", "modernbert"}) {
    const auto model = small_encoder(small_encoder_config(family));
    save_gguf_encoder(folder / "model.gguf", *model, nullptr, Pooling::cls);
    EXPECT_TRUE(is_encoder(folder / "model.gguf"));
    const EncoderModel again = load_encoder(folder / "model.gguf");
    EXPECT_LT(gguf_difference(*model, *again.encoder), 1e-4) << family;
    EXPECT_EQ(again.encoder->config.context, 64) << family;
    EXPECT_EQ(embedding_settings(folder / "model.gguf").pooling, Pooling::cls);
    // Again, from the file, in another format.
    save_gguf_encoder(folder / "again.gguf", *again.encoder, nullptr, Pooling::mean, &quant::format_named("F16"));
    const EncoderModel halves = load_encoder(folder / "again.gguf");
    const Tensor& before = model->blocks[0].qkv.weight;
    EXPECT_LT((dequantize(halves.encoder->blocks[0].qkv.blocks()) - before).abs().max().item<double>(), 1e-3) << family;
    EXPECT_LT(gguf_difference(*model, *halves.encoder), multiplies_exactly(kCPU, "F16") ? 3e-2 : 0.3) << family;
  }
}

TEST(EncoderGguf, NamesThingsAsLlamaCppDoes) {
  const TemporaryFolder folder;
  EncoderConfig config = small_encoder_config("bert");
  config.classifier.labels = 1;
  const auto model = small_encoder(config);
  save_gguf_encoder(folder / "model.gguf", *model, nullptr);
  const io::GgufFile file(folder / "model.gguf");
  EXPECT_EQ(file.string("general.architecture"), "bert");
  EXPECT_FALSE(file.boolean("bert.attention.causal"));
  EXPECT_EQ(file.integer("bert.pooling_type"), 4);
  EXPECT_EQ(file.integer("tokenizer.ggml.token_type_count"), 2);
  for (const char* name :
       {"token_embd.weight", "position_embd.weight", "token_types.weight", "token_embd_norm.bias", "blk.2.attn_q.bias",
        "blk.2.attn_output_norm.weight", "blk.2.layer_output_norm.bias", "cls.bias", "cls.output.weight"})
    EXPECT_NE(file.find_tensor(name), nullptr) << name;
  const NoGrad no_grad;
  const Tensor text = from_vector(some_text(9, 97), {1, 9});
  const Tensor scores = load_encoder(folder / "model.gguf").encoder->classify({text});
  EXPECT_LT((scores - model->classify({text})).abs().max().item<double>(), 1e-4);
}

TEST(EncoderGguf, RefusesWhatItHasNoWordsFor) {
  const TemporaryFolder folder;
  const auto refusal = [&](const EncoderConfig& config) -> std::string {
    try {
      save_gguf_encoder(folder / "model.gguf", *small_encoder(config), nullptr);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  for (const char* family : {"electra", "mpnet"})
    EXPECT_THAT(refusal(small_encoder_config(family)), HasSubstr("is not written here"));
  EncoderConfig config = small_encoder_config("bert");
  config.activation = Activation::relu;
  EXPECT_THAT(refusal(config), HasSubstr("its activation is relu"));
  config = small_encoder_config("bert");
  config.classifier = {.labels = 1, .activation = Activation::relu};
  EXPECT_THAT(refusal(config), HasSubstr("classifier"));
}

}  // namespace
}  // namespace etna::models
