#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/models/encoder.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>
#include <etna/train/internal/read_bytes.h>
#include <fuzz/damage.h>
#include <fuzz/targets.h>

// Every field of the configurations of ETNA_MODELS, with values that no model has.
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

}  // namespace
}  // namespace etna::fuzz
