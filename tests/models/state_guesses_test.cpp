#include <algorithm>
#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/error.h>
#include <etna/device/internal/fake/backend.h>
#include <etna/models/generator.h>
#include <etna/models/internal/state_cache.h>
#include <etna/models/internal/state_mixers.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

#include "data/temporary_folder.h"
#include "small_models.h"
#include "state_designs.h"

// Speculative decoding of models whose layers keep a state, which must not take up wrong guesses.
namespace etna::models {
namespace {

using GuessedText = std::vector<std::int32_t>;

GenerationOptions sampled(std::int64_t tokens, double temperature) {
  return {.max_tokens = tokens, .sampling = {.temperature = temperature, .seed = 5}};
}

GuessedText guessed_text(Generator& generator, const GuessedText& prompt, const GenerationOptions& options) {
  GuessedText tokens;
  generator.generate(prompt, options, [&](std::int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

/// A text in which a lookup finds guesses, most of them wrong.
GuessedText repeating_text(std::int64_t count) {
  GuessedText text = some_text(count, 97);
  for (std::size_t i = 12; i < text.size(); ++i)
    if (i % 24 < 11) text[i] = text[i % 12];
  return text;
}

/// Nearly another model: right most of the time.
std::unique_ptr<Decoder> nearly(const DecoderConfig& config) {
  auto model = small_model(config);
  const NoGrad no_grad;
  manual_seed(3);
  Tensor head = (model->output ? *model->output : model->token_embedding).weight.detach();
  head.add_(randn(head.shape()) * 0.02);
  return model;
}

struct GuessCounts {
  std::int64_t guessed, right;
};

/// Generates with a draft, or by lookup, and expects the texts of one token per step.
GuessCounts expect_same_texts(const Decoder& model, Device device, std::int64_t guesses, const Decoder* draft,
                              const GenerationOptions& options) {
  const GuessedText prompt = repeating_text(70);
  Generator plain(model, {.device = device, .cache = {.dtype = f32}});
  const GuessedText wanted = guessed_text(plain, prompt, options);
  Generator generator(model, {.device = device, .guesses = guesses, .draft = draft, .cache = {.dtype = f32}});
  EXPECT_EQ(guessed_text(generator, prompt, options), wanted) << guesses;
  const GuessCounts counts{generator.times().guessed, generator.times().guessed_right};
  // The second text begins with a prefix that was found; and it stops at a token amid others that are right.
  GenerationOptions stopped = options;
  stopped.stop_tokens = {wanted[wanted.size() / 2]};
  const auto stop = std::find(wanted.begin(), wanted.end(), stopped.stop_tokens[0]);
  EXPECT_EQ(guessed_text(generator, prompt, stopped), GuessedText(wanted.begin(), stop)) << guesses;
  EXPECT_EQ(generator.cache().stats().reused_tokens, 64);
  if (draft != nullptr) {
    EXPECT_EQ(generator.draft_cache()->stats().in_use, 0);
  }
  return counts;
}

TEST(StateGuesses, LeaveTheTextAsItIs) {
  std::int64_t found = 0;
  for (const auto& [name, json] : state_designs()) {
    SCOPED_TRACE(name);
    const DecoderConfig config = state_config_of(json);
    const auto model = small_model(config), other = small_model(small_config("llama"), 23), close = nearly(config);
    for (const double temperature : {0.0, 0.8}) {
      const GenerationOptions options = sampled(40, temperature);
      for (const std::int64_t guesses : {1, 4}) {
        found += expect_same_texts(*model, kCPU, guesses, nullptr, options).guessed;
        EXPECT_GT(expect_same_texts(*model, kCPU, guesses, other.get(), options).guessed, 0);
        EXPECT_GT(expect_same_texts(*model, kCPU, guesses, close.get(), options).guessed, 0);
      }
      const GuessCounts own = expect_same_texts(*model, kCPU, 3, model.get(), options);
      EXPECT_EQ(own.right, own.guessed);
      EXPECT_GE(own.guessed, 27);
    }
  }
  EXPECT_GT(found, 20) << "by lookup";
}

/// A draft with a state for a model without one.
TEST(StateGuesses, OfADraftWithAStateAreOfTheWholeText) {
  DecoderConfig config = small_config("llama");
  const auto model = small_model(config);
  for (const std::size_t design : {0, 2, 3}) {
    const auto draft = small_model(state_config_of(state_designs()[design].second));
    const GuessedText prompt = some_text(8, 97);
    Generator plain(*model, {.cache = {.dtype = f32}}), far(*draft, {.cache = {.dtype = f32}});
    const GuessedText wanted = guessed_text(plain, prompt, sampled(120, 0));
    // What the draft says of each token of the text.
    GuessedText text = prompt;
    text.insert(text.end(), wanted.begin(), wanted.end());
    const GuessedText best = argmax(far.logits(text), -1).to(i32).to_vector<std::int32_t>();
    std::int64_t guessed = 0, right = 0;
    for (std::size_t i = 1; i < wanted.size(); ++i) {
      ++guessed;
      if (best[i + 7] == wanted[i]) ++right, ++i;
    }
    Generator generator(*model, {.guesses = 1, .draft = draft.get(), .cache = {.dtype = f32}});
    EXPECT_EQ(guessed_text(generator, prompt, sampled(120, 0)), wanted);
    EXPECT_EQ(generator.times().guessed, guessed);
    EXPECT_EQ(generator.times().guessed_right, right);
  }
}

/// Eight sequences that are read in chunks, join and leave while others guess, one with a penalty for a while, so that
/// steps take one token each.
void expect_together_as_alone(const Decoder& model, Device device, const Decoder* draft, std::size_t sequences) {
  std::vector<GuessedText> prompts, wanted;
  std::vector<GenerationOptions> options;
  Generator plain(model, {.device = device, .chunk = 32, .cache = {.tokens = 512, .dtype = f32}});
  for (std::size_t i = 0; i < sequences; ++i) {
    prompts.push_back(repeating_text(8 + 29 * static_cast<std::int64_t>(i) % 130));
    options.push_back(sampled(12 + 5 * static_cast<std::int64_t>(i), i % 3 == 1 ? 0.8 : 0.0));
    if (i == 2) options.back().sampling.repetition_penalty = 1.3;
    wanted.push_back(guessed_text(plain, prompts.back(), options.back()));
  }
  Generator generator(model, {.device = device,
                              .slots = std::ssize(prompts) > 8 ? 8 : 2,
                              .guesses = 3,
                              .draft = draft,
                              .chunk = 32,
                              .cache = {.tokens = 2048, .dtype = f32}});
  if (device.is_cpu()) generator.warm_up();
  std::map<Generator::Id, GuessedText> texts;
  std::vector<Generator::Id> ids;
  while (ids.size() < prompts.size() || generator.busy()) {
    if (ids.size() < prompts.size() && generator.has_room())
      ids.push_back(generator.begin(prompts[ids.size()], options[ids.size()]));
    for (const GeneratedToken& token : generator.step()) texts[token.sequence].push_back(token.token);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(texts[ids[i]], wanted[i]) << i;
  EXPECT_GT(generator.times().guessed, 10);
}

TEST(StateGuesses, OfEightSequencesAreThoseOfEach) {
  for (const std::size_t design : {0, 3, 5}) {
    const DecoderConfig config = state_config_of(state_designs()[design].second);
    const auto model = small_model(config), close = nearly(config);
    expect_together_as_alone(*model, kCPU, nullptr, 11);
    expect_together_as_alone(*model, kCPU, close.get(), 11);
  }
}

/// On a GPU whose layers do not all fit it, states of some are on the CPU.
TEST(StateGuesses, OfLayersOnTheCpu) {
  const bool is_strict = strict();
  set_strict(false);
  const Device device = fake::add({.memory = 256 << 20});
  const TemporaryFolder folder;
  StateJson json = state_designs()[0].second;
  json["linear_value_head_dim"] = 8;
  save_gguf_model(folder / "model.gguf", *small_model(state_config_of(json)), nullptr);
  const Model whole = load_model(folder / "model.gguf"),
              split = load_model(folder / "model.gguf", {.device = device, .host_layers = 1});
  const GuessedText prompt = repeating_text(40);
  Generator plain(*whole.decoder, {.cache = {.dtype = f32}}),
      generator(*split.decoder, {.device = device, .guesses = 3, .cache = {.dtype = f32}});
  EXPECT_EQ(guessed_text(generator, prompt, sampled(40, 0)), guessed_text(plain, prompt, sampled(40, 0)));
  EXPECT_GT(generator.times().guessed, 0);
  set_strict(is_strict);
}

class OnGpuStateGuesses : public OnDevice {};

TEST_P(OnGpuStateGuesses, LeaveTheTextAsItIs) {
  const DecoderConfig config = state_config_of(state_designs()[0].second);
  const auto model = small_model(config), close = nearly(config);
  model->to(device());
  close->to(device());
  expect_together_as_alone(*model, device(), close.get(), 3);
}

/// After a step that held rows back, states are to the last bit what steps of one token make of those that were right;
/// on a GPU, which may multiply more rows by another kernel, that of the first layer.
TEST_P(OnGpuStateGuesses, StatesHaveTheSameBits) {
  const NoGrad no_grad;
  for (const std::size_t design : tried<std::size_t>({0, 2, 3})) {
    const DecoderConfig config = state_config_of(state_designs()[design].second);
    const auto model = small_model(config);
    model->to(device());
    const auto ids = [&](const GuessedText& all, std::int64_t rows) {
      return from_vector(all, {rows, std::ssize(all) / rows}, device());
    };
    const auto each = [&](std::int32_t a, std::int32_t b) { return ids({a, b}, 2).flatten(); };
    std::vector<std::vector<float>> states[2];
    for (const bool at_once : {false, true}) {
      KvCache cache(config, device(), {.tokens = 256, .dtype = f32, .states = 2});
      const Tensor table = ids({0, 1}, 2), rows = each(1, 0);
      const auto read = [&](const Tensor& tokens, const Tensor& positions, LayerState* own, const Tensor& counts) {
        const DecoderCache all{.layers = &cache.layers(),
                               .places = {table, positions},
                               .states = own,
                               .state_rows = rows,
                               .counts = counts};
        if (tokens.defined())
          model->extend(tokens, all);
        else
          for (const DecoderBlock& block : model->blocks) take_up_held(block, all);
      };
      read(ids({5, 6, 7, 8, 9, 10}, 2), each(0, 0), cache.states(), {});
      std::vector<LayerState> holding = holding_states(config, cache.states(), 2, 4);
      if (at_once) {
        read(ids({1, 2, 3, 4, 11, 12, 13, 14}, 2), each(3, 3), holding.data(), {});
        read({}, each(3, 3), holding.data(), each(2, 4));
      } else {
        for (std::int32_t i = 0; i < 4; ++i)
          read(ids({1 + i, 11 + i}, 2), each(i < 2 ? 3 + i : -1, 3 + i), cache.states(), {});
      }
      for (std::int64_t i = 0; i < (device().is_cpu() ? config.layers : 1); ++i)
        for (const Tensor& state : {cache.states()[i].inputs, cache.states()[i].memory})
          if (state.defined()) states[at_once ? 1 : 0].push_back(state.to_vector<float>());
    }
    EXPECT_EQ(states[1], states[0]) << design;
  }
}

ETNA_ON_EVERY_DEVICE(OnGpuStateGuesses);

TEST(StateGuesses, AreInTheMemoryForecast) {
  ModelSizes sizes{state_config_of(state_designs()[0].second), {1000, 1000, 1000}, 1000};
  const Device gpu = Device::parse("vulkan:0");
  const auto needed = [&](std::int64_t slots, std::int64_t guesses) {
    return plan_layers(sizes, {.device = gpu, .slots = slots, .guesses = guesses, .available = 1 << 30}).all;
  };
  // Of two delta nets: two heads of 8 queries and keys, four of 6 values, and two gates for each of these.
  const std::uint64_t row = 2 * (2 * 2 * 8 + 4 * 6 + 2 * 4) * sizeof(float);
  EXPECT_EQ(needed(1, 4) - needed(1, 0), 5 * row);
  EXPECT_EQ(needed(8, 2) - needed(8, 0), 24 * row);
  sizes.config = small_config("llama");
  sizes.layers.pop_back();
  EXPECT_EQ(needed(8, 2), needed(8, 0));
}

}  // namespace
}  // namespace etna::models
