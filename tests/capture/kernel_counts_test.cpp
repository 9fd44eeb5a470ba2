#include <algorithm>
#include <map>
#include <string>

#include <etna/device/internal/counting.h>
#include <etna/device/kernel_counts.h>
#include <etna/tensor/internal/overrides.h>

#include "training.h"

namespace etna {
namespace {

using testing::IsEmpty;

/// Launches of each op's kernels on a device, of copies and fills none.
std::map<std::string, std::uint64_t> launches_of(const KernelCounts& counts, Device device) {
  std::map<std::string, std::uint64_t> launches;
  for (const KernelCount& k : counts.kernels)
    if (k.device == device && k.kernel != "copy" && k.kernel != "fill" && k.kernel != "update")
      launches[k.op] += k.launches;
  return launches;
}

std::uint64_t sum_of(const std::map<std::string, std::uint64_t>& launches) {
  std::uint64_t sum = 0;
  for (const auto& [op, count] : launches) sum += count;
  return sum;
}

/// Runs of kernels, of copies and fills none.
std::uint64_t dispatches_of(const KernelCounts& counts, Device device) {
  std::uint64_t sum = 0;
  for (const KernelCount& k : counts.kernels)
    if (k.device == device && k.kernel != "copy" && k.kernel != "fill" && k.kernel != "update") sum += k.runs();
  return sum;
}

std::uint64_t runs_of(const KernelCounts& counts, Detour detour, const std::string& op) {
  for (const DetourCount& d : counts.detours)
    if (d.detour == detour && d.op == op) return d.runs();
  return 0;
}

class KernelCounting : public OnDevice {
 protected:
  Tensor ones(Shape shape) const { return etna::ones(shape, {f32, device()}); }
};
ETNA_ON_BOTH_DEVICES(KernelCounting);

TEST_P(KernelCounting, CountsEveryRunOfASmallProgram) {
  const Tensor a = ones({33, 17}), b = ones({17, 19});
  exp(a).to_vector<float>();
  CountKernels counting;
  EXPECT_THAT(counting.counts().kernels, IsEmpty()) << "what ran before";
  for (int i = 0; i < 3; ++i) {
    exp(a);
    matmul(a, b);
  }
  const KernelCounts counts = counting.counts();
  const auto launches = launches_of(counts, device());
  EXPECT_EQ(launches.at("exp"), 3u);
  EXPECT_GE(launches.at("matmul"), 3u);
  EXPECT_EQ(launches.size(), 2u);
  EXPECT_EQ(counts.replays, 0u);
  EXPECT_THAT(counts.detours, IsEmpty());
  for (const KernelCount& k : counts.kernels) {
    EXPECT_FALSE(k.path.empty()) << k.kernel;
    EXPECT_EQ(k.replayed, 0u) << k.kernel;
    EXPECT_EQ(k.launches, k.eager) << k.kernel;
  }
  if (device().is_cpu()) {
    const auto gemm = std::find_if(counts.kernels.begin(), counts.kernels.end(),
                                   [](const KernelCount& k) { return k.kernel == "gemm f32"; });
    ASSERT_NE(gemm, counts.kernels.end()) << "the library that multiplied";
    EXPECT_EQ(gemm->eager, 3u);
    EXPECT_EQ(gemm->op, "matmul");
  }
}

TEST_P(KernelCounting, AgreesWithTheQueueEagerAndCaptured) {
  if (device().is_cpu()) GTEST_SKIP() << "the CPU has no queue";
  for (const bool captured : {false, true}) {
    Training training(device());
    auto step = capture([&](const Tensor& x, const Tensor& y) { return training.step(x, y); }, {.device = device()});
    CountKernels counting;
    const std::uint64_t before = gpu::queue_stats(device()).dispatches;
    for (int i = 0; i < 5; ++i) {
      const auto [x, y] = Training::batch(i);
      if (captured)
        step(x, y);
      else
        training.step(x.to(device()), y.to(device()));
    }
    const KernelCounts counts = counting.counts();
    EXPECT_EQ(dispatches_of(counts, device()), gpu::queue_stats(device()).dispatches - before) << captured;
    EXPECT_EQ(counts.replays, captured ? 4u : 0u) << "the second call captures and runs";
  }
}

TEST_P(KernelCounting, CapturedStepsLaunchWhatEagerOnesDo) {
  const Tensor w = ones({17, 17});
  const auto work = [&](const Tensor& x) {
    const Tensor y = exp(x);
    return matmul(y, w) * y;
  };
  const Tensor x = ones({33, 17});
  constexpr int kSteps = 5;
  std::map<std::string, std::uint64_t> eager;
  {
    CountKernels counting;
    for (int i = 0; i < kSteps; ++i) work(x).to_vector<float>();
    eager = launches_of(counting.counts(), device());
  }
  auto step = capture(work, {.device = device()});
  CountKernels counting;
  for (int i = 0; i < kSteps; ++i) step(x).to_vector<float>();
  const KernelCounts counts = counting.counts();
  EXPECT_EQ(sum_of(launches_of(counts, device())), sum_of(eager));
  if (device().is_cpu()) {
    EXPECT_EQ(launches_of(counts, device()), eager);
  }
  std::uint64_t replayed = 0;
  for (const KernelCount& k : counts.kernels) replayed += k.replayed;
  EXPECT_GT(replayed, 0u);
  // On the CPU ops run while they are captured; on a GPU the step runs once it is captured.
  EXPECT_EQ(counts.replays, device().is_cpu() ? 3u : 4u);
}

TEST_P(KernelCounting, ReplaysCountTheirReferencesAgain) {
  const Tensor x = ones({3, 8});
  auto step = capture(
      [](const Tensor& in) {
        const Override compose(&Overrides::compose_ops, true);
        return softmax(in, 1);
      },
      {.device = device()});
  CountKernels counting;
  for (int i = 0; i < 6; ++i) step(x);
  EXPECT_EQ(runs_of(counting.counts(), Detour::reference, "softmax"), 6u);
}

TEST_P(KernelCounting, NamesFallbacksToTheCpu) {
  if (device().is_cpu()) GTEST_SKIP() << "the CPU falls back to nothing";
  const bool before = strict();
  set_strict(false);
  CountKernels counting;
  linalg::eigh(eye(4, 4, {f32, device()}));
  set_strict(before);
  const KernelCounts counts = counting.counts();
  EXPECT_EQ(runs_of(counts, Detour::fallback, "eigh"), 1u);
  EXPECT_EQ(launches_of(counts, kCPU).at("eigh"), 1u) << "it ran there";
}

TEST(KernelPaths, SayWhatAShaderDeclares) {
  constexpr std::uint32_t kCapability = 2u << 16 | 17;
  std::vector<std::uint32_t> words{0x07230203, 0x10600, 0, 100, 0, kCapability, 1};
  EXPECT_EQ(counting::path_of(words), "SPIR-V");
  words.insert(words.end(), {kCapability, 6022});
  EXPECT_EQ(counting::path_of(words), "SPIR-V, cooperative matrix");
  words[7] = 17;  // an instruction without a length
  EXPECT_EQ(counting::path_of(words), "SPIR-V");
  EXPECT_EQ(counting::path_of(std::span<const std::uint32_t>()), "SPIR-V");
}

TEST(KernelCountsBetween, TwoTakesAreTheirDifference) {
  const Tensor x = ones({4});
  CountKernels counting;
  exp(x);
  const KernelCounts first = counting.counts();
  exp(x);
  log(x);
  const KernelCounts since = difference(counting.counts(), first);
  EXPECT_EQ(launches_of(since, kCPU), (std::map<std::string, std::uint64_t>{{"exp", 1}, {"log", 1}}));
  EXPECT_THAT(difference(first, first).kernels, IsEmpty());
}

}  // namespace
}  // namespace etna
