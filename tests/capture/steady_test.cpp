#include <sys/resource.h>

#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/memory.h>

#include "training.h"

/// A captured step that repeats allocates no memory from the system.
namespace etna {
namespace {

long page_faults() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

/// Large enough to run on all threads, and for kernels to need more scratch memory than malloc() caches.
struct Step {
  models::Decoder model{
      (manual_seed(1),
       models::decoder_config(
           "gpt2", {.vocabulary = 33278, .context = 32, .width = 64, .layers = 2, .heads = 4, .feed_forward = 256}))};
  optim::AdamW optimizer{model.parameters(), {.lr = 1e-3, .max_grad_norm = 1}};
  Tensor x = randint(0, 33278, {8, 32}, {i32}), y = randint(0, 33278, {8, 32}, {i32});

  void operator()(DType precision) {
    Tensor loss;
    {
      auto mixed = autocast(precision);
      loss = model.loss(x, y);
    }
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
};

class SteadyStep : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, SteadyStep, testing::Values(f32, bf16),
                         [](const auto& precision) { return std::string(name(precision.param)); });

TEST_P(SteadyStep, TakesNothingFromTheSystem) {
  Step train;
  auto step = capture([&] { train(GetParam()); }, {.device = kCPU});
  for (int i = 0; i < 4; ++i) step();
  ASSERT_TRUE(step.captured());
  const std::uint64_t misses = memory_stats(kCPU).misses;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(memory_stats(kCPU).misses, misses);
}

/// Which thread runs a task is chance, and a thread's first task of a kind touches pages. So there is no fixed step
/// from which no page is touched, but soon ten consecutive steps touch none.
TEST_P(SteadyStep, TouchesNoNewPage) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has memory of its own";
#endif
  Step train;
  auto step = capture([&] { train(GetParam()); }, {.device = kCPU});
  int clean = 0;
  std::vector<long> faults;
  for (int i = 0; i < 120 && clean < 10; ++i) {
    const long before = page_faults();
    step();
    faults.push_back(page_faults() - before);
    clean = faults.back() == 0 ? clean + 1 : 0;
  }
  EXPECT_EQ(clean, 10) << "page faults a step: " << testing::PrintToString(faults);
}

TEST(Scratch, IsWhatItsThreadGaveBack) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "blocks come and go, so that AddressSanitizer sees them";
#endif
  const float* first = nullptr;
  {
    cpu::Scratch<float> scratch(100000);
    first = scratch.data();
  }
  [[maybe_unused]] const long before = page_faults();
  for (int i = 0; i < 100; ++i) {
    cpu::Scratch<float> again(90000 + i, 1.0f);
    ASSERT_EQ(again.data(), first);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
  }
#if !defined(__SANITIZE_THREAD__)
  // Otherwise 100 blocks of 88 new pages. ThreadSanitizer also touches pages, to track accesses.
  EXPECT_LT(page_faults() - before, 200);
#endif
  cpu::Scratch<float> one(100000), other(100000);
  EXPECT_NE(one.data(), other.data());
}

TEST(Scratch, HoldsZerosWhereTheyAreAskedFor) {
  { cpu::Scratch<double> used(1000, 7.0); }
  for (double value : cpu::Scratch<double>(1000, 0)) ASSERT_EQ(value, 0);
}

TEST(Memory, LargeSegmentsBeginWhereHugePagesDo) {
  empty_cache(kCPU);
  const Tensor x = empty({std::int64_t{40} << 20}, {f32, kCPU});  // more than half a shared segment, so it gets its own
  EXPECT_EQ(x.address() % (std::uint64_t{2} << 20), 0u);
}

}  // namespace
}  // namespace etna
