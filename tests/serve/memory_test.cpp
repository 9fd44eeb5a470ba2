#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/device/memory.h>
#include <etna/serve/api_error.h>

#include "serve/serve_program.h"

// Too little memory: the request that needs it gets an error of its own, and others go on.
namespace etna::serve {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

/// Refuses allocations of the engine's thread: those after the first `passed`, and at most `refused` of them.
class Shortage : public AllocationHook {
 public:
  Shortage(Engine& engine, int passed, int refused) : engine_(engine), passed_(passed), refused_(refused) {
    engine_.run("test", [this] { before_ = set_allocation_hook(this); });
  }
  ~Shortage() {
    engine_.run("test", [this] { set_allocation_hook(before_); });
  }
  Shortage(const Shortage&) = delete;
  StoragePtr allocate(Device device, std::size_t bytes) override {
    if (before_ != nullptr) return before_->allocate(device, bytes);
    if (seen_++ < passed_ || hits_ >= refused_) return nullptr;
    ++hits_;
    throw OutOfMemory("a test refuses this allocation");
  }
  int hits() const { return hits_; }

 private:
  Engine& engine_;
  const int passed_, refused_;
  std::atomic<int> seen_ = 0, hits_ = 0;
  AllocationHook* before_ = nullptr;
};

struct MemoryCase {
  const char* name;
  std::int64_t guesses;
};

class Memory : public testing::TestWithParam<MemoryCase> {
 protected:
  static SequenceRequest sequence(std::uint64_t seed, std::int64_t tokens, std::size_t prompt = 3) {
    SequenceRequest request = some_sequence(tokens, {});
    for (std::size_t i = 0; i < prompt; ++i)
      request.prompt.push_back(static_cast<std::int32_t>(i % 3 == 0 ? 5 + seed : 260));
    request.options.sampling.temperature = seed % 2 == 0 ? 0.0f : 1.0f;
    request.options.sampling.seed = seed;
    request.options.sampling.frequency_penalty = seed == 3 ? 0.5f : 0.0f;
    return request;
  }
  static Job job(std::uint64_t seed, std::int64_t tokens, std::size_t prompt = 3) {
    Job made{0, {}, "a"};
    made.sequences.push_back(sequence(seed, tokens, prompt));
    return made;
  }
};

TEST_P(Memory, WhicheverAllocationFailsAnswersAreRightOrEndWithAnError) {
  SmallModel model(4);
  model.generator = std::make_unique<models::Generator>(
      *model.decoder,
      models::GeneratorOptions{.slots = 4, .guesses = GetParam().guesses, .cache = {.tokens = 4 * 4096}});
  model.served.generator = model.generator.get();
  Engine engine({model.served});
  const auto ask = [&](std::vector<std::shared_ptr<AnswerStream>>& streams) {
    for (std::uint64_t seed = 1; seed < 4; ++seed) streams.push_back(engine.submit(job(seed, 40)));
    streams.push_back(engine.submit(job(4, 10, 700)));
  };
  std::vector<std::string> wanted;
  {
    std::vector<std::shared_ptr<AnswerStream>> streams;
    ask(streams);
    for (const auto& stream : streams) wanted.push_back(answer_of(*stream).text);
  }
  int whole = 0, ended = 0, unhurt = 0;
  for (const int refused : {1, 3}) {
    for (int passed = 0; passed < 4000; passed += 1 + passed / 8) {
      engine.run("test", [&] { model.generator->cache().forget(); });
      std::vector<std::shared_ptr<AnswerStream>> streams;
      int hits = 0;
      {
        const Shortage shortage(engine, passed, refused);
        ask(streams);
        for (std::size_t i = 0; i < streams.size(); ++i) {
          const Answered answered = answer_of(*streams[i]);
          if (answered.finish.finish == FinishReason::failed) {
            ++ended;
            EXPECT_EQ(answered.finish.error.code, "out_of_memory") << answered.finish.error.message;
            EXPECT_EQ(answered.finish.error.status, 503);
            EXPECT_TRUE(wanted[i].starts_with(answered.text)) << passed;
          } else {
            ++whole;
            EXPECT_EQ(answered.text, wanted[i]) << "after " << passed << " allocations, refused " << refused;
          }
        }
        hits = shortage.hits();
      }
      if (hits == 0) ++unhurt;
      ASSERT_TRUE(soon([&] { return engine.idle(); }));
      EXPECT_EQ(engine.state().failure, "");
      engine.run("test", [&] {
        EXPECT_EQ(model.generator->running(), 0);
        EXPECT_EQ(model.generator->cache().stats().in_use, 0);
      });
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(whole, ended) << "one shortage must not end all that run";
  EXPECT_GT(ended, 20);
  RecordProperty("whole", whole);
  RecordProperty("ended", ended);
  RecordProperty("unhurt", unhurt);
}

INSTANTIATE_TEST_SUITE_P(Steps, Memory, testing::Values(MemoryCase{"Tokens", 0}, MemoryCase{"Guesses", 3}),
                         [](const auto& tested) { return std::string(tested.param.name); });

/// `etna serve` with less and less memory.
class LittleMemory : public ServeProgram, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()).starts_with("vulkan") && std::getenv("ETNA_TEST_VULKAN") == nullptr)
      GTEST_SKIP() << "set ETNA_TEST_VULKAN=1";
    // Wide enough that a long prompt needs large pieces of memory.
    SmallModel model(1, 4096, 1024);
    models::save_gguf_model(folder_ / "small.gguf", *model.decoder, &model.tokenizer);
    device_ = GetParam();
  }
  bool start_with(int mib) {
    const std::string limit = std::to_string(mib) + "MiB";
    environment_ = {{"ETNA_STRICT", "0"}, {"ETNA_CACHE_LIMIT", "0"}};
    if (device_.starts_with("fake"))
      environment_.emplace_back("ETNA_FAKE_DEVICE", "memory=" + limit);
    else
      environment_.emplace_back("ETNA_MEMORY_LIMIT", limit);
    return start({"--parallel", "2", "--no-warm-up", "--gpu-layers", "99"});
  }
  std::pair<int, std::string> ask(std::size_t prompt) const {
    const auto result =
        post("/v1/completions",
             {{"model", "small"}, {"prompt", std::vector<int>(prompt, 100)}, {"max_tokens", 3}, {"ignore_eos", true}});
    return result ? std::pair(result->status, result->body) : std::pair(0, std::string("no reply"));
  }
};

TEST_P(LittleMemory, EndsTheRequestsThatNeedMoreAndNoOthers) {
  int refused_at_start = 0, refused_long = 0, whole = 0;
  for (int mib = 2; mib < 400 && whole == 0; mib += 1 + mib / 3) {
    if (!start_with(mib)) {
      ++refused_at_start;
      EXPECT_GT(wait(), 0) << "no crash";
      EXPECT_THAT(errors(), AnyOf(HasSubstr("no room"), HasSubstr("memory"))) << mib;
      continue;
    }
    const auto short_prompt = ask(5), long_prompt = ask(1500), again = ask(5);
    if (short_prompt.first == 200) {
      EXPECT_EQ(again.first, 200) << mib << " MiB: " << again.second;
      EXPECT_THAT(long_prompt.first, AnyOf(200, 503)) << mib << " MiB: " << long_prompt.second;
    }
    for (const auto& [status, body] : {short_prompt, long_prompt, again}) {
      EXPECT_THAT(status, AnyOf(200, 503)) << mib << " MiB: " << body;
      if (status == 503) {
        EXPECT_THAT(body, HasSubstr("out_of_memory")) << mib;
      }
    }
    refused_long += short_prompt.first == 200 && long_prompt.first == 503 ? 1 : 0;
    whole += short_prompt.first == 200 && long_prompt.first == 200 ? 1 : 0;
    EXPECT_EQ(status("/health"), 200) << "a lack of memory is no lost device";
    EXPECT_EQ(end(SIGTERM), 0) << mib << " MiB: " << errors();
  }
  EXPECT_GT(refused_at_start, 0);
  EXPECT_GT(refused_long, 0) << "no limit let short prompts pass and long ones not";
  EXPECT_EQ(whole, 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, LittleMemory, testing::Values("cpu", "fake:0", "vulkan:0"), [](const auto& tested) {
  const std::string name = tested.param;
  return name.substr(0, name.find(':'));
});

}  // namespace
}  // namespace etna::serve
