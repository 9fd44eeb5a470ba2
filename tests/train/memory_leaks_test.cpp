#include <etna/device/memory_control.h>

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nn/on_device.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/linear.h>
#include <etna/optim/adam.h>
#include <etna/optim/lbfgs.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/train/training_step.h>

namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LeaksOn : public OnDevice {
 protected:
  LeaksOn() { watch_leaks(true); }
  ~LeaksOn() override { watch_leaks(false); }

  /// Trains a layer. @param each gets the loss of every step
  static void train(int steps, const std::function<void(const Tensor& loss)>& each) {
    nn::Linear layer(24, 40);
    layer.to(device());
    optim::AdamW adam(layer.parameters(), {});
    const Tensor x = ones({8, 24}, {f32, device()});
    for (int step = 0; step < steps; ++step) {
      const Tensor loss = relu(layer(x)).square().sum();
      loss.backward();
      adam.step();
      adam.zero_grad();
      each(loss);
    }
  }
};
ETNA_ON_EVERY_DEVICE(LeaksOn);

TEST_P(LeaksOn, AreNoneInAPlainLoop) {
  std::vector<Leak> found;
  Tensor last;
  train(12, [&](const Tensor& loss) {
    last = loss;
    found = leaks();
    EXPECT_THAT(found, IsEmpty()) << leaks_report();
  });
  EXPECT_EQ(leaks_report(), "leaks: no memory outlives its step (12 steps)\n");
}

TEST_P(LeaksOn, NameTheOpOfAListThatGrows) {
  {
    std::vector<Tensor> all;
    train(20, [&](const Tensor& loss) { all.push_back(loss.detach()); });
    const std::vector<Leak> found = leaks();
    ASSERT_EQ(found.size(), 1u) << leaks_report();
    EXPECT_EQ(found[0].device, device());
    EXPECT_EQ(found[0].op, "sum");
    EXPECT_EQ(found[0].tensor, "[] f32");
    EXPECT_EQ(found[0].count, 19u) << "all but the first step's";
    EXPECT_EQ(found[0].bytes, 19u * 4);
    EXPECT_EQ(found[0].first_step, 1);
    EXPECT_EQ(found[0].last_step, 19);
  }
  EXPECT_THAT(leaks(), IsEmpty()) << "the list is gone";
  EXPECT_THAT(leaks_report(), AllOf(HasSubstr("outlived the steps that made them, after step 20 of 20"),
                                    HasSubstr(device().str() + " sum [] f32: 19 storages, 76 B, of steps 1 to 19")));
}

TEST_P(LeaksOn, NameWhatATapeKeeps) {
  Tensor total = zeros({}, {f32, device()});
  train(10, [&](const Tensor& loss) {
    const Tensor x = loss.detach().reshape({1}).requires_grad_();
    total = total + x.exp().expand({500}).exp().sum();
  });
  EXPECT_THAT(leaks_report(), AllOf(HasSubstr("exp [500] f32: 9 storages"), HasSubstr("17.6 KiB")));
}

TEST_P(LeaksOn, ABoundedQueueIsNone) {
  std::vector<Tensor> queue;
  train(40, [&](const Tensor& loss) {
    queue.push_back(loss.detach());
    if (queue.size() > 12) queue.erase(queue.begin());
  });
  EXPECT_THAT(leaks(), IsEmpty()) << leaks_report();
}

TEST_P(LeaksOn, ReplaysOfACapturedStepAreSteps) {
  nn::Linear layer(24, 40);
  layer.to(device());
  optim::AdamW adam(layer.parameters(), {});
  training::TrainingStep step([&](const Tensor& x, const Tensor&) { return layer(x).square().sum(); }, adam,
                              {.device = device()});
  std::vector<Tensor> all;
  const Tensor x = ones({8, 24}, {f32, device()});
  for (int i = 0; i < 20; ++i) all.push_back(step(x, x).clone());
  ASSERT_TRUE(step.report().has_value());
  const std::vector<Leak> found = leaks();
  ASSERT_EQ(found.size(), 1u) << leaks_report();
  EXPECT_EQ(found[0].count, 19u) << "all but the last step's, which was cloned after it";
  EXPECT_EQ(found[0].tensor, "[] f32");
}

TEST_P(LeaksOn, InferenceSaysWhereItsStepsEnd) {
  std::vector<Tensor> all;
  for (int i = 0; i < 10; ++i) {
    all.push_back(empty({100}, {i32, device()}));
    end_step();
  }
  const std::vector<Leak> found = leaks();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tensor, "[100] i32");
  EXPECT_EQ(found[0].count, 9u);
}

TEST_P(LeaksOn, SayWhyThereAreNone) {
  EXPECT_THAT(leaks_report(), HasSubstr("no step has ended"));
  end_step();
  EXPECT_THAT(leaks_report(), HasSubstr("1 steps are too few to tell"));
  watch_leaks(false);
  EXPECT_THAT(leaks_report(), HasSubstr("set ETNA_LEAKS=1"));
  end_step();
  EXPECT_THAT(leaks(), IsEmpty());
}

TEST(Leaks, LbfgsEndsSteps) {
  watch_leaks(true);
  Tensor x = ones({3}).requires_grad_();
  optim::LBFGS optimizer({x}, {.max_iter = 2});
  std::vector<Tensor> all;
  for (int i = 0; i < 12; ++i) {
    optimizer.step([&] {
      optimizer.zero_grad();
      Tensor loss = (x * x * x * x).sum();
      loss.backward();
      return loss;
    });
    all.push_back(ones({77}));
  }
  EXPECT_THAT(leaks_report(), AllOf(HasSubstr("ones [77] f32: 11 storages"), ::testing::Not(HasSubstr("[3]"))));
  watch_leaks(false);
}

}  // namespace
}  // namespace etna
