#include <algorithm>
#include <cmath>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>

#include "data/temporary_folder.h"
#include "small_models.h"

// Scaled rotary positions, against the formulas of those who published them, computed here in f64.
namespace etna::models {
namespace {

using testing::HasSubstr;

DecoderConfig rope_scaling_config_of(const RopeConfig& rope, std::int64_t context) {
  DecoderConfig c;
  c.context = context;
  c.rope = rope;
  return c;
}

void expect_frequencies(const DecoderConfig& config, const std::vector<double>& wanted) {
  const std::vector<float> f = config.rope_frequencies(0);
  ASSERT_EQ(f.size(), wanted.size());
  for (std::size_t i = 0; i < f.size(); ++i) EXPECT_NEAR(f[i] / wanted[i], 1, 3e-7) << "pair " << i;
}

/// Peng et al. 2023, section 3.4, as the authors' code computes it: the ramp goes over pairs, between whole ones.
std::vector<double> yarn(double size, double base, double factor, double original, double fast, double slow) {
  const auto pair_that_turns = [&](double times) {
    return size / 2 * std::log(original / (times * 2 * std::numbers::pi)) / std::log(base);
  };
  const double low = std::max(0.0, std::floor(pair_that_turns(fast)));
  const double high = std::min(size - 1, std::ceil(pair_that_turns(slow)));
  std::vector<double> all;
  for (double i = 0; i < size / 2; ++i) {
    const double period = std::pow(base, 2 * i / size);
    const double interpolated = i <= low ? 0 : i >= high ? 1 : (i - low) / (high - low);
    all.push_back(interpolated / (factor * period) + (1 - interpolated) / period);
  }
  return all;
}

/// Llama 3.1's apply_scaling(), in wavelengths.
std::vector<double> llama3(double size, double base, double factor, double original, double low, double high) {
  std::vector<double> all;
  for (double i = 0; i < size / 2; ++i) {
    const double f = std::pow(base, -2 * i / size), wavelength = 2 * std::numbers::pi / f;
    const double smooth = (original / wavelength - low) / (high - low);
    all.push_back(wavelength < original / high  ? f
                  : wavelength > original / low ? f / factor
                                                : (1 - smooth) * f / factor + smooth * f);
  }
  return all;
}

TEST(RopeScaling, YarnsRampIsThePapersAtEveryPair) {
  const RopeConfig rope{.size = 128, .base = 1e6, .scaling = RopeScaling::yarn, .factor = 4, .original_context = 32768};
  expect_frequencies(rope_scaling_config_of(rope, 131072), yarn(128, 1e6, 4, 32768, 32, 1));
  RopeConfig other = rope;
  other.beta_fast = 64, other.beta_slow = 2, other.base = 10000, other.factor = 16, other.original_context = 4096;
  expect_frequencies(rope_scaling_config_of(other, 65536), yarn(128, 10000, 16, 4096, 64, 2));
  // Some pairs lie between the two kinds: a ramp that only has its ends would pass no test.
  const std::vector<double> plain = yarn(128, 1e6, 1, 32768, 32, 1), ramp = yarn(128, 1e6, 4, 32768, 32, 1);
  int between = 0;
  for (std::size_t i = 0; i < ramp.size(); ++i) between += ramp[i] < 0.999 * plain[i] && ramp[i] > 0.251 * plain[i];
  EXPECT_GT(between, 10);
  EXPECT_NEAR(rope_scaling_config_of(rope, 131072).rope_magnitude(), 0.1 * std::log(4.0) + 1, 1e-12);
}

TEST(RopeScaling, Llama3sRampIsMetasAtEveryPair) {
  const RopeConfig rope{
      .size = 128, .base = 500000, .scaling = RopeScaling::llama3, .factor = 8, .original_context = 8192};
  expect_frequencies(rope_scaling_config_of(rope, 131072), llama3(128, 500000, 8, 8192, 1, 4));
  RopeConfig other = rope;
  other.size = 64, other.factor = 32, other.low_frequency_factor = 2, other.high_frequency_factor = 16;
  expect_frequencies(rope_scaling_config_of(other, 131072), llama3(64, 500000, 32, 8192, 2, 16));
  EXPECT_EQ(rope_scaling_config_of(rope, 131072).rope_magnitude(), 1);
}

TEST(RopeScaling, LinearAndNtkAtEveryPair) {
  RopeConfig rope{.size = 64, .base = 10000, .scaling = RopeScaling::linear, .factor = 3};
  std::vector<double> linear, ntk;
  for (double i = 0; i < 32; ++i) {
    linear.push_back(std::pow(10000, -i / 32) / 3);
    ntk.push_back(std::pow(10000 * std::pow(3, 64.0 / 62), -i / 32));
  }
  expect_frequencies(rope_scaling_config_of(rope, 4096), linear);
  rope.scaling = RopeScaling::ntk;
  expect_frequencies(rope_scaling_config_of(rope, 4096), ntk);
}

const char* kPhi3 = R"({"model_type": "phi3", "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1,
  "num_attention_heads": 4, "intermediate_size": 64, "rope_theta": 10000.0, "original_max_position_embeddings": 4096,
  "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.05, 1.2, 1.5], "long_factor": [1.08, 2.5, 20.0, 64.5]},
  "max_position_embeddings": )";

TEST(RopeScaling, LongropeTakesTheListOfItsContext) {
  const auto frequencies = [](std::initializer_list<double> factors) {
    std::vector<double> all;
    for (const double factor : factors)
      all.push_back(1 / (factor * std::pow(10000, static_cast<double>(all.size()) / 4)));
    return all;
  };
  const DecoderConfig whole = decoder_config(std::string(kPhi3) + "131072}", "config.json");
  EXPECT_EQ(whole.rope.scaling, RopeScaling::longrope);
  expect_frequencies(whole, frequencies({1.08, 2.5, 20, 64.5}));
  EXPECT_NEAR(whole.rope_magnitude(), std::sqrt(1 + std::log(32.0) / std::log(4096.0)), 1e-12);
  EXPECT_NEAR(whole.rope_magnitude(), 1.1902380714238083, 1e-12);  // as Phi-3's code prints it
  const DecoderConfig original = decoder_config(std::string(kPhi3) + "4096}", "config.json");
  expect_frequencies(original, frequencies({1, 1.05, 1.2, 1.5}));
  EXPECT_EQ(original.rope_magnitude(), 1);
}

TEST(RopeScaling, DynamicScalesNothingWithinTheContext) {
  const std::string sizes = R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 2048)";
  const DecoderConfig plain = decoder_config(sizes + "}", "config.json");
  for (const char* type : {"type", "rope_type"}) {
    const DecoderConfig dynamic =
        decoder_config(sizes + R"(, "rope_scaling": {"factor": 4.0, ")" + type + R"(": "dynamic"}})", "config.json");
    EXPECT_EQ(dynamic.rope_frequencies(0), plain.rope_frequencies(0));
    EXPECT_EQ(dynamic.context, 2048);
  }
  const DecoderConfig fixed =
      decoder_config(sizes + R"(, "rope_scaling": {"factor": 4.0, "type": "ntk"}})", "config.json");
  EXPECT_NEAR(fixed.rope_frequencies(0)[7] / plain.rope_frequencies(0)[7], 0.25, 1e-6);
}

struct Scaled {
  const char* name;
  const char* architecture;
  RopeConfig rope;
};

void PrintTo(const Scaled& scaled, std::ostream* out) { *out << scaled.name; }

class EachScaling : public testing::TestWithParam<Scaled> {};

TEST_P(EachScaling, ComesBackFromGguf) {
  const TemporaryFolder folder;
  DecoderConfig config = small_config(GetParam().architecture);
  RopeConfig rope = GetParam().rope;
  rope.size = config.rope.size, rope.interleaved = config.rope.interleaved;
  config.rope = rope;
  const auto model = small_model(config);
  save_gguf_model(folder / "model.gguf", *model, nullptr);
  const Model again = load_model(folder / "model.gguf", {.trainable = true});
  const DecoderConfig& read = again.decoder->config;
  EXPECT_NEAR(read.rope_magnitude(), config.rope_magnitude(), 1e-6);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::vector<float> wanted = config.rope_frequencies(layer);
    const std::vector<float> f = read.rope_frequencies(layer);
    for (std::size_t i = 0; i < f.size(); ++i) EXPECT_NEAR(f[i] / wanted[i], 1, 1e-6) << layer << ", " << i;
  }
  const NoGrad no_grad;
  const Tensor text = from_vector(some_text(80, 97), {1, 80}), logits = model->forward(text);
  EXPECT_LT((again.decoder->forward(text) - logits).abs().max().item<double>(), 1e-3);
  config.rope = {.size = rope.size, .interleaved = rope.interleaved};
  const Tensor unscaled = small_model(config)->forward(text);
  EXPECT_GT((unscaled - logits).abs().max().item<double>(), 0.05) << "the scaling changes nothing here";
}

TEST_P(EachScaling, ComesBackFromJson) {
  DecoderConfig config = small_config("llama");
  RopeConfig rope = GetParam().rope;
  rope.size = 16;
  config.rope = rope;
  config.window = 100;
  if (!rope.divisors.empty() || rope.extrapolation != 1) {
    EXPECT_THROW(config_json(config), Error);
    return;
  }
  const DecoderConfig read = decoder_config(config_json(config), "config.json");
  EXPECT_EQ(read.rope_frequencies(0), config.rope_frequencies(0));
  EXPECT_EQ(read.rope_magnitude(), config.rope_magnitude());
  EXPECT_EQ(read.rope.scaling, rope.scaling);
  EXPECT_EQ(read.window, 100);
  config.rope.size = 8;
  config.rope.short_divisors.resize(rope.short_divisors.size() / 2);
  config.rope.long_divisors.resize(rope.long_divisors.size() / 2);
  EXPECT_EQ(decoder_config(config_json(config), "config.json").rope.size, 8);
}

const std::vector<float> kNear = {1, 1.1f, 1.2f, 1.3f, 1.5f, 1.8f, 2, 2.5f}, kFar = {1, 2, 3, 4, 6, 9, 12, 16};

INSTANTIATE_TEST_SUITE_P(
    RopeScaling, EachScaling,
    testing::Values(
        Scaled{"linear", "llama", {.scaling = RopeScaling::linear, .factor = 4}},
        Scaled{"linear_gemma3", "gemma3", {.base = 1e6, .scaling = RopeScaling::linear, .factor = 8}},
        Scaled{"ntk", "qwen3", {.scaling = RopeScaling::ntk, .factor = 4}},
        Scaled{"yarn", "qwen2", {.scaling = RopeScaling::yarn, .factor = 8, .original_context = 32}},
        Scaled{"yarn_by_hand",
               "llama",
               {.scaling = RopeScaling::yarn,
                .factor = 8,
                .original_context = 64,
                .attention_factor = 1.4,
                .beta_fast = 6,
                .beta_slow = 0.5,
                .extrapolation = 0.75}},
        Scaled{"yarn_all_divided",
               "llama",
               {.scaling = RopeScaling::yarn, .factor = 8, .original_context = 64, .extrapolation = 0}},
        Scaled{"llama3", "llama", {.scaling = RopeScaling::llama3, .factor = 8, .original_context = 32}},
        Scaled{
            "longrope",
            "phi3",
            {.scaling = RopeScaling::longrope, .original_context = 64, .short_divisors = kNear, .long_divisors = kFar}},
        Scaled{"longrope_original",
               "phi3",
               {.scaling = RopeScaling::longrope,
                .original_context = 256,
                .short_divisors = kNear,
                .long_divisors = kFar}},
        Scaled{"longrope_by_hand",
               "phi3",
               {.scaling = RopeScaling::longrope,
                .original_context = 64,
                .attention_factor = 1.25,
                .short_divisors = kNear,
                .long_divisors = kFar}},
        Scaled{"divisors", "llama", {.divisors = kFar}},
        Scaled{"divisors_linear", "llama", {.scaling = RopeScaling::linear, .factor = 2, .divisors = kFar}}),
    [](const auto& info) { return info.param.name; });

TEST(RopeScaling, FilesHaveLlamaCppsKeys) {
  const TemporaryFolder folder;
  DecoderConfig config = small_config("phi3");
  config.rope = {.size = 16,
                 .scaling = RopeScaling::longrope,
                 .original_context = 64,
                 .short_divisors = kNear,
                 .long_divisors = kFar};
  save_gguf_model(folder / "longrope.gguf", *small_model(config), nullptr);
  const io::GgufFile longrope(folder / "longrope.gguf");
  EXPECT_EQ(longrope.load("rope_factors_short.weight").to_vector<float>(), kNear);
  EXPECT_EQ(longrope.load("rope_factors_long.weight").to_vector<float>(), kFar);
  EXPECT_EQ(longrope.integer("phi3.rope.scaling.original_context_length"), 64);
  EXPECT_NEAR(longrope.number("phi3.rope.scaling.attn_factor"), std::sqrt(1 + std::log(4.0) / std::log(64.0)), 1e-6);

  config = small_config("llama");
  config.rope.scaling = RopeScaling::yarn, config.rope.factor = 4, config.rope.original_context = 64;
  config.rope.attention_factor = 1.5, config.rope.beta_fast = 16;
  save_gguf_model(folder / "yarn.gguf", *small_model(config), nullptr);
  const io::GgufFile yarn(folder / "yarn.gguf");
  EXPECT_EQ(yarn.string("llama.rope.scaling.type"), "yarn");
  EXPECT_EQ(yarn.number("llama.rope.scaling.yarn_beta_fast"), 16);
  EXPECT_EQ(yarn.number("llama.rope.scaling.yarn_beta_slow"), 1);
  // llama.cpp multiplies this by the rule's 1 + 0.1 ln(factor).
  EXPECT_NEAR(yarn.number("llama.rope.scaling.attn_factor"), 1.5 / (1 + 0.1 * std::log(4.0)), 1e-6);
}

/// A file of no more than a config, as others write it.
DecoderConfig config_of_file(const std::string& architecture, std::vector<std::pair<std::string, io::GgufValue>> more) {
  const TemporaryFolder folder;
  GgufOptions options{.metadata = {{"general.architecture", architecture}}};
  for (const auto& [key, value] : std::vector<std::pair<const char*, int>>{{"context_length", 8192},
                                                                           {"embedding_length", 64},
                                                                           {"block_count", 2},
                                                                           {"attention.head_count", 4},
                                                                           {"feed_forward_length", 96}})
    options.metadata.emplace_back(architecture + "." + key, static_cast<std::uint32_t>(value));
  for (auto& [key, value] : more) {
    std::erase_if(options.metadata, [&](const auto& entry) { return entry.first == architecture + "." + key; });
    options.metadata.emplace_back(architecture + "." + key, value);
  }
  save_gguf(folder / "config.gguf", {{"token_embd.weight", ones({8, 64})}}, options);
  return decoder_config(io::GgufFile(folder / "config.gguf"));
}

TEST(RopeScaling, ReadsFilesOfLlamaCpp) {
  // Without a type, a factor is linear scaling; with "none" it means nothing.
  EXPECT_EQ(config_of_file("llama", {{"rope.scaling.factor", 4.0f}}).rope.scaling, RopeScaling::linear);
  EXPECT_EQ(config_of_file("llama", {{"rope.scale_linear", 4.0f}}).rope.factor, 4);
  EXPECT_EQ(config_of_file("llama", {{"rope.scaling.factor", 4.0f}, {"rope.scaling.type", "none"}}).rope.scaling,
            RopeScaling::none);
  const std::vector<std::pair<std::string, io::GgufValue>> yarn = {{"rope.scaling.type", "yarn"},
                                                                   {"rope.scaling.factor", 4.0f}};
  const auto yarn_with = [&](const char* key, float value) {
    auto more = yarn;
    more.emplace_back(key, value);
    return config_of_file("llama", more);
  };
  const double rule = 1 + 0.1 * std::log(4.0);
  EXPECT_EQ(config_of_file("llama", yarn).rope.beta_fast, 32);
  EXPECT_NEAR(config_of_file("llama", yarn).rope_magnitude(), rule, 1e-9);
  EXPECT_NEAR(yarn_with("rope.scaling.attn_factor", 0.5f).rope_magnitude(), 0.5 * rule, 1e-9);
  EXPECT_NEAR(yarn_with("rope.scaling.yarn_attn_factor", 1.25f).rope_magnitude(), 1.25, 1e-9);
  EXPECT_EQ(yarn_with("rope.scaling.yarn_ext_factor", 0).rope_magnitude(), 1);
  EXPECT_EQ(yarn_with("rope.scaling.yarn_ext_factor", -1).rope.extrapolation, 1);
  EXPECT_EQ(yarn_with("rope.scaling.yarn_beta_slow", 2).rope.beta_slow, 2);
}

TEST(RopeScaling, RefusesNumbersThatMakeNoRotation) {
  const auto refusal = [](const RopeConfig& rope) -> std::string {
    DecoderConfig c = small_config("llama");
    c.rope = rope;
    c.rope.size = 16;
    try {
      c.check();
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({.scaling = RopeScaling::yarn, .beta_fast = 0}), HasSubstr("yarn's beta_fast is 0"));
  EXPECT_THAT(refusal({.scaling = RopeScaling::yarn, .extrapolation = 2}), HasSubstr("must be from 0 to 1"));
  EXPECT_THAT(refusal({.attention_factor = std::nan("")}), HasSubstr("attention factor is nan"));
  EXPECT_THAT(refusal({.scaling = RopeScaling::longrope, .original_context = 64, .short_divisors = kNear}),
              HasSubstr("its long factors are missing"));
  EXPECT_THAT(refusal({.scaling = RopeScaling::longrope, .short_divisors = kNear, .long_divisors = {1, 2}}),
              HasSubstr("2 divisors for 8 frequencies"));
}

TEST(DecoderConfig, TheLargestGemmasScaleByTheWidthOfAHead) {
  const auto scale = [](const char* architecture, std::uint32_t layers) {
    return config_of_file(architecture, {{"block_count", layers},
                                         {"embedding_length", 64u},
                                         {"attention.head_count", 2u},
                                         {"attention.key_length", 16u},
                                         {"attention.value_length", 16u}})
        .score_scale();
  };
  EXPECT_DOUBLE_EQ(scale("gemma3", 62), 1 / std::sqrt(32.0));
  EXPECT_DOUBLE_EQ(scale("gemma2", 46), 1 / std::sqrt(32.0));
  for (const std::uint32_t layers : {26u, 34u, 48u, 46u}) EXPECT_DOUBLE_EQ(scale("gemma3", layers), 0.25) << layers;
}

TEST(DecoderConfig, ReadsWindowsOfGguf) {
  const DecoderConfig c = config_of_file(
      "gemma3",
      {{"attention.sliding_window", 512u}, {"attention.sliding_window_pattern", 3u}, {"rope.freq_base_swa", 20000.0f}});
  EXPECT_EQ(c.window_every, 3);
  EXPECT_EQ(c.window_rope_base, 20000);
  // llama.cpp's converters write whether each layer has the window, in booleans.
  const auto listed = [](const io::GgufValue& pattern) {
    return config_of_file(
        "gemma3",
        {{"block_count", 4u}, {"attention.sliding_window", 512u}, {"attention.sliding_window_pattern", pattern}});
  };
  EXPECT_EQ(listed(std::vector<bool>{true, false, true, false}).window_every, 2);
  EXPECT_EQ(listed(std::vector<std::uint32_t>{1, 1, 1, 0}).window_every, 4);
  const DecoderConfig any = listed(std::vector<bool>{false, true, true, false});
  EXPECT_TRUE(!any.has_window(0) && any.has_window(1) && any.has_window(2) && !any.has_window(3));
  EXPECT_EQ(any.layer(1).window, 512);
  for (const io::GgufValue& wrong :
       {io::GgufValue(std::vector<bool>{true, true}), io::GgufValue(std::vector<bool>{}), io::GgufValue(true)})
    EXPECT_THROW(listed(wrong), FormatError) << wrong.str();
}

TEST(DecoderConfig, RefusesNumbersThatMakeEveryLogitInfinite) {
  for (const char* key : {"attention.scale", "attn_logit_softcapping", "final_logit_softcapping",
                          "rope.scaling.attn_factor", "rope.freq_base", "rope.freq_base_swa"}) {
    for (const float value : {std::nanf(""), HUGE_VALF, 1e38f, -1.0f})
      EXPECT_THROW(config_of_file("gemma3", {{key, value}}), FormatError) << key << " " << value;
  }
  for (const auto& [architecture, layers] : {std::pair{"gemma2", 46u}, {"gemma3", 62u}}) {
    EXPECT_THROW(config_of_file(architecture, {{"block_count", layers}, {"attention.head_count", 0u}}), FormatError);
  }
}

TEST(DecoderConfig, Gemma2CapsUnlessTheFileSaysOtherwise) {
  EXPECT_EQ(config_of_file("gemma2", {}).attention_softcap, 50);
  EXPECT_EQ(config_of_file("gemma2", {}).logit_softcap, 30);
  EXPECT_EQ(config_of_file("gemma2", {{"final_logit_softcapping", 0.0f}}).logit_softcap, 0);
  EXPECT_EQ(config_of_file("llama", {}).logit_softcap, 0);
}

}  // namespace
}  // namespace etna::models
