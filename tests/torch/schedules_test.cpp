#include <cmath>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <torch/figures.h>

namespace etna {
namespace {

using namespace optim;

const std::map<std::string, Schedule>& schedules() {
  static const std::map<std::string, Schedule> all = {
      {"step", step_decay(30)},
      {"multi_step", multi_step({30, 10, 80}, 0.5)},
      {"exponential", exponential(0.95)},
      {"cosine", cosine(100)},
      {"cosine_warm_restarts", cosine_warm_restarts(10)},
      {"cosine_warm_restarts growing", cosine_warm_restarts(10, 2)},
      {"one_cycle", one_cycle(101)},
      {"one_cycle linear",
       one_cycle(101, {.pct_start = 0.4, .anneal = Annealing::linear, .div_factor = 10, .final_div_factor = 100})},
      {"one_cycle three_phase", one_cycle(101, {.three_phase = true})},
      {"cyclic", cyclic(3, {.step_size_up = 10})},
      {"cyclic triangular2", cyclic(3, {.step_size_up = 10, .step_size_down = 20, .mode = CyclicMode::triangular2})},
      {"cyclic exp_range", cyclic(3, {.step_size_up = 15, .mode = CyclicMode::exp_range, .gamma = 0.97})},
      {"polynomial", polynomial(60, 2)},
      {"linear", linear(0.25, 1, 40)},
      {"constant", constant(0.3, 12)},
      {"lambda", Schedule([](std::int64_t i) { return 1 / (1 + static_cast<double>(i)); })},
      {"multiplicative", multiplicative([](std::int64_t i) { return 0.9 + 0.001 * static_cast<double>(i); })},
      {"sequential", sequential({constant(0.1, 1000), exponential(0.9)}, {20})},
      {"chained", chained({constant(0.1, 5), exponential(0.9)})},
  };
  return all;
}

struct TwoGroups {
  Tensor a, b;
  SGD optimizer;
  explicit TwoGroups(Device device = {})
      : a(ones({1}, device).requires_grad_()),
        b(ones({1}, device).requires_grad_()),
        optimizer({{.parameters = {a}, .lr = 0.5}, {.parameters = {b}, .lr = 0.02}}, {}) {}
};

void expect_rates(const Optimizer& optimizer, const nlohmann::json& figure, std::size_t step, const std::string& name) {
  for (std::size_t g = 0; g < 2; ++g) {
    const double wanted = figure["values"][2 * step + g].get<double>();
    EXPECT_NEAR(optimizer.groups()[g].lr, wanted, 1e-12) << name << ", step " << step << ", group " << g;
  }
}

TEST(TorchSchedules, FollowPyTorch) {
  const nlohmann::json all = figures::load("schedules");
  for (const auto& [name, schedule] : schedules()) {
    TwoGroups two;
    Scheduler scheduler(two.optimizer, schedule);
    for (std::size_t t = 0; t < 100; ++t) {
      expect_rates(two.optimizer, all["cases"].at(name), t, name);
      scheduler.step();
    }
  }
}

TEST(TorchSchedules, PlateauFollowsPyTorch) {
  const nlohmann::json all = figures::load("schedules");
  const std::map<std::string, PlateauOptions> cases = {
      {"plateau", {.factor = 0.5, .patience = 4, .cooldown = 3, .min_lr = 0.001}},
      {"plateau max", {.maximize = true, .patience = 6, .threshold = 0.01, .relative = false}}};
  for (const auto& [name, options] : cases) {
    TwoGroups two;
    ReduceLROnPlateau plateau(two.optimizer, options);
    for (std::size_t t = 0; t < 100; ++t) {
      expect_rates(two.optimizer, all["cases"].at(name), t, name);
      if (t == 50) {  // goes on from its state
        const auto state = plateau.state_dict();
        plateau.step(-1), plateau.step(1e9);
        plateau.load_state_dict(state);
      }
      plateau.step(all["metrics"][t].get<double>());
    }
  }
}

TEST(TorchSchedules, SWALRFollowsPyTorch) {
  const nlohmann::json all = figures::load("schedules");
  const std::map<std::string, std::function<SWALR(Optimizer&)>> cases = {
      {"swalr",
       [](Optimizer& o) {
         return SWALR(o, std::vector<double>{0.05, 0.2});
       }},
      {"swalr linear",
       [](Optimizer& o) { return SWALR(o, 0.05, {.anneal_epochs = 30, .anneal_strategy = Annealing::linear}); }},
      {"swalr at once", [](Optimizer& o) { return SWALR(o, 0.05, {.anneal_epochs = 0}); }}};
  for (const auto& [name, make] : cases) {
    TwoGroups two;
    SWALR swa = make(two.optimizer);
    for (std::size_t t = 0; t < 100; ++t) {
      expect_rates(two.optimizer, all["cases"].at(name), t, name);
      if (t == 5) {
        const auto state = swa.state_dict();
        swa.load_state_dict(state);
        EXPECT_THROW(swa.load_state_dict({}), Error);
      }
      swa.step();
    }
    EXPECT_EQ(swa.last_lr().size(), 2u);
  }
  TwoGroups two;
  EXPECT_THROW(SWALR(two.optimizer, -1), Error);
  EXPECT_THROW(SWALR(two.optimizer, std::vector<double>{1, 2, 3}), Error);
  EXPECT_THROW(SWALR(two.optimizer, 1, {.anneal_epochs = -1}), Error);
}

TEST(TorchSchedules, CyclesOfMomentumFollowPyTorch) {
  const nlohmann::json all = figures::load("schedules")["momenta"];
  const std::map<std::string, Schedule> cases = {
      {"one_cycle", one_cycle(101)},
      {"one_cycle linear", one_cycle(101, {.anneal = Annealing::linear, .base_momentum = 0.5, .max_momentum = 0.99})},
      {"one_cycle three_phase", one_cycle(101, {.three_phase = true})},
      {"one_cycle adam", one_cycle(101)},
      {"cyclic", cyclic(3, {.step_size_up = 10})},
      {"cyclic triangular2",
       cyclic(3, {.step_size_up = 10, .step_size_down = 20, .mode = CyclicMode::triangular2, .base_momentum = 0.6})},
      {"cyclic exp_range", cyclic(3, {.step_size_up = 15, .mode = CyclicMode::exp_range, .gamma = 0.97})}};
  ASSERT_EQ(cases.size(), all.size());
  for (const auto& [name, schedule] : cases) {
    Tensor x = ones({1}).requires_grad_();
    SGD sgd({x}, {.lr = 0.1, .momentum = 0.9});
    Adam adam({x}, {.lr = 0.1});
    const bool betas = name == "one_cycle adam";
    Optimizer& optimizer = betas ? static_cast<Optimizer&>(adam) : sgd;
    Scheduler scheduler(optimizer, schedule);
    for (std::size_t t = 0; t < 100; ++t) {
      const ParamGroup& group = optimizer.groups()[0];
      EXPECT_NEAR(betas ? group.beta1 : group.momentum, all[name]["values"][t].get<double>(), 1e-12) << name << t;
      scheduler.step();
    }
  }
  Tensor x = ones({1}).requires_grad_();
  Adagrad none({x});
  EXPECT_THROW(Scheduler(none, one_cycle(10)), Error);
  EXPECT_NO_THROW(Scheduler(none, one_cycle(10, {.cycle_momentum = false})));
}

// A captured step reads momenta anew, as it does rates.
TEST(TorchSchedules, CyclesOfMomentumActInCapturedSteps) {
  for (Device device : figures::devices()) {
    for (bool betas : {false, true}) {
      std::vector<std::vector<float>> found;
      for (bool captured : {false, true}) {
        Tensor x = from_vector<float>({1, -2, 3}, device).requires_grad_();
        SGD sgd({x}, {.lr = 0.05, .momentum = 0.9, .nesterov = true});
        AdamW adam({x}, {.lr = 0.05});
        Optimizer& optimizer = betas ? static_cast<Optimizer&>(adam) : sgd;
        Scheduler scheduler(optimizer, cyclic(2, {.step_size_up = 3, .base_momentum = 0.3}));
        const auto step = [&] {
          GradMode off(false);
          x.set_grad(x * 0.5 + 0.1);
          optimizer.step();
          scheduler.step();
        };
        auto replayed = capture(step, {.device = device});
        for (int i = 0; i < 12; ++i) captured ? (void)replayed() : step();
        found.push_back(x.detach().to_vector<float>());
      }
      EXPECT_EQ(found[0], found[1]) << device.str();
    }
  }
}

TEST(TorchSchedules, ActInCapturedSteps) {
  const nlohmann::json all = figures::load("schedules");
  for (Device device : figures::devices()) {
    TwoGroups two(device);
    Scheduler scheduler(two.optimizer, one_cycle(101, {.cycle_momentum = false}));
    two.a.set_grad(ones_like(two.a)), two.b.set_grad(ones_like(two.b));
    auto step = capture(
        [&] {
          two.optimizer.step();
          scheduler.step();
        },
        {.device = device});
    double a = 1, b = 1;
    for (std::size_t t = 0; t < 100; ++t) {
      step();
      a -= all["cases"]["one_cycle"]["values"][2 * t].get<double>();
      b -= all["cases"]["one_cycle"]["values"][2 * t + 1].get<double>();
    }
    EXPECT_NEAR(two.a.item<double>(), a, 1e-5 * std::abs(a));
    EXPECT_NEAR(two.b.item<double>(), b, 1e-5);
  }
}

struct Weights {
  Tensor weight, bias;
  struct Named {
    std::string name;
    Tensor tensor;
  };
  std::vector<Named> named_parameters() const { return {{"weight", weight}, {"bias", bias}}; }
  std::vector<Named> named_buffers() const { return {}; }
};

TEST(TorchSchedules, AveragesFollowPyTorch) {
  const nlohmann::json all = figures::load("schedules");
  for (Device device : figures::devices()) {
    const Tensor rows = figures::tensor(all["weights"], device);
    for (bool captured : {false, true}) {
      for (const auto& [name, options] : std::map<std::string, AverageOptions>{{"swa", {}}, {"ema", {.decay = 0.9}}}) {
        Weights model{zeros({1, 3}, device).requires_grad_(), zeros({1}, device).requires_grad_()};
        AveragedModel average(model, options);
        auto update = capture([&](const Tensor& row) {
          GradMode off(false);
          model.weight.copy_(row.slice(0, 0, 3).unsqueeze(0));
          model.bias.copy_(row.slice(0, 3, 4));
          average.update();
        });
        for (std::int64_t t = 0; t < rows.size(0); ++t) {
          if (captured) {
            update(rows.select(0, t));
          } else {
            GradMode off(false);
            model.weight.copy_(rows.select(0, t).slice(0, 0, 3).unsqueeze(0));
            model.bias.copy_(rows.select(0, t).slice(0, 3, 4));
            average.update();
          }
          const auto found = average.averaged();
          const Tensor now = cat({found.at("weight").reshape({3}), found.at("bias")});
          nlohmann::json wanted = {{"shape", {4}}, {"dtype", "f64"}, {"values", nlohmann::json::array()}};
          for (std::int64_t i = 0; i < 4; ++i)
            wanted["values"].push_back(all[name]["values"][static_cast<std::size_t>(4 * t + i)]);
          figures::expect_close(now, wanted, 1e-5, name);
        }
      }
    }
  }
}

}  // namespace
}  // namespace etna
