#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/internal/overrides.h>

#include "runner/run_tests.h"
#include "training.h"

namespace etna {
namespace {

constexpr std::int64_t kTrainingSteps = 20;

class CapturedTraining : public OnDevice {};
ETNA_ON_BOTH_DEVICES(CapturedTraining);

/// Losses of 20 steps and the parameters after them.
struct Course {
  std::vector<float> losses, parameters;
};

Course eager_course(Device device) {
  Training t(device);
  Course course;
  for (std::int64_t i = 0; i < kTrainingSteps; ++i) {
    auto [x, y] = Training::batch(i);
    course.losses.push_back(t.step(x.to(device), y.to(device)).item());
  }
  course.parameters = values_of(t.parameters);
  return course;
}

TEST_P(CapturedTraining, GivesTheBitsOfEagerTraining) {
  Course eager = eager_course(device());

  Training t(device());
  auto step = capture([&](const Tensor& x, const Tensor& y) { return t.step(x, y); }, {.device = device()});
  Course captured;
  for (std::int64_t i = 0; i < kTrainingSteps; ++i) {
    auto [x, y] = Training::batch(i);
    captured.losses.push_back(step(x, y).item());
  }
  captured.parameters = values_of(t.parameters);

  EXPECT_EQ(step.captures(), 1);
  EXPECT_EQ(step.replays(), kTrainingSteps - 2);
  EXPECT_EQ(t.schedule.current_step(), kTrainingSteps);
  EXPECT_EQ(t.optimizer.state_dict().at("0.step").item(), kTrainingSteps);
  EXPECT_EQ(captured.losses, eager.losses);
  EXPECT_TRUE(same_bits(captured.parameters, eager.parameters));
}

TEST_P(CapturedTraining, GivesTheBitsOfEagerTrainingInMixedPrecision) {
  for (DType precision : device().is_cpu() ? std::vector{f16, bf16} : thinned<DType>({f16, bf16})) {
    auto course = [&](bool captured) {
      Training t(device());
      // A scale so large that steps are skipped at first, captured ones too, and not all of them.
      optim::GradScaler scaler({.init_scale = 0x1p24, .growth_interval = 4, .enabled = precision == f16});
      auto train = [&](const Tensor& x, const Tensor& y) {
        Tensor loss;
        {
          auto mixed = autocast(precision);
          loss = t.model.loss(x, y);
        }
        scaler.scale(loss).backward();
        scaler.step(t.optimizer);
        scaler.update();
        t.schedule.step();
        t.optimizer.zero_grad();
        return loss;
      };
      auto step = capture(train, {.device = device()});
      Course c;
      for (std::int64_t i = 0; i < kTrainingSteps; ++i) {
        auto [x, y] = Training::batch(i % 3);  // each several times: there is something to learn
        c.losses.push_back((captured ? step(x, y) : train(x.to(device()), y.to(device()))).item());
      }
      EXPECT_EQ(step.replays(), captured ? kTrainingSteps - 2 : 0);
      if (precision == f16) {
        EXPECT_LT(scaler.get_scale(), 0x1p24);
        const double steps = t.optimizer.state_dict().at("0.step").item();
        EXPECT_LT(steps, kTrainingSteps);
        EXPECT_GT(steps, kTrainingSteps / 2);
      }
      c.parameters = values_of(t.parameters);
      return c;
    };
    Course eager = course(false), captured = course(true);
    EXPECT_EQ(captured.losses, eager.losses);
    EXPECT_TRUE(same_bits(captured.parameters, eager.parameters));
    EXPECT_LT(captured.losses.back(), 0.95 * captured.losses.front());
  }
}

TEST_P(CapturedTraining, MovesTheBatchAndNothingElse) {
  Training t(device());
  auto step = capture([&](const Tensor& x, const Tensor& y) { return t.step(x, y); }, {.device = device()});
  const std::uint64_t batch_bytes = 2 * Training::kBatch * Training::kSeq * sizeof(std::int32_t);
  Tensor loss;
  Transfers before;
  std::uint64_t misses = 0;
  for (std::int64_t i = 0; i < kTrainingSteps; ++i) {
    auto [x, y] = Training::batch(i);
    before = transfers();
    if (i == 3) misses = memory_stats(device()).misses;
    loss = step(x, y);
    Transfers after = transfers();
    const std::uint64_t up = after.h2d_bytes - before.h2d_bytes;
    EXPECT_EQ(up, device().is_cpu() ? 0 : batch_bytes) << "step " << i;
    EXPECT_EQ(after.d2h_bytes - before.d2h_bytes, 0u) << "step " << i;
    EXPECT_EQ(after.moved_tensors + after.fallbacks, before.moved_tensors + before.fallbacks) << "step " << i;
  }
  EXPECT_EQ(memory_stats(device()).misses, misses) << "allocations from the system after step 3";
  EXPECT_GT(loss.item(), 0.0f);
}

TEST_P(CapturedTraining, EagerStepsMoveTheBatchAndNothingElseToo) {
  Training t(device());
  const std::uint64_t batch_bytes = 2 * Training::kBatch * Training::kSeq * sizeof(std::int32_t);
  std::uint64_t misses = 0;
  for (std::int64_t i = 0; i < kTrainingSteps; ++i) {
    auto [x, y] = Training::batch(i);
    Transfers before = transfers();
    if (i == 3) misses = memory_stats(device()).misses;
    t.step(x.to(device()), y.to(device()));
    Transfers after = transfers();
    EXPECT_EQ(after.h2d_bytes - before.h2d_bytes, device().is_cpu() ? 0 : batch_bytes) << "step " << i;
    EXPECT_EQ(after.d2h_bytes - before.d2h_bytes, 0u) << "step " << i;
  }
  EXPECT_EQ(memory_stats(device()).misses, misses) << "allocations from the system after step 3";
}

TEST_P(CapturedTraining, AllocatesNothingAtAReplay) {
  Training t(device());
  auto step = capture([&](const Tensor& x, const Tensor& y) { return t.step(x, y); }, {.device = device()});
  auto [x, y] = Training::batch(0);
  step(x, y);
  step(x, y);
  MemoryStats before = memory_stats(device());
  for (int i = 0; i < 5; ++i) step(x, y);
  MemoryStats after = memory_stats(device());
  EXPECT_EQ(after.hits, before.hits);
  EXPECT_EQ(after.misses, before.misses);
  EXPECT_EQ(after.in_use, before.in_use);
}

TEST_P(CapturedTraining, PlansLessMemoryThanTheResultsTogether) {
  const Override one_by_one(&Overrides::fuse_calls, false);  // fusion leaves out results that the plan would share
  Training t(device());
  auto step = capture([&](const Tensor& x, const Tensor& y) { return t.step(x, y); }, {.device = device()});
  auto [x, y] = Training::batch(0);
  step(x, y);
  EXPECT_FALSE(step.captured());
  EXPECT_THROW(step.report(), CaptureError);
  step(x, y);
  const CaptureReport& r = step.report();
  EXPECT_GE(r.planned_bytes, r.live_bytes);
  EXPECT_LE(static_cast<double>(r.planned_bytes), 1.1 * static_cast<double>(r.live_bytes));
  EXPECT_LT(r.planned_bytes, r.naive_bytes / 2);
  EXPECT_EQ(r.input_bytes, 2 * Training::kBatch * Training::kSeq * sizeof(std::int32_t));
  EXPECT_THAT(r.str(), testing::HasSubstr("planned"));
  if (device().is_cpu()) return;
  EXPECT_LT(r.barriers - 1, r.barriers_in_order);  // barriers_in_order excludes the barrier before the first command
  EXPECT_LT(r.barriers_in_order, r.commands);
  EXPECT_GT(r.state_bytes, 0u);
}

TEST_P(CapturedTraining, EagerStepsGoOnWhereReplaysStopped) {
  Course eager = eager_course(device());
  Training t(device());
  std::vector<float> losses;
  auto step = capture([&](const Tensor& x, const Tensor& y) { return t.step(x, y); }, {.device = device()});
  for (std::int64_t i = 0; i < kTrainingSteps; ++i) {
    auto [x, y] = Training::batch(i);
    // Two eager steps in the middle of the replays.
    Tensor loss = i == 7 || i == 8 ? t.step(x.to(device()), y.to(device())) : step(x, y);
    losses.push_back(loss.item());
  }
  EXPECT_EQ(losses, eager.losses);
  EXPECT_EQ(step.captures(), 1);
  EXPECT_TRUE(same_bits(values_of(t.parameters), eager.parameters));
}

TEST_P(CapturedTraining, ParametersMayBeSavedLoadedAndPrintedBetweenReplays) {
  Training t(device());
  auto step = capture([&](const Tensor& x, const Tensor& y) { return t.step(x, y); }, {.device = device()});
  auto [x, y] = Training::batch(0);
  for (int i = 0; i < 3; ++i) step(x, y);
  std::map<std::string, Tensor> saved;
  for (const auto& [name, p] : t.model.state_dict()) saved[name] = p.detach().clone();
  EXPECT_FALSE(t.parameters[0].str().empty());
  step(x, y);
  std::vector<float> moved = values_of(t.parameters);
  t.model.load_state_dict(saved);
  EXPECT_FALSE(same_bits(moved, values_of(t.parameters)));
  t.model.eval();
  const float loaded = t.model.loss(x.to(device()), y.to(device())).item();
  t.model.train();
  const float replayed = step(x, y).item();
  EXPECT_EQ(step.captures(), 1);
  EXPECT_NEAR(replayed, loaded, 1.0f);  // the weights are the same; the dropout masks are not
}

}  // namespace
}  // namespace etna
