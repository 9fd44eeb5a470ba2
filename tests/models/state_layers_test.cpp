#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/autograd/autograd.h>
#include <etna/device/device.h>
#include <etna/models/generator.h>
#include <etna/models/internal/state_mixers.h>
#include <etna/models/model_file.h>
#include <etna/optim/adam.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "runner/run_tests.h"
#include "small_models.h"
#include "state_designs.h"

// Layers that keep a state in place of keys and values: gated delta nets, Mamba-2 and short convolutions.
namespace etna::models {
namespace {

using testing::HasSubstr;
using StateText = std::vector<std::int32_t>;

StateText greedy_of(Generator& generator, const StateText& prompt, std::int64_t count) {
  StateText text;
  generator.generate(prompt, {.max_tokens = count, .sampling = {.temperature = 0}}, [&](std::int32_t token) {
    text.push_back(token);
    return true;
  });
  return text;
}

/// What an error says; "no error" where there is none.
template <typename Kind, typename Call>
std::string state_error(Call call) {
  try {
    call();
  } catch (const Kind& error) {
    return error.what();
  }
  return "no error";
}

double largest_magnitude(const Tensor& x) { return x.detach().abs().max().item<double>(); }

/// A step at a time by the definition, in f64. @param x [T, width]
Tensor mamba_by_steps(const MambaMixer& mixer, const StateConfig& s, const Tensor& x) {
  const auto f = [](const Tensor& t) { return t.detach().to(f64); };
  const std::int64_t values = s.value_rows(), keys = s.key_rows(), channels = values + 2 * keys,
                     shared = s.heads / s.key_heads;
  Tensor parts = matmul(x * s.input_scale, f(mixer.input.weight).t());
  if (mixer.input.bias.defined()) parts = parts + f(mixer.input.bias);
  std::int64_t at = 0;
  std::vector<Tensor> scaled;
  for (const auto& [size, scale] : {std::pair{values, s.part_scales[0]},
                                    {values, s.part_scales[1]},
                                    {keys, s.part_scales[2]},
                                    {keys, s.part_scales[3]},
                                    {s.heads, s.part_scales[4]}}) {
    scaled.push_back(parts.slice(1, at, at + size) * scale);
    at += size;
  }
  const Tensor rows = cat({scaled[1], scaled[2], scaled[3]}, 1);
  Tensor state = zeros({s.heads, s.key_size, s.value_size}, f64);
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    Tensor sum = zeros({channels}, f64);
    for (std::int64_t k = 0; k < s.kernel; ++k)
      if (t - k >= 0) sum = sum + rows.select(0, t - k) * f(mixer.kernel.weight).select(1, s.kernel - 1 - k);
    if (mixer.kernel.bias.defined()) sum = sum + f(mixer.kernel.bias);
    const Tensor now = silu(sum);
    const Tensor dt = clamp(softplus(scaled[4].select(0, t) + f(mixer.step_bias)), s.least_step, s.largest_step);
    const Tensor v = now.slice(0, 0, values).reshape({s.heads, s.value_size});
    const Tensor b = repeat_interleave(now.slice(0, values, values + keys).reshape({s.key_heads, -1}), shared, 0);
    const Tensor c = repeat_interleave(now.slice(0, values + keys, channels).reshape({s.key_heads, -1}), shared, 0);
    const Tensor decay = exp(-exp(f(mixer.log_decay)) * dt).reshape({s.heads, 1, 1});
    state = state * decay + b.unsqueeze(2) * (v * dt.unsqueeze(1)).unsqueeze(1);
    Tensor y = ((state * c.unsqueeze(2)).sum(1) + v * f(mixer.skip).unsqueeze(1)).flatten();
    const Tensor gate = silu(scaled[0].select(0, t));
    const auto normed = [&](const Tensor& z) {
      const Tensor groups = z.reshape({s.norm_groups, -1});
      const Tensor mean = (groups * groups).mean({1}, true);
      return (groups / sqrt(mean + 1e-5)).flatten() * f(mixer.norm->weight);
    };
    if (!s.norm)
      y = y * gate;
    else
      y = s.norm_before_gate ? normed(y) * gate : normed(y * gate);
    outputs.push_back(y);
  }
  Tensor y = matmul(stack(outputs), f(mixer.output.weight).t());
  if (mixer.output.bias.defined()) y = y + f(mixer.output.bias);
  return y * s.output_scale;
}

TEST(StateLayers, Mamba2FollowsItsDefinitionWithAllSwitches) {
  const NoGrad no_grad;
  for (const bool norm : {true, false}) {
    for (const bool before : {true, false}) {
      DecoderConfig config = state_config_of(state_designs()[3].second);
      config.state.norm = norm;
      config.state.norm_before_gate = before;
      const auto model = small_model(config);
      const Tensor x = randn({1, 11, config.width});
      const MambaMixer& mixer = *model->blocks[0].mamba;
      const Tensor wanted = mamba_by_steps(mixer, config.state, x.select(0, 0).to(f64));
      EXPECT_LT(largest_magnitude(mixer.forward(x, nullptr).select(0, 0).to(f64) - wanted), 1e-4) << norm << before;
    }
  }
}

TEST(StateLayers, DecodedLogitsAreThoseOfTheWholeText) {
  const NoGrad no_grad;
  for (const auto& [name, json] : state_designs()) {
    SCOPED_TRACE(name);
    const DecoderConfig config = state_config_of(json);
    const auto model = small_model(config);
    std::int64_t weights = 0;
    for (const auto& [parameter, value] : model->named_parameters()) weights += value.numel();
    EXPECT_EQ(config.num_parameters(), weights);
    const StateText text = some_text(70, config.vocabulary);
    const Tensor whole = model->forward(from_vector(text, {1, std::ssize(text)})).select(0, 0);
    for (const std::int64_t chunk : {1, 5, 64}) {
      Generator generator(*model, {.chunk = chunk, .cache = {.dtype = f32}});
      EXPECT_LT(largest_magnitude(generator.logits(text) - whole), 2e-3) << chunk;
    }
  }
}

/// Texts of several prompts, each with its own length, generated together.
std::vector<StateText> texts_together(const Decoder& model, Device device, const std::vector<StateText>& prompts) {
  Generator generator(
      model,
      {.device = device, .slots = std::ssize(prompts), .all_slots = true, .cache = {.tokens = 1024, .dtype = f32}});
  if (device.is_cpu()) generator.warm_up();
  std::vector<Generator::Id> ids;
  std::vector<StateText> texts(prompts.size());
  for (const StateText& prompt : prompts)
    ids.push_back(generator.begin(prompt, {.max_tokens = 6, .sampling = {.temperature = 0}}));
  while (generator.busy()) {
    for (const GeneratedToken& token : generator.step()) {
      const auto found = std::find(ids.begin(), ids.end(), token.sequence);
      texts[static_cast<std::size_t>(found - ids.begin())].push_back(token.token);
    }
  }
  return texts;
}

TEST(StateLayers, EightSequencesAtOnceEqualOneByOne) {
  for (const auto& [name, json] : state_designs()) {
    SCOPED_TRACE(name);
    const auto model = small_model(state_config_of(json));
    Generator alone(*model, {.cache = {.tokens = 512, .dtype = f32}});
    std::vector<StateText> prompts, one_by_one;
    for (std::int64_t i = 0; i < 8; ++i) {
      prompts.push_back(some_text(3 + 9 * i, 97));
      one_by_one.push_back(greedy_of(alone, prompts.back(), 6));
    }
    EXPECT_EQ(texts_together(*model, kCPU, prompts), one_by_one);
    // A software rasterizer takes seconds to compile each kernel.
    if (std::getenv("ETNA_TEST_VULKAN") == nullptr ||
        (name != state_designs()[1].first && name != state_designs()[3].first))
      continue;
    prompts.resize(3);
    one_by_one.resize(3);
    model->to(kVulkan);
    EXPECT_EQ(texts_together(*model, kVulkan, prompts), one_by_one);
  }
}

void expect_prefixes_reused(const Decoder& model, Device device) {
  Generator generator(model, {.device = device, .cache = {.dtype = f32}}),
      afresh(model, {.device = device, .cache = {.dtype = f32, .reuse_prefixes = false}});
  StateText text = some_text(150, 97);
  for (const std::int64_t reused : {0, 128, 128}) {
    const Generator::Id id = generator.begin(text, {.max_tokens = 5, .sampling = {.temperature = 0}});
    StateText answer;
    while (generator.busy())
      for (const GeneratedToken& token : generator.step()) answer.push_back(token.token);
    EXPECT_EQ(generator.reused(id), reused);
    EXPECT_EQ(answer, greedy_of(afresh, text, 5));
    if (reused == 128) text.insert(text.end(), {4, 5, 6});
  }
  // Another text with the same first block, behind which no state was kept.
  StateText other(text.begin(), text.begin() + 64);
  other.insert(other.end(), 30, 7);
  EXPECT_EQ(greedy_of(generator, other, 5), greedy_of(afresh, other, 5));
}

TEST(StateLayers, PromptsReusePrefixesAsFarAsTheirStateWasKept) {
  for (const auto& [name, json] : state_designs()) {
    SCOPED_TRACE(name);
    expect_prefixes_reused(*small_model(state_config_of(json)), kCPU);
  }
}

TEST(StateLayers, PromptsReusePrefixesOnVulkan) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  const auto model = small_model(state_config_of(state_designs()[0].second));
  model->to(kVulkan);
  expect_prefixes_reused(*model, kVulkan);
}

TEST(StateLayers, StatesOfPrefixesMakeRoomForSequences) {
  const auto model = small_model(state_config_of(state_designs()[0].second));
  Generator generator(*model, {.slots = 2, .cache = {.tokens = 2048, .dtype = f32, .states = 3}}),
      afresh(*model, {.cache = {.dtype = f32, .reuse_prefixes = false}});
  for (std::int64_t round = 0; round < 3; ++round) {
    for (std::int64_t i = 0; i < 4; ++i) {
      StateText text = some_text(80, 97);
      text[0] = static_cast<std::int32_t>(i);
      EXPECT_EQ(greedy_of(generator, text, 3), greedy_of(afresh, text, 3));
    }
  }
  KvCache cache(model->config, kCPU, {.tokens = 256, .dtype = f32, .states = 1});
  const KvCache::Id id = cache.start({}).id;
  EXPECT_THROW(cache.start({}), CacheFull);
  cache.finish(id, {});
  EXPECT_NO_THROW(cache.start({}));
  EXPECT_THROW(KvCache(model->config, kCPU, {.tokens = 256, .states = -1}), Error);
}

TEST(StateLayers, BeamSearchCopiesStates) {
  const auto model = small_model(state_config_of(state_designs()[3].second));
  const StateText prompt = some_text(9, 97);
  Generator generator(*model, {.cache = {.dtype = f32}});
  EXPECT_EQ(beam_search(*model, kCPU, prompt, {.width = 1, .max_tokens = 12})[0].tokens,
            greedy_of(generator, prompt, 12));
  // The score of a text is that of its tokens.
  for (const Beam& beam : beam_search(*model, kCPU, prompt, {.width = 4, .max_tokens = 7})) {
    StateText whole = prompt;
    whole.insert(whole.end(), beam.tokens.begin(), beam.tokens.end());
    double sum = 0;
    const std::vector<GeneratedToken> each = generator.logprobs(whole);
    for (std::size_t i = prompt.size() - 1; i < each.size(); ++i) sum += each[i].logprob;
    EXPECT_NEAR(sum, beam.log_probability, 1e-3);
  }
}

TEST(StateLayers, AnEndlessTextIsReadAgain) {
  StateJson json = state_designs()[2].second;
  json["max_position_embeddings"] = 128;
  const auto model = small_model(state_config_of(json));
  Generator generator(*model, {.cache = {.dtype = f32}});
  StateText text;
  generator.generate(some_text(100, 97), {.max_tokens = 90, .sampling = {.temperature = 0}, .endless = true},
                     [&](std::int32_t token) {
                       text.push_back(token);
                       return true;
                     });
  EXPECT_EQ(text.size(), 90u);
}

TEST(StateLayers, WhatAStateCannotDoIsRefusedInASentence) {
  const auto model = small_model(state_config_of(state_designs()[0].second));
  Generator generator(*model, {});
  const TemporaryFolder folder;
  EXPECT_THAT(state_error<FormatError>([&] { generator.save_cache(folder / "cache"); }),
              HasSubstr("keep a state are not kept in files"));
  KvCache cache(model->config, kCPU, {.tokens = 512, .dtype = f32});
  const KvCache::Id id = cache.start({}).id;
  EXPECT_THAT(state_error<Error>([&] { cache.drop_middle(id, 256, 0, 64); }), HasSubstr("forgets no positions"));
  EXPECT_THAT(state_error<FormatError>([&] {
                decoder_part(model->config, {0, 2});
              }),
              HasSubstr("cannot be divided over ranks"));
  const auto no_attention = small_model(state_config_of(state_designs()[6].second));
  EXPECT_THAT(state_error<Error>([&] { no_attention->add_adapters(2, 4); }), HasSubstr("named 'attention'"));
}

TEST(StateLayers, AllDesignsHaveAdapters) {
  const Tensor tokens = from_vector(some_text(18, 97), {1, 18});
  for (const auto& [design, json] : state_designs()) {
    SCOPED_TRACE(design);
    const TemporaryFolder folder;
    const auto model = small_model(state_config_of(json));
    const DecoderConfig& config = model->config;
    model->add_adapters({.rank = 2, .alpha = 4, .targets = {"all"}});
    for (const auto& p : model->named_parameters())
      if (p.name.ends_with("lora_b")) Tensor(p.tensor.detach()).copy_(randn(p.tensor.shape()) * 0.1);
    model->loss(tokens.slice(1, 0, 17), tokens.slice(1, 1, 18)).backward();
    for (const auto& [name, value] : model->named_parameters())
      EXPECT_EQ(value.grad().defined(), name.find("lora_") != std::string::npos) << name;
    const NoGrad no_grad;
    const Tensor wanted = model->forward(tokens);
    for (const std::string name : {"a.gguf", "adapter_model.safetensors"}) {
      if (name == "a.gguf" && architecture_of(config).only_hugging_face) continue;
      save_adapters(folder / name, *model);
      if (name != "a.gguf" && config.architecture == "granitehybrid") {  // PEFT wraps no module of experts
        const auto peft = nlohmann::json::parse(std::ifstream(folder / "adapter_config.json"));
        EXPECT_THAT(peft["target_modules"].get<std::vector<std::string>>(),
                    testing::AllOf(testing::Contains("shared_mlp.input_linear"),
                                   testing::Not(testing::Contains("input_linear"))));
      }
      const auto again = small_model(config);
      load_adapters(folder / name, *again);
      EXPECT_LT(abs(again->forward(tokens) - wanted).max().item<double>(), 1e-3) << name;
    }
    model->merge_adapters();
    EXPECT_LT(abs(model->forward(tokens) - wanted).max().item<double>(), 5e-3);
  }
}

TEST(StateLayers, AllDesignsLearn) {
  for (const auto& [name, json] : state_designs()) {
    SCOPED_TRACE(name);
    manual_seed(3);
    Decoder model(state_config_of(json));
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
    const Tensor tokens = from_vector(some_text(34, 97), {1, 34});
    double first = 0, last = 0;
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      const Tensor loss = model.loss(tokens.slice(1, 0, 33), tokens.slice(1, 1, 34));
      loss.backward();
      optimizer.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
    EXPECT_LT(last, 0.5 * first);
    for (const auto& [parameter, value] : model.named_parameters())
      EXPECT_TRUE(value.grad().defined() || parameter.find("experts") != std::string::npos ||
                  parameter.find("choice_bias") != std::string::npos)
          << parameter;
  }
}

TEST(StateLayers, SizesThatMakeNoLayerAreRefused) {
  struct Wrong {
    const char *key, *wanted;
    StateJson value;
  };
  const auto expect_refused = [](StateJson json, const Wrong& wrong) {
    if (wrong.value.is_discarded())
      json.erase(wrong.key);
    else
      json[wrong.key] = wrong.value;
    EXPECT_THAT(state_error<FormatError>([&] { state_config_of(json); }), HasSubstr(wrong.wanted)) << wrong.key;
  };
  const StateJson missing = StateJson(StateJson::value_t::discarded);
  for (const Wrong& wrong :
       {Wrong{"linear_num_value_heads", "'linear_num_value_heads' is missing", missing},
        Wrong{"linear_num_value_heads", "must divide the first", 3},
        Wrong{"linear_num_key_heads", "heads of a state's keys is 0", 0},
        Wrong{"linear_key_head_dim", "size of a state's keys is -1", -1},
        Wrong{"linear_value_head_dim", "size of a state's values is 1099511627776", 1ll << 40},
        Wrong{"linear_conv_kernel_dim", "convolution of a state spans is 17", 17},
        Wrong{"full_attention_interval", "it must be above 0", 0}, Wrong{"hidden_act", "has SiLU here", "gelu"},
        Wrong{"layer_types", "of the kind 'sliding_attention'", {"sliding_attention"}},
        Wrong{"layer_types", "kinds of 1 layers", {"full_attention"}},
        Wrong{"layer_types", "wanted a string", {3, 4, 5}}, Wrong{"layer_types", "wanted a list", 7}})
    expect_refused(state_designs()[0].second, wrong);
  for (const Wrong& wrong :
       {Wrong{"time_step_limit", "limited to 2 to 1", {2, 1}}, Wrong{"time_step_limit", "wanted a list of 2", {1}},
        Wrong{"time_step_limit", "wanted numbers", {0, "long"}}, Wrong{"ssm_multipliers", "wanted a list of 5", {1, 2}},
        Wrong{"mlp_multipliers", "wanted a list of 2", 3}, Wrong{"mamba_n_groups", "heads of keys", 3}})
    expect_refused(state_designs()[3].second, wrong);
  expect_refused(state_designs()[2].second, {"full_attn_idxs", "has 9 for 3 layers", {9}});
  expect_refused(state_designs()[5].second, {"hybrid_override_pattern", "of the kind 'X'", "MX"});
}

TEST(StateLayers, GgufFilesGiveTheSameTexts) {
  const TemporaryFolder folder;
  const FilePath file = folder / "model.gguf";
  const auto expect_same = [&](const StateJson& json) {
    const auto model = small_model(state_config_of(json));
    save_gguf_model(file, *model, nullptr);
    const Model again = load_model(file);
    EXPECT_EQ(again.decoder->config.num_parameters(), model->config.num_parameters());
    Generator before(*model, {.cache = {.dtype = f32}}), after(*again.decoder, {.cache = {.dtype = f32}});
    EXPECT_EQ(greedy_of(after, some_text(20, 97), 20), greedy_of(before, some_text(20, 97), 20)) << json.dump();
  };
  std::vector<StateJson> designs;
  for (const auto& [name, json] : state_designs()) designs.push_back(json);
  designs[0]["linear_value_head_dim"] = designs[1]["linear_value_head_dim"] = 8;
  designs[1].update({{"attention_bias", false}, {"decoder_sparse_step", 1}, {"mlp_only_layers", StateJson::array()}});
  designs[3].update({{"mamba_proj_bias", false}, {"projectors_bias", false}, {"time_step_limit", {0, 1e30}}});
  designs[5]["hybrid_override_pattern"] = "MM*EM";
  designs[6]["n_groups"] = 1;
  StateJson bamba = family_json("bamba");
  add_mamba(bamba, 1);
  bamba.update({{"attn_layer_indices", {1}}, {"partial_rotary_factor", 0.5}});
  for (const std::size_t design : {0, 1, 3, 4, 5, 6}) expect_same(designs[design]);
  expect_same(bamba);
  StateJson moe = designs[0];
  moe.update({{"model_type", "qwen3_5_moe_text"},
              {"num_experts", 4},
              {"num_experts_per_tok", 2},
              {"moe_intermediate_size", 16},
              {"shared_expert_intermediate_size", 24}});
  expect_same(moe);
  for (const auto& [design, what] : {std::pair{std::size_t{0}, "size of a state's values"},
                                     {std::size_t{1}, "size of a state's values"},
                                     {std::size_t{2}, "set of biases"},
                                     {std::size_t{3}, "set of biases"},
                                     {std::size_t{5}, "set of layers with experts"},
                                     {std::size_t{6}, "norm behind a state"}}) {
    const auto model = small_model(state_config_of(state_designs()[design].second));
    EXPECT_THAT(state_error<FormatError>([&] { save_gguf_model(file, *model, nullptr); }), HasSubstr(what));
  }
  EXPECT_THAT(state_error<FormatError>([&] { decoder_config("lfm2", {.vocabulary = 97}); }),
              HasSubstr("do not follow from its name"));
}

TEST(StateLayers, InfinityAsPythonWritesItIsNoLimit) {
  StateJson json = state_designs()[3].second;
  json["time_step_limit"] = {0.25, "LIMIT"};
  std::string text = json.dump();
  const std::string written = "\"LIMIT\"";
  text.replace(text.find(written), written.size(), "Infinity");
  EXPECT_EQ(decoder_config(text, "config.json").state.least_step, 0.25);
  EXPECT_EQ(decoder_config(text, "config.json").state.largest_step, 1e30);
}

}  // namespace
}  // namespace etna::models
