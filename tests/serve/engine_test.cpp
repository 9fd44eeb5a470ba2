#include <etna/serve/engine.h>

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/tokenizers/stream_decoder.h>
#include <etna/device/error.h>
#include <etna/serve/api_error.h>

#include "serve/small_server.h"

namespace etna::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// The status that a call is refused with; 0 where it is not.
template <typename Call>
int status_of(const Call& call) {
  try {
    call();
  } catch (const ApiError& error) {
    return error.status;
  }
  return 0;
}

/// What the generator writes by itself.
std::string text_alone(SmallModel& model, std::int64_t tokens) {
  std::vector<std::int32_t> all;
  SequenceRequest request = some_sequence(tokens);
  model.generator->generate(request.prompt, request.options, [&](std::int32_t token) {
    all.push_back(token);
    return true;
  });
  return data::replace_invalid_utf8(model.tokenizer.decode(all));
}

TEST(Engine, WritesWhatTheGeneratorWritesAlone) {
  SmallModel model(4);
  const std::string wanted = text_alone(model, 40);
  Engine engine({model.served});
  std::vector<std::shared_ptr<AnswerStream>> streams;
  for (int i = 0; i < 10; ++i) streams.push_back(engine.submit(some_job(40)));
  for (const auto& stream : streams) {
    const Answered answered = answer_of(*stream);
    EXPECT_EQ(answered.text, wanted);
    EXPECT_EQ(answered.finish.finish, FinishReason::length);
    EXPECT_EQ(answered.finish.usage.prompt_tokens, 3);
    EXPECT_EQ(answered.finish.usage.completion_tokens, 40);
    EXPECT_GT(answered.finish.timings.first_token, 0);
    EXPECT_GE(answered.finish.timings.total, answered.finish.timings.first_token);
  }
  EXPECT_TRUE(engine.idle());
  const EngineState state = engine.state();
  EXPECT_EQ(state.finished, 10u);
  EXPECT_EQ(state.tokens, 400u);
  engine.run("a", [&] { EXPECT_EQ(model.generator->running(), 0); });
}

TEST(Engine, EndsAtAStopTextAndSaysWhich) {
  SmallModel model;
  const std::string whole = text_alone(model, 60);
  const std::string stop = " river";
  const std::size_t at = whole.find(stop);
  ASSERT_NE(at, std::string::npos) << whole;
  Engine engine({model.served});
  Job job = some_job(60);
  job.sequences[0].stop = {"never there", stop};
  const Answered answered = answer_of(*engine.submit(job));
  EXPECT_EQ(answered.text, whole.substr(0, at));
  EXPECT_EQ(answered.finish.finish, FinishReason::stop);
  EXPECT_EQ(answered.finish.stop_text, stop);
  EXPECT_LT(answered.finish.usage.completion_tokens, 60);
}

TEST(Engine, WritesSeveralTextsForOneJob) {
  SmallModel model;
  Engine engine({model.served});
  Job job = some_job(5);
  job.sequences.push_back(some_sequence(7, {1, 262}));
  job.sequences.push_back(some_sequence(0));
  const auto stream = engine.submit(job);
  std::vector<std::int64_t> tokens(3, -1);
  while (!stream->ended()) {
    const auto event = stream->next(1s);
    if (event && event->kind == EventKind::finish)
      tokens[static_cast<std::size_t>(event->choice)] = event->usage.completion_tokens;
  }
  EXPECT_THAT(tokens, testing::ElementsAre(5, 7, 0));
}

TEST(Engine, RefusesWhatTheModelCannotRead) {
  SmallModel model(1, 64);
  Engine engine({model.served});
  const auto with_prompt = [&](std::vector<std::int32_t> prompt) {
    return status_of([&] {
      Job job = some_job(5);
      job.sequences[0].prompt = std::move(prompt);
      engine.submit(job);
    });
  };
  EXPECT_EQ(with_prompt({}), 400);
  EXPECT_EQ(with_prompt(std::vector<std::int32_t>(65, 1)), 400);
  EXPECT_EQ(with_prompt({-1}), 400);
  EXPECT_EQ(with_prompt({100'000}), 400);
  EXPECT_EQ(with_prompt(std::vector<std::int32_t>(64, 1)), 0);
  EXPECT_TRUE(soon([&] { return engine.idle(); }));
}

TEST(Engine, CancelledAnswersGiveTheirSlotsBack) {
  SmallModel model(1);
  Engine engine({model.served});
  const auto first = engine.submit(some_job(4000));
  const auto second = engine.submit(some_job(4000));
  const auto third = engine.submit(some_job(3));
  ASSERT_TRUE(first->next(10s));
  second->cancel();  // while it waits
  first->cancel();   // while it runs
  EXPECT_EQ(answer_of(*third).finish.usage.completion_tokens, 3);
  EXPECT_EQ(answer_of(*first).finish.finish, FinishReason::failed);
  EXPECT_EQ(answer_of(*second).finish.usage.completion_tokens, 0);
  EXPECT_EQ(engine.state().cancelled, 2u);
  engine.run("a", [&] {
    EXPECT_EQ(model.generator->running(), 0);
    EXPECT_EQ(model.generator->cache().stats().in_use, 0);
  });
}

TEST(Engine, RefusesMoreThanItsQueueWithATimeToTryAgain) {
  SmallModel model(1);
  Engine engine({model.served}, {.max_queue = 2});
  std::vector<std::shared_ptr<AnswerStream>> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(engine.submit(some_job(4000)));
  try {
    engine.submit(some_job(1));
    FAIL() << "a fourth was taken";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 429);
    EXPECT_GE(error.retry_after, 1);
  }
  EXPECT_EQ(status_of([&] { engine.run("b", [] {}); }), 429);
  Job many = some_job(1);
  for (int i = 0; i < 3; ++i) many.sequences.push_back(some_sequence(1));
  EXPECT_EQ(status_of([&] { engine.submit(many); }), 400) << "four texts never fit";
  for (const auto& stream : streams) stream->cancel();
  EXPECT_TRUE(soon([&] { return engine.idle(); }));
  EXPECT_EQ(answer_of(*engine.submit(some_job(2))).finish.usage.completion_tokens, 2);
}

TEST(Engine, EndsWhatWaitsOrRunsTooLong) {
  SmallModel model(1);
  Engine engine({model.served}, {.queue_time = 50ms, .answer_time = 150ms});
  const auto running = engine.submit(some_job(4000));
  const auto waiting = engine.submit(some_job(4000));
  const Answered late = answer_of(*waiting);
  EXPECT_EQ(late.finish.finish, FinishReason::failed);
  EXPECT_EQ(late.finish.error.status, 503);
  EXPECT_THAT(late.finish.error.message, HasSubstr("waited too long"));
  const Answered slow = answer_of(*running);
  EXPECT_THAT(slow.finish.error.message, HasSubstr("took too long"));
  EXPECT_FALSE(slow.text.empty());
}

TEST(Engine, EndsAnAnswerThatNobodyReads) {
  SmallModel model(2);
  Engine engine({model.served}, {.stall_time = 100ms});
  Job job = some_job(1 << 20);
  job.sequences[0].options.endless = true;
  const auto unread = engine.submit(job);
  const Answered other = answer_of(*engine.submit(some_job(100)));
  EXPECT_EQ(other.finish.usage.completion_tokens, 100) << "a slow reader must not hold up others";
  ASSERT_TRUE(soon([&] { return engine.idle(); })) << "reading it would let it go on";
  EXPECT_EQ(answer_of(*unread).finish.error.code, "slow_client");
}

TEST(Engine, DrainsWhatItHasTaken) {
  SmallModel model(1);
  Engine engine({model.served});
  const auto running = engine.submit(some_job(100));
  const auto waiting = engine.submit(some_job(100));
  engine.drain();
  EXPECT_EQ(status_of([&] { engine.submit(some_job(1)); }), 503);
  EXPECT_EQ(answer_of(*running).finish.usage.completion_tokens, 100);
  EXPECT_EQ(answer_of(*waiting).finish.usage.completion_tokens, 100);
  EXPECT_TRUE(soon([&] { return engine.idle(); }));
}

TEST(Engine, TellsEverybodyWhenItEnds) {
  SmallModel model(1);
  auto engine = std::make_unique<Engine>(std::vector<ServedModel>{model.served});
  const auto running = engine->submit(some_job(4000));
  const auto waiting = engine->submit(some_job(4000));
  ASSERT_TRUE(running->next(10s));
  engine.reset();
  EXPECT_EQ(answer_of(*running).finish.error.code, "shutting_down");
  EXPECT_EQ(answer_of(*waiting).finish.error.code, "shutting_down");
  EXPECT_EQ(model.generator->running(), 0);
}

TEST(Engine, RunsTasksBetweenStepsAndPassesTheirErrorsOn) {
  SmallModel model(1);
  Engine engine({model.served});
  const auto running = engine.submit(some_job(4000));
  bool ran = false;
  engine.run("b", [&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_THROW(engine.run("b", [] { throw ShapeError("odd"); }), ShapeError);
  EXPECT_EQ(engine.state().failure, "");
  running->cancel();
}

TEST(Engine, RunsTasksInPartsBetweenSteps) {
  SmallModel model(1);
  Engine engine({model.served});
  const auto running = engine.submit(some_job(4000));
  ASSERT_TRUE(running->next(10s));
  std::vector<std::uint64_t> steps;
  engine.run_in_parts("b", [&] {
    steps.push_back(engine.state().steps);
    return steps.size() < 4;
  });
  ASSERT_EQ(steps.size(), 4u);
  for (std::size_t i = 1; i < steps.size(); ++i) EXPECT_GT(steps[i], steps[i - 1]);
  int parts = 0;
  EXPECT_THROW(engine.run_in_parts("b",
                                   [&]() -> bool {
                                     if (++parts == 2) throw ShapeError("odd");
                                     return true;
                                   }),
               ShapeError);
  running->cancel();
  EXPECT_TRUE(soon([&] { return engine.idle(); }));
  // It ends with the engine, whose thread deletes what it holds.
  std::thread::id deleted_by;
  const auto delete_here = [&](const int* held) {
    deleted_by = std::this_thread::get_id();
    delete held;
  };
  std::atomic<bool> begun = false;
  std::thread waits([&] {
    EXPECT_EQ(status_of([&] {
                engine.run_in_parts("b", [&begun, held = std::shared_ptr<const int>(new int(1), delete_here)] {
                  begun = true;
                  return true;
                });
              }),
              503);
    EXPECT_NE(deleted_by, std::this_thread::get_id());
  });
  EXPECT_TRUE(soon([&] { return begun.load(); }));
  EXPECT_FALSE(engine.idle());
  engine.stop();
  waits.join();
  EXPECT_NE(deleted_by, std::thread::id());
}

TEST(Engine, PromptsThatBeginAlikeWaitForTheFirstOnesBlocks) {
  SmallModel model(4);
  Engine engine({model.served});
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < 1500; ++i) prompt.push_back(1 + i * 37 % 267);
  std::vector<std::int32_t> other = prompt, unlike = prompt;
  other.back() = 3;
  unlike[10] = 3;
  const auto ask = [&](const std::vector<std::int32_t>& text) {
    Job job{0, {}, "a"};
    job.sequences.push_back(some_sequence(5, text));
    return engine.submit(job);
  };
  // All of them begin at once.
  std::vector<std::shared_ptr<AnswerStream>> streams;
  engine.run("a", [&] {
    for (const auto& text : {prompt, prompt, other, unlike}) streams.push_back(ask(text));
  });
  std::vector<Answered> answers;
  for (const auto& stream : streams) answers.push_back(answer_of(*stream));
  EXPECT_EQ(answers[0].finish.usage.cached_tokens, 0);
  EXPECT_EQ(answers[1].finish.usage.cached_tokens, 1472) << "23 blocks of 64";
  EXPECT_EQ(answers[2].finish.usage.cached_tokens, 1472);
  EXPECT_EQ(answers[3].finish.usage.cached_tokens, 0);
  for (const Answered& answer : answers) EXPECT_EQ(answer.finish.usage.completion_tokens, 5);
  EXPECT_EQ(answers[1].text, answers[0].text);
  // What waits for one that goes away begins by itself.
  for (std::int32_t& token : prompt) token = 1 + token * 5 % 267;
  std::shared_ptr<AnswerStream> first, second;
  engine.run("a", [&] {
    first = ask(prompt);
    second = ask(prompt);
  });
  first->cancel();
  EXPECT_EQ(answer_of(*second).finish.usage.completion_tokens, 5);
  EXPECT_TRUE(soon([&] { return engine.idle(); }));
}

TEST(Engine, PromptsThatWaitForAnothersBlocksDoNotWaitForATurn) {
  SmallModel model(2);
  Engine engine({model.served}, {.queue_time = 1s});
  const std::vector<std::int32_t> prompt(3000, 7);
  Job job{0, {}, "a"};
  for (int i = 0; i < 2; ++i) job.sequences.push_back(some_sequence(3, prompt));
  const auto stream = engine.submit(job);
  engine.run("b", [] { std::this_thread::sleep_for(1200ms); });  // between two chunks of the first
  int ended = 0;
  std::int64_t cached = 0;
  while (!stream->ended()) {
    const auto event = stream->next(1s);
    if (!event || event->kind != EventKind::finish) continue;
    EXPECT_EQ(event->finish, FinishReason::length) << event->error.message;
    cached += event->usage.cached_tokens;
    ++ended;
  }
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(cached, 2944) << "46 blocks of 64";
}

TEST(Engine, ALostDeviceEndsEverythingAndLaterRequests) {
  SmallModel model(1);
  Engine engine({model.served});
  const auto running = engine.submit(some_job(4000));
  const auto waiting = engine.submit(some_job(4000));
  EXPECT_THROW(engine.run("b", [] { throw DeviceLost("vulkan:0 was lost"); }), DeviceLost);
  EXPECT_EQ(answer_of(*running).finish.error.status, 503);
  EXPECT_EQ(answer_of(*waiting).finish.error.code, "device_lost");
  EXPECT_EQ(status_of([&] { engine.submit(some_job(1)); }), 503);
  EXPECT_THAT(engine.state().failure, HasSubstr("vulkan:0 was lost"));
  EXPECT_TRUE(engine.idle());
}

TEST(Engine, ServesModelsSideBySide) {
  SmallModel one(1), other(1);
  other.served.name = "other";
  Engine engine({one.served, other.served});
  Job job = some_job(30);
  job.model = 1;
  const auto first = engine.submit(some_job(30)), second = engine.submit(job);
  EXPECT_EQ(answer_of(*first).text, answer_of(*second).text) << "both have the same weights";
  EXPECT_EQ(engine.slots().size(), 2u);
}

}  // namespace
}  // namespace etna::serve
