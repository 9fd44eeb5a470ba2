#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/temporary_folder.h"
#include "encoder_folder.h"

// Encoders in folders of Hugging Face.
namespace etna::models {
namespace {

using testing::HasSubstr;

constexpr const char* kClassifies = R"(, "architectures": ["BertForSequenceClassification"])";

class EncoderFiles : public testing::Test {
 protected:
  static EncoderConfig config_of(const std::string& family, std::int64_t labels = 0) {
    EncoderConfig config = small_encoder_config(family);
    config.classifier.labels = labels;
    if (family == "modernbert")
      config.classifier = {.labels = labels, .activation = Activation::gelu, .bias = false, .norm = true};
    return config;
  }
  double difference_to(const Encoder& model) const {
    const NoGrad no_grad;
    const Tensor text = from_vector(some_text(30, 97), {1, 30});
    double largest = 0;
    for (const bool trainable : {true, false}) {
      const EncoderModel again = load_encoder(folder_.path(), {.trainable = trainable});
      const auto off = [&](const Tensor& a, const Tensor& b) {
        largest = std::max(largest, (a - b).abs().max().item<double>());
      };
      off(again.encoder->forward(text), model.forward(text));
      EXPECT_EQ(again.encoder->classifier == nullptr, model.classifier == nullptr);
      if (model.classifier) off(again.encoder->classify({text}), model.classify({text}));
    }
    return largest;
  }
  std::string refusal() const {
    try {
      load_encoder(folder_.path());
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
};

TEST_F(EncoderFiles, GiveTheVectorsOfTheModelTheyWereWrittenFrom) {
  const auto bert = small_encoder(config_of("bert")), modern = small_encoder(config_of("modernbert"));
  for (const char* prefix : {"", "bert."}) {
    EncoderFolder{*bert, prefix}.save(folder_.path());
    EXPECT_LT(difference_to(*bert), 1e-4) << prefix;
  }
  EncoderFolder{*bert, "bert.", true}.save(folder_.path());
  EXPECT_LT(difference_to(*bert), 1e-4) << "gamma and beta";
  for (const char* prefix : {"", "model."}) {
    EncoderFolder{*modern, prefix}.save(folder_.path());
    EXPECT_LT(difference_to(*modern), 1e-4) << prefix;
  }
}

TEST_F(EncoderFiles, HaveClassifiersWhereTheirClassSaysSo) {
  const auto bert = small_encoder(config_of("bert", 2));
  EncoderFolder{*bert, "bert.", false, kClassifies}.save(folder_.path());
  EXPECT_LT(difference_to(*bert), 1e-4);
  const auto one = small_encoder(config_of("bert", 1));
  EncoderFolder{*one, "bert.", false, std::string(kClassifies) + R"(, "id2label": {"0": "LABEL_0"})"}.save(
      folder_.path());
  EXPECT_LT(difference_to(*one), 1e-4);
  const auto modern = small_encoder(config_of("modernbert", 2));
  EncoderFolder{*modern, "model.", false, R"(, "architectures": ["ModernBertForSequenceClassification"])"}.save(
      folder_.path());
  EXPECT_LT(difference_to(*modern), 1e-4);
  // The same weights without the class: the head is left out.
  EncoderFolder{*bert, "bert."}.save(folder_.path());
  EXPECT_EQ(load_encoder(folder_.path()).encoder->classifier, nullptr);
}

TEST_F(EncoderFiles, SayWhatIsWrongWithThem) {
  const auto bert = small_encoder(config_of("bert"));
  EncoderFolder{*bert, "", false, "", {{"encoder.layer.7.output.dense.bias", zeros({32})}}}.save(folder_.path());
  EXPECT_THAT(refusal(), HasSubstr("has no place for 'encoder.layer.7.output.dense.bias'"));
  EncoderFolder{*bert, "", false, "", {{"vision.weight", zeros({32})}}}.save(folder_.path());
  EXPECT_THAT(refusal(), HasSubstr("'vision.weight'"));
  EncoderFolder{*bert, "", false, "", {{"cls.predictions.bias", zeros({97})}}}.save(folder_.path());
  EXPECT_EQ(refusal(), "");
  for (const auto& [more, wanted] : {std::pair{R"(, "position_embedding_type": "relative_key")", "relative_key"},
                                     {R"(, "is_decoder": true)", "'is_decoder' = true"},
                                     {R"(, "quantization_config": {})", "quantization_config"},
                                     {R"(, "hidden_act": "unheard")", "the activation 'unheard' is not known"},
                                     {R"(, "layer_norm_eps": "small")", "wanted a number"},
                                     {R"(, "head_dim": 0)", "head_size is 0"}}) {
    EncoderFolder{*bert, "", false, more}.save(folder_.path());
    EXPECT_THAT(refusal(), HasSubstr(wanted)) << more;
  }
  const auto modern = small_encoder(config_of("modernbert"));
  for (const auto& [more, wanted] :
       {std::pair{R"(, "layer_types": ["full_attention"])", "no list for 3 layers"},
        {R"(, "layer_types": ["full_attention", "x", "x"])", "has \"x\" in 'layer_types'"},
        {R"(, "rope_parameters": {"full_attention": {"rope_type": "yarn"}})", "rope_type 'yarn'"}}) {
    EncoderFolder{*modern, "", false, more}.save(folder_.path());
    EXPECT_THAT(refusal(), HasSubstr(wanted)) << more;
  }
}

TEST_F(EncoderFiles, AreNotDecoders) {
  EncoderFolder{*small_encoder(config_of("bert"))}.save(folder_.path());
  EXPECT_TRUE(is_encoder(folder_.path()));
  try {
    load_model(folder_.path());
    ADD_FAILURE() << "a decoder was made of an encoder";
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'bert' is a text encoder, which writes no text"));
  }
  std::ofstream(folder_ / "config.json") << R"({"model_type": "llama"})";
  EXPECT_FALSE(is_encoder(folder_.path()));
  EXPECT_THAT(refusal(), HasSubstr("models of the type 'llama' are no text encoders that run here; these do: bert"));
  EXPECT_FALSE(is_encoder(folder_ / "missing"));
  EXPECT_THROW(load_encoder(folder_ / "missing"), FormatError);
  EXPECT_THROW(load_encoder(""), FormatError);
  EXPECT_THROW(load_encoder(folder_ / "config.json"), FormatError);
}

}  // namespace
}  // namespace etna::models
