#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/autograd/autograd.h>
#include <etna/models/encoder.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/safetensors.h>

#include "hugging_face_folder.h"
#include "letter_tokenizer.h"
#include "small_models.h"

// Embeddings by decoders: of one direction and of both, with dense layers behind them.
namespace etna::models {
namespace {

using testing::HasSubstr;

constexpr const char* kBoth =
    R"(, "use_bidirectional_attention": true, "sliding_window": 8, "query_pre_attn_scalar": 16)";
constexpr const char* kTexts[] = {"which river?", "a",
                                  "the longest of all the texts, with more letters than the window"};

std::vector<std::string> texts_to_embed() { return {std::begin(kTexts), std::end(kTexts)}; }

/// A step of modules.json.
struct Module {
  const char* kind;
  const char* path;
};

class EmbedderFolder : public testing::Test {
 protected:
  void SetUp() override {
    model_ = small_model(config());
    FolderWriter(*model_, {"gemma3_text", "gemma-embedding", "", kBoth}).save(folder_);
    std::ofstream(folder_ / "tokenizer.json") << letter_json();
  }
  static DecoderConfig config() {
    DecoderConfig c = small_config("gemma-embedding");
    c.vocabulary = 96;
    c.window = 8;
    return c;
  }
  void modules(const std::vector<Module>& steps) const {
    nlohmann::json list = nlohmann::json::array({{{"path", ""}, {"type", "sentence_transformers.models.Transformer"}}});
    for (const Module& step : steps)
      list.push_back({{"path", step.path}, {"type", std::string("sentence_transformers.models.") + step.kind}});
    std::ofstream(folder_ / "modules.json") << list;
    std::filesystem::create_directories(folder_ / "1_Pooling");
    std::ofstream(folder_ / "1_Pooling/config.json") << R"({"pooling_mode_mean_tokens": true})";
  }
  /// @param more fields of config.json
  void dense(const std::string& path, const NamedTensors& weights, const nlohmann::json& more) const {
    std::filesystem::create_directories(folder_ / path);
    save_safetensors(folder_ / (path + "/model.safetensors"), weights);
    std::ofstream(folder_ / (path + "/config.json")) << more;
  }
  /// Two layers as EmbeddingGemma has them, from 64 to 96 and back.
  void two_layers() {
    manual_seed(5);
    up_ = randn({96, 64}) / 8;
    down_ = randn({64, 96}) / 8;
    const auto config = [](int in, int out) {
      return nlohmann::json{{"in_features", in},
                            {"out_features", out},
                            {"bias", false},
                            {"activation_function", "torch.nn.modules.linear.Identity"}};
    };
    dense("2_Dense", {{"linear.weight", up_}}, config(64, 96));
    dense("3_Dense", {{"linear.weight", down_}}, config(96, 64));
    modules({{"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}, {"Dense", "3_Dense"}, {"Normalize", "4_Normalize"}});
  }
  /// The means of what the model gives for each text alone, on the CPU.
  Tensor means() const {
    const NoGrad no_grad;
    std::vector<Tensor> rows;
    for (const std::string& text : texts_to_embed()) {
      const std::vector<std::int32_t> ids = data::load_tokenizer(folder_ / "tokenizer.json")->encode(text);
      const Tensor hidden = model_->hidden(from_vector(ids, {1, std::ssize(ids)}));
      rows.push_back(mean(hidden, {1}));
    }
    return cat(rows);
  }
  static Tensor unit(const Tensor& x) { return x / sqrt(square(x).sum({-1}, true)); }
  static double off(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }
  std::string refusal() const {
    try {
      const TextEmbedder embedder(folder_.path());
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  std::unique_ptr<Decoder> model_;
  Tensor up_, down_;
};

TEST_F(EmbedderFolder, GivesDenseLayersOfMeansOfLengthOne) {
  EXPECT_LT(off(TextEmbedder(folder_.path()).embed(texts_to_embed()).vectors, means()), 2e-4);
  two_layers();
  const TextEmbedder embedder(folder_.path());
  EXPECT_EQ(embedder.width(), 64);
  const NoGrad no_grad;
  const Tensor wanted = unit(matmul(matmul(means(), up_.t()), down_.t()));
  EXPECT_LT(off(embedder.embed(texts_to_embed()).vectors, wanted), 2e-4);
  // The same from GGUF, whose words are those of llama.cpp.
  const EmbeddingSettings settings = embedding_settings(folder_.path());
  data::VocabularyFields fields = letter_fields();
  fields.tokens.resize(96);
  fields.types.resize(96);
  fields.merges.clear();
  fields.eos.reset();
  const data::ModelTokenizer letters(fields);
  save_gguf_model(folder_ / "model.gguf", *model_, &letters, nullptr, &settings);
  const io::GgufFile file(folder_ / "model.gguf");
  EXPECT_EQ(file.string("general.architecture"), "gemma-embedding");
  EXPECT_EQ(file.integer("gemma-embedding.pooling_type"), 1);
  EXPECT_EQ(file.integer("gemma-embedding.attention.sliding_window"), 8);
  EXPECT_EQ(file.integer("gemma-embedding.dense_2_feat_out"), 96);
  EXPECT_EQ(file.tensor("dense_3.weight").shape, (Shape{64, 96}));
  const TextEmbedder again(folder_ / "model.gguf");
  EXPECT_TRUE(again.settings.normalize);
  EXPECT_EQ(again.settings.pooling, Pooling::mean);
  EXPECT_LT(off(again.embed(texts_to_embed()).vectors, wanted), 2e-4);
}

using DenseLayers = EmbedderFolder;

TEST_F(DenseLayers, HaveBiasesAndActivations) {
  manual_seed(6);
  const Tensor weight = randn({7, 64}) / 8, bias = randn({7});
  const NoGrad no_grad;
  const Tensor plain = matmul(means(), weight.t());
  for (const auto& [name, wanted] : {std::pair<std::string, Tensor>{"", tanh(plain + bias)},
                                     {"torch.nn.modules.activation.GELU", gelu(plain + bias)},
                                     {"torch.nn.modules.linear.Identity", plain + bias}}) {
    nlohmann::json config = {{"in_features", 64}, {"out_features", 7}};
    if (!name.empty()) config["activation_function"] = name;
    dense("2_Dense", {{"linear.weight", weight}, {"linear.bias", bias}}, config);
    modules({{"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}});
    const TextEmbedder embedder(folder_.path());
    EXPECT_EQ(embedder.width(), 7);
    EXPECT_LT(off(embedder.embed(texts_to_embed()).vectors, wanted), 2e-4) << name;
  }
  const EmbeddingSettings settings = embedding_settings(folder_.path());
  EXPECT_THROW(save_gguf_model(folder_ / "model.gguf", *model_, nullptr, nullptr, &settings), FormatError);
}

TEST_F(DenseLayers, AreRefusedInOneSentence) {
  const Tensor weight = zeros({7, 64});
  const nlohmann::json good = {{"in_features", 64}, {"out_features", 7}, {"bias", false}};
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json config = good;
    config[key] = value;
    dense("2_Dense", {{"linear.weight", weight}}, config);
    modules({{"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}});
    return refusal();
  };
  EXPECT_EQ(with("bias", false), "");
  EXPECT_THAT(with("bias", true), HasSubstr("a bias that is missing"));
  EXPECT_THAT(with("in_features", 65), HasSubstr("[7, 65]"));
  EXPECT_THAT(with("out_features", "x"), HasSubstr("out_features"));
  EXPECT_THAT(with("activation_function", "torch.nn.Unheard"), HasSubstr("'torch.nn.Unheard'"));
  EXPECT_THAT(with("module_input_name", "token_embeddings"), HasSubstr("behind pooling only"));
  dense("2_Dense", {{"linear.weight", zeros({7, 60})}}, {{"in_features", 60}, {"out_features", 7}, {"bias", false}});
  EXPECT_THAT(refusal(), HasSubstr("reads vectors of 60 numbers; there are 64"));
  dense("2_Dense", {{"other.weight", weight}}, good);
  EXPECT_THAT(refusal(), HasSubstr("its weights are missing"));
  std::filesystem::remove(folder_ / "2_Dense/model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("pytorch_model.bin"));
  modules({{"Pooling", "1_Pooling"}, {"Normalize", "2"}, {"Dense", "2_Dense"}});
  EXPECT_THAT(refusal(), HasSubstr("not between pooling and normalization"));
  modules({{"Dense", "2_Dense"}, {"Pooling", "1_Pooling"}});
  EXPECT_THAT(refusal(), HasSubstr("not between pooling and normalization"));
}

using EmbedderPrompts = EmbedderFolder;

TEST_F(EmbedderPrompts, AreChosenByTheirNames) {
  std::ofstream(folder_ / "config_sentence_transformers.json")
      << R"({"prompts": {"query": "ask: ", "document": "text: "}, "default_prompt_name": null})";
  TextEmbedder embedder(folder_.path());
  EXPECT_EQ(embedder.settings.prefix, "");
  embedder.settings.choose_prompt("query");
  const Tensor with = embedder.embed({"which river?"}).vectors;
  embedder.settings.prefix = "";
  EXPECT_EQ(off(with, embedder.embed({"ask: which river?"}).vectors), 0);
  try {
    embedder.settings.choose_prompt("x");
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no prompt 'x'; the model has document, query"));
  }
}

// Files of models without a head, as embedding models are published, whatever their config says of it.
TEST_F(EmbedderPrompts, NeedNoHead) {
  for (const bool tied : {false, true}) {
    DecoderConfig c = small_config("qwen3");
    c.vocabulary = 96;
    c.tied = tied;
    c.rope.interleaved = false;
    const auto model = small_model(c);
    FolderWriter writer(*model, {"qwen3", "qwen3", ""});
    std::erase_if(writer.tensors(), [](const auto& tensor) { return tensor.first == "lm_head.weight"; });
    writer.save(folder_);
    const NoGrad no_grad;
    const Tensor wanted = model->hidden(from_vector(std::vector<std::int32_t>{64, 65, 66}, {1, 3})).slice(1, 2, 3);
    EXPECT_LT(off(TextEmbedder(folder_.path()).embed({"abc"}).vectors, wanted.squeeze(1)), 1e-4) << tied;
    if (!tied) {
      EXPECT_THROW(load_model(folder_.path()), FormatError);
    }
  }
}

}  // namespace
}  // namespace etna::models
