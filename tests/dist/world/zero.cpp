#include <gtest/gtest.h>

#include <etna/device/memory.h>
#include <etna/dist/dist.h>
#include <etna/dist/sharding.h>
#include <etna/nn/nn.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/optim/grad_scaler.h>
#include <etna/optim/optim.h>
#include <etna/train/training_step.h>

#include "world.h"

namespace etna {
namespace {

using distributed::DataParallel, distributed::rank, distributed::size;
using OptimizerOf = std::function<std::unique_ptr<optim::Optimizer>(const nn::Module&)>;

struct ZeroNet : nn::Module {
  nn::Linear hidden{6, 33}, out{33, 3};
  nn::LayerNorm norm{{33}};
  ZeroNet() { register_module("hidden", hidden), register_module("norm", norm), register_module("out", out); }
  Tensor loss(const Tensor& x, const Tensor& y) const { return cross_entropy(out(relu(norm(hidden(x)))), y); }
};

constexpr std::int64_t kZeroRows = 8;  ///< of the joined batch

/// This rank's part of a batch that all ranks know.
std::pair<Tensor, Tensor> part_of_batch(int step) {
  const auto name = static_cast<std::uint64_t>(700 + step);
  const Tensor x = tensor_of(0, {kZeroRows, 6}, f32, name);
  const Tensor y = cast(tensor_of(0, {kZeroRows}, f32, name + 50) > 0.0, i32);
  const std::int64_t rows = kZeroRows / size(), first = rows * rank();
  return {x.slice(0, first, first + rows).contiguous(), y.slice(0, first, first + rows).contiguous()};
}

template <typename Optimizer, typename Options>
OptimizerOf made(Options options) {
  return [options](const nn::Module& model) { return std::make_unique<Optimizer>(model.parameters(), options); };
}

struct ZeroRun {
  int stage = 0;
  bool captured = false;
  std::int64_t bucket_bytes = 600, accumulation = 1;
  DType precision = f32, travel = f32;
  int steps = 8;
};

struct ZeroResult {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights;
  std::map<std::string, std::vector<double>> state;  ///< rank 0's
  std::uint64_t optimizer_bytes = 0, gradient_bytes = 0;
};

ZeroResult train_by(const OptimizerOf& make, const ZeroRun& run) {
  const BytesByUse before = memory_stats(kCPU).by_use;
  manual_seed(7);
  ZeroNet net;
  DataParallel parallel(net, {.bucket_bytes = run.bucket_bytes, .dtype = run.travel, .zero_stage = run.stage});
  const auto optimizer = make(net);
  optimizer->shard(parallel.sharding());
  training::TrainingStep step(
      [&](const Tensor& x, const Tensor& y) { return net.loss(x, y); }, *optimizer,
      {.precision = run.precision, .captured = run.captured, .accumulation = run.accumulation, .parallel = &parallel});
  ZeroResult result;
  for (int k = 0; k < run.steps; ++k) {
    const auto [x, y] = part_of_batch(k);
    result.losses.push_back(step(x, y).item<double>());
  }
  for (const Tensor& p : net.parameters()) result.weights.push_back(p.detach().to_vector<float>());
  const auto use = [&](MemoryUse of) {
    const auto i = static_cast<std::size_t>(of);
    return memory_stats(kCPU).by_use[i] - before[i];
  };
  result.optimizer_bytes = use(MemoryUse::optimizer), result.gradient_bytes = use(MemoryUse::gradients);
  for (const auto& [name, x] : optimizer->state_dict()) result.state[name] = x.to_vector<double>();
  return result;
}

std::map<std::string, OptimizerOf> elementwise_optimizers() {
  using namespace optim;
  return {{"SGD", made<SGD>(SGDOptions{.lr = 0.05})},
          {"momentum", made<SGD>(SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true})},
          {"Adam", made<Adam>(AdamOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true})},
          {"AdamW", made<AdamW>(AdamWOptions{.lr = 0.01})},
          {"Adamax", made<Adamax>(AdamaxOptions{})},
          {"NAdam", made<NAdam>(NAdamOptions{})},
          {"RAdam", made<RAdam>(RAdamOptions{.lr = 0.05})},
          {"AdEMAMix", made<AdEMAMix>(AdEMAMixOptions{.lr = 0.05, .warmup = 5})},
          {"Adagrad", made<Adagrad>(AdagradOptions{.lr = 0.05, .initial_accumulator_value = 0.1})},
          {"Adadelta", made<Adadelta>(AdadeltaOptions{})},
          {"RMSprop", made<RMSprop>(RMSpropOptions{.momentum = 0.9, .centered = true})},
          {"Rprop", made<Rprop>(RpropOptions{})},
          {"ASGD", made<ASGD>(ASGDOptions{.t0 = 2})},
          {"Lion", made<Lion>(LionOptions{.lr = 0.01})}};
}

TEST(Zero, BitsAreThoseOfDataParallelWithEveryElementwiseOptimizer) {
  for (const auto& [name, make] : elementwise_optimizers()) {
    const ZeroResult expected = train_by(make, {.stage = 0});
    for (const int stage : {1, 2}) {
      const ZeroResult found = train_by(make, {.stage = stage});
      EXPECT_EQ(found.losses, expected.losses) << name << ", stage " << stage;
      EXPECT_EQ(found.weights, expected.weights) << name << ", stage " << stage;
      if (rank() == 0) {
        EXPECT_EQ(found.state, expected.state) << name << ", stage " << stage;
      }
    }
  }
}

TEST(Zero, CapturedStepsBucketsAndAccumulationChangeNoBit) {
  const OptimizerOf make = made<optim::AdamW>(optim::AdamWOptions{.lr = 0.01});
  for (const std::int64_t accumulation : {1, 2}) {
    const ZeroResult expected = train_by(make, {.stage = 0, .accumulation = accumulation});
    for (const int stage : {1, 2}) {
      for (const std::int64_t bytes : {1, 600, 1 << 20}) {
        for (const bool captured : {false, true}) {
          const ZeroResult found = train_by(
              make, {.stage = stage, .captured = captured, .bucket_bytes = bytes, .accumulation = accumulation});
          EXPECT_EQ(found.losses, expected.losses)
              << "stage " << stage << ", buckets of " << bytes << ", captured " << captured << ", " << accumulation;
          EXPECT_EQ(found.weights, expected.weights);
        }
      }
    }
  }
}

TEST(Zero, ClippingIsByTheNormOfAllRanks) {
  const OptimizerOf make = made<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .max_grad_norm = 0.05});
  const ZeroResult expected = train_by(make, {.stage = 0});
  EXPECT_EQ(train_by(make, {.stage = 1}).weights, expected.weights);
  for (const bool captured : {false, true}) {
    const ZeroResult found = train_by(make, {.stage = 2, .captured = captured});
    for (std::size_t k = 0; k < expected.losses.size(); ++k) EXPECT_NEAR(found.losses[k], expected.losses[k], 1e-6);
  }
}

TEST(Zero, AGradScalerSkipsOnAllRanksTogether) {
  const OptimizerOf make = made<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .max_grad_norm = 1});
  const ZeroResult expected = train_by(make, {.stage = 0, .precision = f16});
  for (const int stage : {1, 2}) {
    for (const bool captured : {false, true}) {
      const ZeroResult found = train_by(make, {.stage = stage, .captured = captured, .precision = f16});
      for (std::size_t k = 0; k < expected.losses.size(); ++k) EXPECT_NEAR(found.losses[k], expected.losses[k], 1e-5);
    }
  }
  // One rank's gradients are infinite: every rank skips the step, and halves the scale.
  for (const int stage : {1, 2}) {
    manual_seed(7);
    ZeroNet net;
    DataParallel parallel(net, {.zero_stage = stage});
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    optimizer.shard(parallel.sharding());
    optim::GradScaler scaler({.init_scale = 8});
    const Tensor before = net.out.weight.detach().clone();
    const auto [x, y] = part_of_batch(0);
    Tensor loss = net.loss(x, y);
    if (rank() == size() - 1) loss = loss * std::numeric_limits<double>::infinity();
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    EXPECT_TRUE(net.out.weight.equal(before)) << stage;
    EXPECT_EQ(scaler.get_scale(), 4) << stage;
  }
}

TEST(Zero, GradientsTravelInBf16) {
  const OptimizerOf make = made<optim::SGD>(optim::SGDOptions{.lr = 0.05});
  const ZeroResult expected = train_by(make, {.stage = 0, .travel = bf16}), f32s = train_by(make, {.stage = 0});
  EXPECT_NE(expected.weights, f32s.weights);
  for (const int stage : {1, 2}) EXPECT_EQ(train_by(make, {.stage = stage, .travel = bf16}).weights, expected.weights);
}

TEST(Zero, EachRankKeepsItsPartOfTheMemory) {
  struct Wide : nn::Module {
    nn::Linear a{256, 512}, b{512, 256}, c{256, 300}, d{300, 300};
    Wide() { register_module("a", a), register_module("b", b), register_module("c", c), register_module("d", d); }
  };
  std::uint64_t optimizer_bytes[3] = {}, gradient_bytes[3] = {};
  for (int stage = 0; stage <= 2; ++stage) {
    const BytesByUse before = memory_stats(kCPU).by_use;
    Wide net;
    DataParallel parallel(net, {.bucket_bytes = 1 << 16, .zero_stage = stage});
    optim::AdamW optimizer(net.parameters());
    optimizer.shard(parallel.sharding());
    const Tensor x = ones({2, 256});
    for (int k = 0; k < 2; ++k) {
      optimizer.zero_grad();
      mean(net.d(net.c(net.b(net.a(x))))).backward();
      optimizer.step();
    }
    const BytesByUse now = memory_stats(kCPU).by_use;
    const auto use = [&](MemoryUse of) {
      return now[static_cast<std::size_t>(of)] - before[static_cast<std::size_t>(of)];
    };
    optimizer_bytes[stage] = use(MemoryUse::optimizer), gradient_bytes[stage] = use(MemoryUse::gradients);
  }
  const auto ranks = static_cast<std::uint64_t>(size());
  EXPECT_LT(optimizer_bytes[1], optimizer_bytes[0] / ranks * 11 / 10);
  EXPECT_LT(optimizer_bytes[2], optimizer_bytes[0] / ranks * 11 / 10);
  // And one bucket, whole and reduced.
  EXPECT_LT(gradient_bytes[2], gradient_bytes[0] / ranks * 11 / 10 + 512 * 256 * 4 * 3 / 2 + (1 << 17));
  EXPECT_LT(gradient_bytes[2], gradient_bytes[1]);
}

TEST(Zero, GroupsKeepTheirSettingsAndStateIsWholeOnRankZero) {
  const OptimizerOf grouped = [](const nn::Module& model) {
    optim::ParamGroup matrices, vectors;
    for (const Tensor& p : model.parameters()) (p.dim() > 1 ? matrices : vectors).parameters.push_back(p);
    matrices.weight_decay = 0.3, vectors.weight_decay = 0;
    vectors.lr = 0.02;
    return std::make_unique<optim::AdamW>(std::vector<optim::ParamGroup>{matrices, vectors},
                                          optim::AdamWOptions{.lr = 0.01});
  };
  const ZeroResult expected = train_by(grouped, {.stage = 0});
  for (const int stage : {1, 2}) EXPECT_EQ(train_by(grouped, {.stage = stage}).weights, expected.weights);
}

TEST(Zero, StateOfOneProcessGoesOnDividedAndBack) {
  // Three steps of each kind, from one to the other: the bits of six steps without division.
  const auto make = made<optim::AdamW>(optim::AdamWOptions{.lr = 0.01});
  const ZeroResult expected = train_by(make, {.stage = 0, .steps = 6});
  for (const int stage : {1, 2}) {
    manual_seed(7);
    ZeroNet net;
    std::map<std::string, Tensor> state;
    for (const int part : {0, 1}) {
      DataParallel parallel(net, {.zero_stage = part == 0 ? 0 : stage});
      const auto optimizer = make(net);
      optimizer->shard(parallel.sharding());
      if (part == 1) optimizer->load_state_dict(state);
      for (int k = 0; k < 3; ++k) {
        const auto [x, y] = part_of_batch(3 * part + k);
        net.loss(x, y).backward();
        optimizer->step();
        optimizer->zero_grad();
      }
      for (const auto& [name, x] : optimizer->state_dict()) state[name] = x.clone();
    }
    if (rank() == 0) {
      for (const auto& [name, values] : expected.state) EXPECT_EQ(state.at(name).to_vector<double>(), values) << name;
    }
    std::size_t i = 0;
    for (const Tensor& p : net.parameters()) EXPECT_EQ(p.detach().to_vector<float>(), expected.weights[i++]);
  }
}

TEST(Zero, UnusedParametersStayWithoutGradientAndState) {
  struct Heads : nn::Module {
    nn::Linear trunk{4, 4}, first{4, 1}, second{4, 1}, never{4, 1};
    Heads() {
      register_module("trunk", trunk), register_module("first", first);
      register_module("second", second), register_module("never", never);
    }
  };
  std::vector<std::vector<float>> weights[3];
  for (int stage = 0; stage <= 2; ++stage) {
    manual_seed(5);
    Heads net;
    DataParallel parallel(net, {.bucket_bytes = 1, .unused_parameters = true, .zero_stage = stage});
    optim::AdamW optimizer(net.parameters(), {.lr = 0.1});
    optimizer.shard(parallel.sharding());
    for (int k = 0; k < 3; ++k) {
      const Tensor x = net.trunk(ones({2, 4}));
      sum(rank() == 0 ? net.first(x) : net.second(x)).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    for (const Tensor& p : net.parameters()) weights[stage].push_back(p.detach().to_vector<float>());
    const auto state = optimizer.state_dict();
    EXPECT_FALSE(state.contains("7.step")) << "no rank uses it";
    EXPECT_TRUE(state.contains("5.step"));
  }
  EXPECT_EQ(weights[1], weights[0]);
  EXPECT_EQ(weights[2], weights[0]);
}

TEST(Zero, RefusesWhatCannotBeDivided) {
  nn::Linear net(8, 8, false), other(8, 8);
  DataParallel parallel(net, {.zero_stage = 1});
  optim::Muon muon(net.parameters());
  EXPECT_THROW(muon.shard(parallel.sharding()), Error);
  optim::LAMB lamb(net.parameters());
  EXPECT_THROW(lamb.shard(parallel.sharding()), Error);
  optim::Adafactor adafactor(net.parameters());
  try {
    adafactor.shard(parallel.sharding());
    ADD_FAILURE() << "its state has other shapes";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "Adafactor: it steps whole tensors, so its state cannot be divided among ranks; use an optimizer that "
                 "steps each element by itself (AdamW, Adam, SGD, Lion ...), or no sharding");
  }
  optim::AdamW strange(other.parameters());
  EXPECT_THROW(strange.shard(parallel.sharding()), Error);
  EXPECT_FALSE(strange.is_sharded());
  EXPECT_THROW(DataParallel(net, {.zero_stage = 3}), Error);
  {
    DataParallel divided(other, {.zero_stage = 2});
    sum(other(ones({1, 8}))).backward();
    EXPECT_THROW(optim::clip_grad_norm_(other.parameters(), 1), Error) << "it would clip nothing";
    EXPECT_THROW(optim::clip_grad_value_(other.parameters(), 1), Error);
    optim::LBFGS lbfgs(other.parameters());
    EXPECT_THROW(lbfgs.step([&] {
      const Tensor loss = sum(other(ones({1, 8})));
      loss.backward();
      return loss;
    }),
                 Error);
    try {
      strange.step();
      ADD_FAILURE() << "it would step nothing";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "AdamW: the gradients are divided among the ranks (ZeRO), and this optimizer does not know it; call "
                   "optimizer.shard(parallel.sharding()) before the first step");
    }
  }
  sum(other(ones({1, 8}))).backward();
  strange.step();  // they are whole again
  try {
    DataParallel unequal(net, {.zero_stage = rank() == 0 ? 1 : 2});
    ADD_FAILURE() << "the stages differ";
  } catch (const distributed::RanksDiffer& error) {
    EXPECT_NE(std::string(error.what()).find("ZeRO stage 2; rank 0 has"), std::string::npos) << error.what();
  }
  optim::AdamW late(net.parameters());
  sum(net(ones({1, 8}))).backward();
  late.step();
  EXPECT_THROW(late.shard(parallel.sharding()), Error);
}

}  // namespace
}  // namespace etna
