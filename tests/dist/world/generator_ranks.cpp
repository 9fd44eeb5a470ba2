#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <etna/dist/dist.h>
#include <etna/models/generator.h>
#include <etna/models/grammar/grammar.h>
#include <etna/models/model_file.h>
#include <models/small_models.h>

#include "world.h"

// Rank 0's generator is called, and the others repeat it: everything is as with the whole model in one process.
namespace etna::models {
namespace {

using distributed::rank, distributed::size;

/// A model on all ranks, whole and in parts.
struct DividedModel {
  std::unique_ptr<Decoder> whole = small_model(small_config("llama"));
  std::unique_ptr<Decoder> part = decoder_of(small_config("llama"), whole->state_dict(), {.split = {rank(), size()}});
};

/// What calls give, or throw, for comparison.
struct CallLog {
  std::vector<std::string> lines;

  void call(const std::string& name, const std::function<std::string()>& work) {
    try {
      lines.push_back(name + ": " + work());
    } catch (const Error& error) {
      lines.push_back(name + " throws " + error.what());
    }
  }
  void tokens(const std::string& name, const std::vector<GeneratedToken>& all) {
    for (const GeneratedToken& token : all)
      lines.push_back(fmt::format("{}: sequence {} token {} {:.3f}, {} others", name, token.sequence, token.token,
                                  token.logprob, token.top.size()));
  }
};

std::string sum_of(const Tensor& x) { return fmt::format("{} {:.2f}", str(x.shape()), x.abs().sum().item<double>()); }

/// Calls of all kinds, among them those that fail.
CallLog use_generator(Generator& generator) {
  CallLog log;
  const std::vector<std::int32_t> text = some_text(60, 97), other = {5, 6, 7};
  const auto begin = [&](const std::string& name, std::span<const std::int32_t> prompt, GenerationOptions options) {
    log.call(name, [&] { return std::to_string(generator.begin(prompt, options)); });
  };
  const auto step = [&](int times) {
    for (int i = 0; i < times && generator.busy(); ++i)
      log.call("step", [&] {
        log.tokens("step", generator.step());
        return std::to_string(generator.running());
      });
  };
  log.call("warm_up", [&] { return generator.warm_up(), ""; });
  log.call("logits", [&] { return sum_of(generator.logits(text)); });
  log.call("logits of a wrong token", [&] { return sum_of(generator.logits(std::vector<std::int32_t>{1, 97})); });
  log.call("hidden", [&] { return sum_of(generator.hidden(text)); });
  log.call("hidden of too much", [&] { return sum_of(generator.hidden(some_text(300, 97))); });
  log.call("logprobs", [&] { return log.tokens("text", generator.logprobs(text, 2)), ""; });
  begin("empty", {}, {});
  begin("no such adapter", text, {.adapter = 3});
  begin("too long", some_text(300, 97), {});
  begin("greedy", text, {.max_tokens = 20, .sampling = {.temperature = 0}});
  step(3);
  begin("sampled", other,
        {.max_tokens = 25, .sampling = {.temperature = 1, .top_k = 0, .seed = 3}, .stop_tokens = {1}, .logprobs = 3});
  begin("penalized", text,
        {.max_tokens = 30,
         .sampling = {.temperature = 0.8, .repetition_penalty = 1.2, .logit_bias = {{3, 1.5f}, {4, -2}}, .seed = 9}});
  begin("no slot", other, {});
  step(4);
  log.call("warm_up while sequences run", [&] { return generator.warm_up(), ""; });
  {
    TextLogprobs left(generator, text, 1);
    log.call("a part of a text", [&] { return left.read() ? "more" : "whole"; });
    step(2);
    log.tokens("part", left.take());
  }
  generator.leave(0);
  generator.leave(0);
  begin("endless", other, {.max_tokens = 300, .sampling = {.temperature = 0}, .endless = true});
  step(40);
  // The cache has room for 384 tokens.
  generator.leave(3);
  begin("long", some_text(200, 89), {.max_tokens = 100, .sampling = {.temperature = 0}});
  begin("long too", some_text(190, 83), {.max_tokens = 100, .sampling = {.temperature = 0}});
  step(200);
  for (Generator::Id i = 0; i < 6; ++i) {
    log.call("stopped", [&] { return std::string(name(generator.stopped(i))); });
    generator.leave(i);
    generator.forget(i);
  }
  log.lines.push_back(generator.cache().stats().str());
  generator.forget_prefixes();
  log.lines.push_back(generator.cache().stats().str());
  log.call("join", [&] { return std::to_string(generator.join(text, {.max_tokens = 3})); });
  step(5);
  return log;
}

TEST(GeneratorRanks, RepeatEveryCall) {
  const DividedModel model;
  const GeneratorOptions options{.slots = 3, .all_slots = true, .chunk = 32, .cache = {.tokens = 384, .dtype = f32}};
  Generator own(*model.part, options);
  if (rank() != 0) return own.follow();
  own.lead();
  Generator one(*model.whole, options);
  const CallLog got = use_generator(own), wanted = use_generator(one);
  EXPECT_GT(wanted.lines.size(), 150u);
  EXPECT_EQ(got.lines, wanted.lines);
}

TEST(GeneratorRanks, FollowWhileRankZeroRests) {
  const DividedModel model;
  Generator own(*model.part, {});
  if (rank() != 0) {
    own.follow();
    EXPECT_EQ(own.times().tokens, 5) << "two leads";
    return own.follow();
  }
  own.lead();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto nothing = [](std::int32_t) { return true; };
  EXPECT_EQ(own.generate(some_text(9, 97), {.max_tokens = 5, .stop_tokens = {}}, nothing), StopReason::max_tokens);
  own.stop_leading();
  own.stop_leading();
  own.lead();
}

TEST(GeneratorRanks, RoleIsChecked) {
  const DividedModel model;
  Generator own(*model.part, {}), whole(*model.whole, {});
  EXPECT_THROW(whole.lead(), Error);
  EXPECT_THROW(whole.follow(), Error);
  if (rank() == 0) {
    EXPECT_THROW(own.follow(), Error);
  } else {
    EXPECT_THROW(own.lead(), Error);
  }
}

/// Even and odd tokens in turns; asks for the ninth token fail.
class TurnsGrammar final : public TokenGrammar {
 public:
  explicit TurnsGrammar(State ends = 12) : ends_(ends), even_(4, 0x55555555u), odd_(4, 0xaaaaaaaau) {}
  State next(State state, std::int32_t token) override {
    if (state == 8) throw Error("the grammar has enough");
    return (token + state) % 2 == 0 ? state + 1 : kRefused;
  }
  std::span<const std::uint32_t> allowed(State state) override { return state % 2 == 0 ? even_ : odd_; }
  bool may_end(State state) override { return state >= ends_; }
  std::int64_t vocabulary() const override { return 97; }

 private:
  const State ends_;
  const std::vector<std::uint32_t> even_, odd_;
};

TEST(GeneratorRanks, AskTheGrammarOfRankZero) {
  const DividedModel model;
  const GeneratorOptions options{.slots = 2, .cache = {.tokens = 512, .dtype = f32}};
  Generator own(*model.part, options);
  if (rank() != 0) return own.follow();
  own.lead();
  Generator one(*model.whole, options);
  const auto use = [](Generator& generator) {
    CallLog log;
    const auto shared = std::make_shared<TurnsGrammar>();
    const std::vector<std::int32_t> prompt = {1, 2, 3};
    const auto begin = [&](std::int64_t most, std::shared_ptr<TokenGrammar> grammar) {
      log.call("begin", [&] {
        return std::to_string(generator.begin(
            prompt, {.max_tokens = most, .sampling = {.temperature = 1, .seed = 4}, .grammar = std::move(grammar)}));
      });
    };
    const auto run = [&] {
      while (generator.busy()) log.tokens("step", generator.step());
    };
    begin(6, shared);
    begin(20, shared);
    run();
    begin(8, std::make_shared<TurnsGrammar>(4));
    begin(8, nullptr);
    run();
    for (Generator::Id i = 0; i < 4; ++i)
      log.lines.push_back(std::string(name(generator.stopped(i))) + generator.error_of(i));
    return log.lines;
  };
  const std::vector<std::string> got = use(own), wanted = use(one);
  EXPECT_EQ(got, wanted);
  EXPECT_EQ(wanted[wanted.size() - 3], "errorthe grammar has enough");
}

}  // namespace
}  // namespace etna::models
