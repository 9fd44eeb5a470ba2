#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/models/encoder.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>
#include <etna/train/internal/read_bytes.h>
#include <fuzz/damage.h>
#include <fuzz/targets.h>

// Every field of the configurations of ETNA_MODELS, of small models that see and of an embedder, with values that no
// model has.
namespace etna::fuzz {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// What takes a field's place; discarded: the field is left out.
const std::vector<json>& hostile_values() {
  static const std::vector<json> values = {json(json::value_t::discarded),
                                           0,
                                           -1,
                                           1,
                                           3,
                                           0x7fffffff,
                                           std::numeric_limits<std::int64_t>::max(),
                                           std::numeric_limits<std::uint64_t>::max(),
                                           0.5,
                                           -1e300,
                                           1e300,
                                           true,
                                           false,
                                           nullptr,
                                           "",
                                           "full_attention",
                                           json::array(),
                                           json::array({0}),
                                           json::array({-1, 1e300, "x"}),
                                           json::object(),
                                           json::object({{"rope_type", "yarn"}})};
  return values;
}

/// Fields, also those inside of others, and of a list its first element.
std::vector<json::json_pointer> fields_of(const json& config) {
  std::vector<json::json_pointer> fields;
  const json flat = config.flatten();
  for (const auto& [path, value] : flat.items()) {
    const json::json_pointer field(path);
    for (json::json_pointer at = field; !at.empty(); at = at.parent_pointer()) {
      const bool first = at.back() == "0" || at.back().find_first_not_of("0123456789") != std::string::npos;
      if (first && std::find(fields.begin(), fields.end(), at) == fields.end()) fields.push_back(at);
    }
  }
  return fields;
}

std::string changed(const json& config, const json::json_pointer& field, const json& value) {
  json other = config;
  json& parent = other.at(field.parent_pointer());
  if (!value.is_discarded()) {
    other[field] = value;
  } else if (parent.is_object()) {
    parent.erase(field.back());
  } else {
    parent.erase(0);
  }
  return other.dump();
}

class FuzzDesigns : public testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("ETNA_MODELS");
    if (folder == nullptr) GTEST_SKIP() << "ETNA_MODELS names no folder of models";
    for (const auto& entry : fs::directory_iterator(folder))
      if (fs::exists(entry.path() / "config.json")) designs_.push_back(entry.path());
    std::sort(designs_.begin(), designs_.end());
    ASSERT_FALSE(designs_.empty());
  }
  static bool reads(Target* target, const std::string& text) {
    return target(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::vector<fs::path> designs_;
};

TEST_F(FuzzDesigns, ConfigurationsAreReadOrRefused) {
  std::size_t refused = 0, tried = 0;
  for (const fs::path& design : designs_) {
    const json config = json::parse(training::read_bytes(design / "config.json"));
    Target* target = reads(decoder_config, config.dump()) ? decoder_config : encoder_config;
    ASSERT_TRUE(reads(target, config.dump())) << design;
    for (const json::json_pointer& field : fields_of(config)) {
      for (const json& value : hostile_values()) {
        ++tried;
        refused += reads(target, changed(config, field, value)) ? 0 : 1;
      }
    }
  }
  EXPECT_GT(tried, 10000U);
  EXPECT_GT(refused, tried / 4);
}

/// With a design's weights: a model that loads also computes.
TEST_F(FuzzDesigns, ModelsAreLoadedOrRefused) {
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const Tensor tokens = from_vector(std::vector<std::int64_t>{1, 2, 3, 4, 5}, {1, 5});
  std::size_t refused = 0, loaded = 0, at = 0;
  for (const fs::path& design : designs_) {
    const json config = json::parse(training::read_bytes(design / "config.json"));
    const bool decodes = reads(decoder_config, config.dump());
    fs::remove(folder / "model.safetensors");
    fs::create_symlink(fs::absolute(design / "model.safetensors"), folder / "model.safetensors");
    for (const json::json_pointer& field : fields_of(config)) {
      // Each value in some fields: all of them take minutes.
      const json& value = hostile_values()[at++ % hostile_values().size()];
      const std::string text = changed(config, field, value);
      folder.write("config.json", text);
      SCOPED_TRACE(design.filename().string() + " " + field.to_string() + " = " + value.dump());
      try {
        if (decodes)
          models::load_model(folder.path()).decoder->forward(tokens);
        else
          models::load_encoder(folder.path()).encoder->forward(tokens);
        ++loaded;
      } catch (const FormatError& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        ++refused;
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  EXPECT_GT(loaded, 100U);
  EXPECT_GT(refused, 100U);
}

/// Each hostile value in each field of a file, which is then as it was. @return how many were refused
template <typename Read>
std::size_t refusals_of_fields(const TemporaryFolder& folder, const std::string& file, const json& whole, Read read) {
  std::size_t refused = 0;
  for (const json::json_pointer& field : fields_of(whole)) {
    for (const json& value : hostile_values()) {
      SCOPED_TRACE(file + " " + field.to_string() + " = " + value.dump());
      folder.write(file, changed(whole, field, value));
      try {
        read();
      } catch (const FormatError& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        ++refused;
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  folder.write(file, whole.dump());
  return refused;
}

class FuzzVision : public testing::TestWithParam<const char*> {};

/// A tower that loads also computes.
TEST_P(FuzzVision, FoldersAreReadOrRefused) {
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const fs::path design = fs::path(ETNA_SOURCE_DIR "/tests/models/vision") / GetParam();
  fs::create_symlink(design / "model.safetensors", folder / "model.safetensors");
  const Tensor picture = full({3, 20, 30}, 100, {u8});
  for (const char* other : {"config.json", "preprocessor_config.json"})
    folder.write(other, training::read_bytes(design / other));
  std::size_t refused = 0, at = 0;
  for (const char* file : {"config.json", "preprocessor_config.json"}) {
    refused += refusals_of_fields(folder, file, json::parse(training::read_bytes(design / file)), [&] {
      // All of them would take a minute.
      if (++at % 8 != 0) {
        models::vision_config(training::read_bytes(folder / "config.json"),
                              training::read_bytes(folder / "preprocessor_config.json"), "config.json");
        return;
      }
      models::load_vision(folder.path())->rows(picture);
      models::load_model(folder.path());
    });
  }
  EXPECT_GT(refused, at / 10);
}

INSTANTIATE_TEST_SUITE_P(Models, FuzzVision, testing::Values("gemma3", "qwen3_vl", "smolvlm"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FuzzEmbedders, SettingsAreReadOrRefused) {
  const TemporaryFolder folder;
  const json files = json::parse(R"({
      "config.json": {"model_type": "qwen3", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
                      "intermediate_size": 8, "vocab_size": 9, "max_position_embeddings": 64},
      "modules.json": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                       {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                       {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
                       {"idx": 3, "name": "3",
                        "path": "3_Normalize", "type": "sentence_transformers.models.Normalize"}],
      "config_sentence_transformers.json": {"prompts": {"query": "find: ", "document": ""},
                                            "default_prompt_name": "query", "similarity_fn_name": "cosine"},
      "sentence_bert_config.json": {"max_seq_length": 32, "do_lower_case": false},
      "1_Pooling/config.json": {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": true,
                                "pooling_mode_cls_token": false, "include_prompt": true},
      "2_Dense/config.json": {"in_features": 8, "out_features": 4, "bias": false,
                              "activation_function": "torch.nn.modules.linear.Identity"}})");
  for (const char* part : {"1_Pooling", "2_Dense"}) fs::create_directory(folder / part);
  save_safetensors(folder / "2_Dense/model.safetensors",
                   std::map<std::string, Tensor>{{"linear.weight", ones({4, 8})}});
  for (const auto& [file, text] : files.items()) folder.write(file, text.dump());
  EXPECT_EQ(models::embedding_settings(folder.path()).dense.size(), 1U);
  std::size_t refused = 0;
  for (const auto& [file, text] : files.items())
    refused += refusals_of_fields(folder, file, text, [&] { models::embedding_settings(folder.path()); });
  EXPECT_GT(refused, 100U);
}

}  // namespace
}  // namespace etna::fuzz
