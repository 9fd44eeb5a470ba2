#include <functional>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include <etna/device/internal/device_queue.h>
#include <etna/device/profile/profiler.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna {
namespace {

/// What tensor/ holds back to fuse it is done before anybody can see a device or memory (device/internal/pending.h).
class HeldBack : public OnDevice {};

template <typename AnyBackend>
constexpr bool kUploads = requires(AnyBackend& b) {
  b.upload(Device(), nullptr, 0, 0);
};
template <typename AnyBackend>
constexpr bool kSynchronizes = requires(AnyBackend& b) {
  b.synchronize(Device());
};
template <typename AnyLauncher>
constexpr bool kFills = requires(AnyLauncher& l, Storage& s) {
  l.fill(Device(), s, 0, 0, 0);
};
template <typename AnyExecutable>
constexpr bool kRuns = requires(AnyExecutable& e) {
  e.run({});
};
static_assert(!kUploads<Backend> && !kSynchronizes<Backend> && !kFills<gpu::Launcher> && !kRuns<Executable>,
              "the queue of a device is reached by way of a DeviceQueue");

TEST_P(HeldBack, IsDoneForWhoeverLooks) {
  const GradMode off(false);
  const Tensor x = full({1}, 1, {f32, device()}), d = full({1}, 2, {f32, device()});
  float one = 1;
  const std::vector<std::pair<const char*, std::function<void(Tensor&)>>> all{
      {"item", [](Tensor& s) { EXPECT_EQ(s.item(), 3); }},
      {"to_vector", [](Tensor& s) { EXPECT_EQ(s.to_vector<float>()[0], 3); }},
      {"read_later", [](Tensor& s) { EXPECT_EQ(read_later(s).get(), 3); }},
      {"to", [](Tensor& s) { EXPECT_EQ(s.to(kCPU).data<float>()[0], 3); }},
      {"fill_", [](Tensor& s) { EXPECT_EQ(s.fill_(5).item(), 5); }},
      {"mul_", [](Tensor& s) { EXPECT_EQ(s.mul_(2).item(), 6); }},
      {"download",
       [&](Tensor& s) {
         download(*s.storage(), 0, &one, 4);
         EXPECT_EQ(one, 3);
       }},
      {"upload", [&](Tensor& s) { upload(&one, *s.storage(), 0, 4); }},
      {"host", [](Tensor& s) { s.device().is_cpu() ? void(s.storage()->host()) : synchronize(s.device()); }},
      {"fill",
       [](Tensor& s) {
         s.device().is_cpu() ? void(s.data<float>()) : gpu::enqueue_fill(s.device(), *s.storage(), 0, 4, 0);
       }},
      {"synchronize", [](Tensor& s) { synchronize(s.device()); }},
      {"memory_stats", [](Tensor& s) { memory_stats(s.device()); }},
      {"reset_peak_memory", [](Tensor& s) { reset_peak_memory(s.device()); }},
      {"empty_cache", [](Tensor& s) { empty_cache(s.device()); }},
      {"queue_stats", [](Tensor& s) { gpu::queue_stats(s.device()); }},
      {"a profile", [](Tensor&) { profile::Session session; }},
      {"an override", [](Tensor&) { const Override scope(&Overrides::subgroups, true); }},
      {"host code in a step", [](Tensor&) { const NotCaptured scope; }},
      {"owners", [](Tensor& s) { EXPECT_EQ(fusion::owners(s), 1); }},
      {"compose",
       [](Tensor& s) {
         const Override scope(&Overrides::compose_ops, true);
         EXPECT_EQ((s + s).item(), 6);
       }},
  };
  synchronize(device());
  for (const auto& [name, look] : all) {
    const fusion::OnCpu on_cpu(device());
    Tensor s = x + d;  // the beginning of a sum and its norm
    ASSERT_NE(detail::pending_work.load(), 0) << name;
    look(s);
    EXPECT_EQ(detail::pending_work.load(), 0) << name;
  }
}

/// A captured step ends with all of its calls.
TEST_P(HeldBack, IsPartOfTheStepThatIsCaptured) {
  const GradMode off(false);
  const Tensor x = full({1}, 1, {f32, device()});
  auto step = capture([&] { return x + x; }, {.device = device()});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step().item(), 2) << "call " << i;
  EXPECT_EQ(step.report().commands, 1);
}

ETNA_ON_EVERY_DEVICE(HeldBack);

}  // namespace
}  // namespace etna
