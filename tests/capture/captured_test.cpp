#include <etna/device/internal/log.h>
#include <etna/device/internal/vulkan/api/injection.h>

#include "training.h"

namespace etna {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Capture : public OnDevice {
 protected:
  Tensor ones(Shape shape) const { return etna::ones(shape, {f32, device()}); }

  template <typename E, typename F>
  static std::string message_of(F&& f) {
    try {
      f();
    } catch (const E& error) {
      return error.what();
    }
    return "nothing of the expected type was thrown";
  }

  /// Runs `f` until it is captured, and returns the message of what that throws.
  template <typename F>
  std::string error_of(F&& f) {
    Tensor x = ones({4});
    auto step = capture(f, {.device = device()});
    step(x);
    return message_of<CaptureError>([&] { step(x); });
  }

  /// Checks that a capture works: eager, captured, replayed.
  void expect_usable() {
    auto step = capture([](const Tensor& x) { return exp(x) + x; }, {.device = device()});
    for (float value : {0.0f, 0.0f, 0.0f, 1.0f}) {
      Tensor x = full({3}, value);
      EXPECT_FLOAT_EQ(step(x).sum().item(), 3 * (std::exp(value) + value));
    }
    EXPECT_EQ(step.replays(), 2);
  }
};
ETNA_ON_BOTH_DEVICES(Capture);

TEST_P(Capture, ReplaysWithNewArguments) {
  std::int64_t calls = 0;
  auto step = capture([&](const Tensor& a, const Tensor& b) { return ++calls, a * b + a; }, {.device = device()});
  for (int i = 0; i < 6; ++i) {
    Tensor a = full({2, 3}, i), b = full({3}, i + 1);
    EXPECT_EQ(step(a, b).to_vector<float>(), std::vector<float>(6, static_cast<float>(i * (i + 1) + i))) << i;
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(step.captures(), 1);
  EXPECT_EQ(step.replays(), 4);
}

TEST_P(Capture, SharesMemoryAmongShapes) {
  // A sum that needs two large intermediate results at once.
  auto step = capture(
      [](const Tensor& x) {
        const Tensor wide = x.expand({512, x.size(1)}).contiguous();
        return matmul(wide, wide.t()).sum();
      },
      {.device = device(), .varied_shapes = true});
  const auto value = [&](std::int64_t n) { return step(etna::ones({1, n})).item(); };
  const auto captured = [&] {
    return memory_stats(device()).by_use[static_cast<std::size_t>(MemoryUse::captured_steps)];
  };
  value(256), value(256);
  const std::uint64_t one = captured();
  for (const std::int64_t n : {16, 64, 128}) EXPECT_FLOAT_EQ(value(n), static_cast<float>(n << 18));
  EXPECT_EQ(step.captures(), 4);
  EXPECT_GT(one, std::uint64_t{1} << 20);
  EXPECT_LT(captured(), one + (std::uint64_t{1} << 18));
  for (const std::int64_t n : {256, 16, 128, 64}) EXPECT_FLOAT_EQ(value(n), static_cast<float>(n << 18));
  EXPECT_EQ(step.replays(), 4);
}

TEST_P(Capture, PutsIndependentCommandsBehindOneBarrier) {
  auto step = capture([](const Tensor& x) { return (x * 2.0 + 1.0) + (x * 3.0 + 1.0); }, {.device = device()});
  Tensor x = full({3}, 1.0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(x).to_vector<float>(), std::vector<float>(3, 7));
  if (device().is_cpu()) return;
  // In the order of the calls both chains would alternate with barriers; running concurrently they share them. One more
  // barrier comes before the first command.
  EXPECT_LT(step.report().barriers - 1, step.report().barriers_in_order);
}

TEST_P(Capture, RunsCommandsOneByOneWhereAskedTo) {
  auto step = capture([](const Tensor& x) { return (x * 2.0 + 1.0) + (x * 3.0 + 1.0); },
                      {.device = device(), .one_by_one = true});
  Tensor x = full({3}, 1.0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(x).to_vector<float>(), std::vector<float>(3, 7));
  EXPECT_EQ(step.report().groups, step.report().commands);
  if (device().is_cpu()) return;
  EXPECT_EQ(step.report().barriers, step.report().commands);
}

TEST_P(Capture, LearnsItsDeviceFromACapturedFunctionWithin) {
  auto inner = capture([&](const Tensor& x) { return x * 2.0; });
  Tensor x = ones({3});
  for (int i = 0; i < 3; ++i) inner(x);  // replays from now on
  auto outer = capture([&](const Tensor& y) { return inner(y); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outer(x).to_vector<float>(), std::vector<float>(3, 2));
  EXPECT_EQ(outer.report().device, device());
}

TEST_P(Capture, TakesArgumentsFromTheHostFromTheDeviceAndStrided) {
  auto step = capture([](const Tensor& x) { return x * 2.0; }, {.device = device()});
  Tensor host = arange(0, 6, 1, {f32}).reshape({2, 3});
  for (int i = 0; i < 2; ++i) step(host);
  EXPECT_EQ(step(host).to_vector<float>(), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(step(host.to(device())).to_vector<float>(), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  Tensor strided = arange(0, 6, 1, {f32}).reshape({3, 2}).t();
  EXPECT_EQ(step(strided).to_vector<float>(), (std::vector<float>{0, 4, 8, 2, 6, 10}));
  EXPECT_EQ(step(strided.to(device())).to_vector<float>(), (std::vector<float>{0, 4, 8, 2, 6, 10}));
  EXPECT_EQ(step.replays(), 4);
}

TEST_P(Capture, TakesNoArgumentsAndReturnsNothing) {
  Tensor counter = ones({2});
  auto step = capture([&] { counter.add_(ones({2})); });
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(counter.to_vector<float>(), (std::vector<float>{6, 6}));
  EXPECT_EQ(step.replays(), 3);
  EXPECT_EQ(step.report().device, device());  // learned from the eager call
}

TEST_P(Capture, ReturnsSeveralTensors) {
  auto step = capture([](const Tensor& x) { return std::vector<Tensor>{x + 1.0, x * 3.0}; }, {.device = device()});
  for (float value : {1.0f, 2.0f, 5.0f, 7.0f}) {
    std::vector<Tensor> y = step(full({2}, value));
    ASSERT_EQ(y.size(), 2u);
    EXPECT_EQ(y[0].to_vector<float>(), std::vector<float>(2, value + 1));
    EXPECT_EQ(y[1].to_vector<float>(), std::vector<float>(2, value * 3));
  }
}

TEST_P(Capture, ServesInferenceWithoutATape) {
  Training t(device());
  t.model.eval();
  NoGrad off;
  auto logits = capture([&](const Tensor& x) { return t.model(x); }, {.device = device()});
  for (std::int64_t i = 0; i < 4; ++i) {
    Tensor x = Training::batch(i).first;
    EXPECT_TRUE(same_bits(values_of({logits(x)}), values_of({t.model(x.to(device()))}))) << i;
  }
  EXPECT_EQ(logits.replays(), 2);
  EXPECT_EQ(logits.report().kept_bytes, Training::kBatch * Training::kSeq * Training::kVocab * sizeof(float));
}

TEST_P(Capture, AShapeChangeCapturesAgainAndBothCapturesStay) {
  auto step = capture([](const Tensor& x) { return x.sum() * 2.0; }, {.device = device(), .name = "doubling"});
  const auto level = log().level();
  log().set_level(LogLevel::warning);  // whatever ETNA_LOG says
  testing::internal::CaptureStderr();
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t n : {4, 4, 7, 7}) EXPECT_EQ(step(etna::ones({n})).item(), 2.0f * static_cast<float>(n));
  }
  std::string said = testing::internal::GetCapturedStderr();
  log().set_level(level);
  EXPECT_EQ(step.captures(), 2);
  EXPECT_EQ(step.replays(), 12 - 3);
  EXPECT_THAT(said, AllOf(HasSubstr("'doubling'"), HasSubstr("argument 0 is [7] f32 now, was [4] f32")));
}

TEST_P(Capture, ExpectedShapesAreCapturedWithoutAWord) {
  auto step = capture([](const Tensor& x) { return x.sum() * 2.0; }, {.device = device(), .varied_shapes = true});
  testing::internal::CaptureStderr();
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t n : {4, 7, 9}) EXPECT_EQ(step(etna::ones({n})).item(), 2.0f * static_cast<float>(n));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(step.captures(), 3);
}

TEST_P(Capture, OneForTrainingAndOneForEvaluationStandSideBySide) {
  Training t(device()), plain(device());
  auto train = capture([&](const Tensor& x, const Tensor& y) { return t.step(x, y); }, {.device = device()});
  auto evaluate = capture(
      [&](const Tensor& x, const Tensor& y) {
        NoGrad off;
        return t.model.loss(x, y);
      },
      {.device = device()});
  for (std::int64_t i = 0; i < 5; ++i) {
    auto [x, y] = Training::batch(i);
    const auto seed = static_cast<std::uint64_t>(i);
    manual_seed(seed);  // the same masks in both
    plain.step(x.to(device()), y.to(device()));
    manual_seed(seed);
    train(x, y);
    plain.model.eval();
    t.model.eval();
    NoGrad off;
    EXPECT_EQ(evaluate(x, y).item(), plain.model.loss(x.to(device()), y.to(device())).item()) << i;
    plain.model.train();
    t.model.train();
  }
  EXPECT_EQ(train.replays(), 3);
  EXPECT_EQ(evaluate.replays(), 3);
}

TEST_P(Capture, GradientsAreThereBehindEveryReplay) {
  Tensor w = full({3}, 2.0, {f32, device()}).requires_grad_();
  auto step = capture([&](const Tensor& x) { (w * x).sum().backward(); }, {.device = device()});
  for (float value : {1.0f, 2.0f, 3.0f, 4.0f}) {
    w.set_grad({});
    step(full({3}, value));
    ASSERT_TRUE(w.grad().defined());
    EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(3, value));
  }
  EXPECT_EQ(step.captures(), 1);
}

TEST_P(Capture, GradientsThatGatherOverCallsGatherOverReplays) {
  Tensor w = full({3}, 2.0, {f32, device()}).requires_grad_();
  auto step = capture([&](const Tensor& x) { (w * x).sum().backward(); }, {.device = device()});
  for (int i = 0; i < 5; ++i) step(etna::ones({3}));
  EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(3, 5.0f));
  // Dropped between two calls, a gradient must not be added to the old one.
  w.set_grad({});
  step(etna::ones({3}));
  EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(3, 1.0f));
  EXPECT_EQ(step.captures(), 2);
}

TEST_P(Capture, DropsWhatWasReplacedAndCapturesAgain) {
  nn::Linear layer(3, 2);
  layer.to(device());
  auto step = capture([&](const Tensor& x) { return layer(x).sum(); });
  Tensor x = ones({2, 3});
  NoGrad off;
  for (int i = 0; i < 3; ++i) step(x);
  EXPECT_EQ(step.captures(), 1);
  layer.to(bf16);  // replaces the storage behind the same handles
  layer.to(f32);
  layer.weight.fill_(1);
  layer.bias.fill_(0);
  EXPECT_EQ(step(x).item(), 12.0f);
  EXPECT_EQ(step(x).item(), 12.0f);
  EXPECT_EQ(step(x).item(), 12.0f);
  EXPECT_EQ(step.captures(), 2);
}

TEST_P(Capture, NoticesAModelThatMovedToAnotherDevice) {
  nn::Linear layer(3, 2);
  layer.to(device());
  NoGrad off;
  layer.weight.fill_(1);
  layer.bias.fill_(0);
  auto step = capture([&] { return layer(etna::ones({2, 3}, {f32, layer.weight.device()})).sum(); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step().item(), 12.0f);
  layer.to(kCPU);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step().item(), 12.0f);
  EXPECT_TRUE(step.report().device.is_cpu());
}

TEST_P(Capture, RandomNumbersGoOnFromReplayToReplay) {
  auto draw = [&](std::vector<float>& all, auto&& next) {
    manual_seed(9);
    for (int i = 0; i < 5; ++i) {
      std::vector<float> some = next().template to_vector<float>();
      all.insert(all.end(), some.begin(), some.end());
    }
  };
  auto make = [&] { return randn({8}, {f32, device()}) + dropout(ones({8}), 0.5, true); };
  std::vector<float> eager, replayed;
  draw(eager, make);
  auto step = capture(make);
  draw(replayed, step);
  EXPECT_EQ(eager, replayed);
  EXPECT_EQ(step.replays(), 3);
}

TEST_P(Capture, CheckpointedPartsRepeatTheirMasksAtReplays) {
  auto course = [&](bool captured) {
    manual_seed(4);
    Tensor w = full({16}, 0.5, {f32, device()}).requires_grad_();
    auto body = [&](const Tensor& x) {
      Tensor y = autograd::checkpoint(
          [&](const TensorList& in) { return TensorList{dropout(in[0] * in[1], 0.5, true)}; }, {x, w})[0];
      (y * y).sum().backward();
      w.detach().add_(w.grad(), -0.01);
      w.set_grad({});
    };
    auto step = capture(body, {.device = device()});
    for (int i = 0; i < 5; ++i) captured ? step(ones({16})) : body(ones({16}));
    return w.detach().to_vector<float>();
  };
  EXPECT_EQ(course(false), course(true));
}

TEST_P(Capture, HostWorkRunsOncePerCallAndInOrder) {
  std::vector<int> order;
  auto step = capture(
      [&](const Tensor& x) {
        each_step([&] { order.push_back(1); });
        Tensor y = x + 1.0;
        each_step([&] { order.push_back(2); });
        return y;
      },
      {.device = device()});
  for (int i = 0; i < 3; ++i) step(ones({2}));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2, 1, 2}));
}

TEST_P(Capture, ACallWithinAnotherCapturedStepIsPartOfIt) {
  auto inner = capture([](const Tensor& x) { return x * 3.0; }, {.device = device()});
  auto outer = capture([&](const Tensor& x) { return inner(x) + 1.0; }, {.device = device()});
  for (float value : {1.0f, 2.0f, 3.0f}) EXPECT_EQ(outer(full({1}, value)).item(), value * 3 + 1);
  EXPECT_EQ(inner.captures(), 0);
  EXPECT_EQ(outer.replays(), 1);
}

TEST_P(Capture, ResetForgetsAndGivesMemoryBack) {
  Tensor x = ones({1 << 16});
  auto step = capture([](const Tensor& in) { return (exp(in) * in).sum(); }, {.device = device()});
  const std::uint64_t before = memory_stats(device()).in_use;
  for (int i = 0; i < 3; ++i) step(x);
  EXPECT_GT(memory_stats(device()).in_use, before);
  step.reset();
  EXPECT_EQ(memory_stats(device()).in_use, before);
  EXPECT_FALSE(step.captured());
  for (int i = 0; i < 3; ++i) step(x);
  EXPECT_EQ(step.captures(), 2);
}

// ---- what cannot be replayed

TEST_P(Capture, ReadingAValueIsRefused) {
  EXPECT_THAT(error_of([](const Tensor& x) { x.sum().item(); }),
              AllOf(HasSubstr("item"), HasSubstr("read on the host")));
  EXPECT_THAT(error_of([](const Tensor& x) { x.to_vector<float>(); }), HasSubstr("to_vector"));
  EXPECT_THAT(error_of([](const Tensor& x) { x.str(); }), HasSubstr("str"));
  EXPECT_THAT(error_of([](const Tensor& x) { read_later(x.sum()); }), HasSubstr("read_later"));
  if (device().is_cpu()) {
    EXPECT_THAT(error_of([](const Tensor& x) { x.data<float>(); }), HasSubstr("data"));
  }
  expect_usable();
}

TEST_P(Capture, BringingValuesFromTheHostIsRefused) {
  EXPECT_THAT(error_of([&](const Tensor& x) {
                x + from_vector<float>({1, 2, 3, 4}, device());
              }),
              AllOf(HasSubstr("from_bytes"), HasSubstr("from the host")));
  expect_usable();
}

TEST_P(Capture, AnotherDeviceIsRefused) {
  if (device().is_cpu()) return;
  EXPECT_THAT(error_of([](const Tensor& x) { x.to(kCPU); }), AllOf(HasSubstr("to:"), HasSubstr("another device")));
  EXPECT_THAT(error_of([](const Tensor&) { zeros({3}); }), AllOf(HasSubstr("cpu"), HasSubstr("no plan covers")));
  Tensor host = etna::ones({4});
  EXPECT_THAT(error_of([&](const Tensor&) { exp(host); }), AllOf(HasSubstr("exp"), HasSubstr("[4] is on cpu")));
  expect_usable();
}

TEST_P(Capture, ArgumentsThatRequireGradAreRefused) {
  auto step = capture([](const Tensor& x) { return x + 1.0; }, {.device = device()});
  Tensor x = ones({2}).requires_grad_();
  EXPECT_THAT(message_of<CaptureError>([&] { step(x); }),
              AllOf(HasSubstr("argument 0 [2]"), HasSubstr("requires grad")));
  EXPECT_THAT(message_of<CaptureError>([&] { step(Tensor()); }), HasSubstr("undefined"));
}

TEST_P(Capture, AFailingOpLeavesEverythingUsable) {
  Tensor w = full({4}, 1.0, {f32, device()}).requires_grad_();
  bool fail = false;
  auto step = capture(
      [&](const Tensor& x) {
        (w * x).sum().backward();
        if (fail) matmul(x.reshape({2, 2}), x.reshape({1, 4}));
        return w.grad().sum();
      },
      {.device = device()});
  step(ones({4}));
  w.set_grad({});
  fail = true;
  EXPECT_THAT(message_of<ShapeError>([&] { step(ones({4})); }), HasSubstr("matmul"));
  EXPECT_FALSE(capturing());
  EXPECT_FALSE(step.captured());
  // A gradient made before the failure never existed on a GPU; it must not be taken for a real one.
  if (!device().is_cpu()) {
    EXPECT_FALSE(w.grad().defined());
  }
  w.set_grad({});
  fail = false;
  EXPECT_EQ(step(ones({4})).item(), 4.0f);
  w.set_grad({});
  EXPECT_EQ(step(ones({4})).item(), 4.0f);
  EXPECT_EQ(step.captures(), 1);
  EXPECT_EQ(step.replays(), 1);
  expect_usable();
}

TEST_P(Capture, ATensorOfAFailedCaptureSaysSo) {
  if (device().is_cpu()) return;
  Tensor kept;
  error_of([&](const Tensor& x) {
    kept = x * 2.0;
    kept.sum().item();
  });
  EXPECT_THAT(message_of<CaptureError>([&] { exp(kept); }), AllOf(HasSubstr("exp"), HasSubstr("capture that failed")));
  expect_usable();
}

TEST_P(Capture, AnExhaustedHeapLeavesEverythingUsable) {
  constexpr std::int64_t kElements = 9 << 20;  // each result gets its own allocation
  Tensor w = full({kElements}, 1.0, {f32, device()}).requires_grad_();
  auto step = capture(
      [&](const Tensor& x) {
        Tensor a = w * x, b = a * 2.0, c = b * 3.0, d = c * 4.0;
        (a + b + c + d).sum().backward();
        return w.grad().mean();
      },
      {.device = device()});
  Tensor x = ones({1});
  step(x);
  w.set_grad({});
  empty_cache(device());
  setenv("ETNA_MEMORY_LIMIT", std::to_string(memory_stats(device()).reserved() + (20 << 20)).c_str(), 1);
  EXPECT_THROW(step(x), OutOfMemory);
  unsetenv("ETNA_MEMORY_LIMIT");
  EXPECT_FALSE(step.captured());
  w.set_grad({});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FLOAT_EQ(step(x).item(), 33.0f);
    w.set_grad({});
  }
  EXPECT_EQ(step.captures(), 1);
  expect_usable();
}

TEST_P(Capture, ALostDeviceLeavesTheNextCaptureUsable) {
  if (device().is_cpu()) return;
  constexpr int kDeviceLost = -4;
  auto step = capture([](const Tensor& x) { return x * 2.0; }, {.device = device()});
  for (int i = 0; i < 3; ++i) step(etna::ones({3}));
  synchronize(device());
  vulkan::injection::fail_next_submit(kDeviceLost);
  EXPECT_THAT(message_of<DeviceLost>([&] { step(etna::ones({3})); }), HasSubstr("captured step"));
  EXPECT_THROW(step(etna::ones({3})), DeviceLost);
  auto another = capture([](const Tensor& x) { return x + 1.0; }, {.device = device()});
  EXPECT_THROW(another(etna::ones({3})), DeviceLost);
  vulkan::injection::revive(device());
  EXPECT_EQ(step(etna::ones({3})).sum().item(), 6.0f);
  // The device is lost when the capture runs for the first time.
  auto late = capture([](const Tensor& x) { return x + 5.0; }, {.device = device()});
  late(etna::ones({3}));
  synchronize(device());
  vulkan::injection::fail_next_submit(kDeviceLost);
  EXPECT_THROW(
      {
        late(etna::ones({3}));
        synchronize(device());
      },
      DeviceLost);
  vulkan::injection::revive(device());
  EXPECT_EQ(late(etna::ones({3})).sum().item(), 18.0f);
  EXPECT_EQ(late(etna::ones({3})).sum().item(), 18.0f);
  expect_usable();
}

TEST_P(Capture, CanBeTurnedOff) {
  setenv("ETNA_CAPTURE", "0", 1);
  auto step = capture([](const Tensor& x) { return x * 2.0; }, {.device = device()});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step(ones({2})).sum().item(), 4.0f);
  unsetenv("ETNA_CAPTURE");
  EXPECT_FALSE(step.captured());
}

TEST_P(Capture, ARangeIsNewAtEveryReplay) {
  auto step = capture(
      [this] {
        Tensor x = arange(0, 4, 1, {i64, device()});
        x.add_(x);
        return x;
      },
      {.device = device()});
  const std::vector<std::int64_t> wanted = {0, 2, 4, 6};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step().to_vector<std::int64_t>(), wanted) << i;
}

}  // namespace
}  // namespace etna
