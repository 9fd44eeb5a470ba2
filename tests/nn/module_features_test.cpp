#include <sstream>

#include <gmock/gmock.h>

#include <etna/autograd/autograd.h>
#include <etna/models/decoder.h>
#include <etna/nn/nn.h>
#include <etna/optim/optimizer.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct ModuleFeaturesNet : Module {
  Linear hidden{3, 4};
  Sequential tail;
  Tensor scale = ones({2}), seen = zeros({1}, i64);
  ModuleFeaturesNet() {
    tail.add<ReLU>().add<Linear>(4, 2);
    register_parameter("scale", scale);
    register_buffer("seen", seen);
    register_module("hidden", hidden);
    register_module("tail", tail);
  }
  Tensor forward(const Tensor& x) const { return tail(hidden(x)) * scale; }
  std::unique_ptr<Module> another() const override { return std::make_unique<ModuleFeaturesNet>(); }
};

std::vector<std::string> module_features_names(const std::vector<NamedModule>& list) {
  std::vector<std::string> all;
  for (const NamedModule& m : list) all.push_back(m.name);
  return all;
}

TEST(ModuleTree, ListsModulesAndChildren) {
  ModuleFeaturesNet net;
  EXPECT_THAT(module_features_names(net.named_modules()),
              ElementsAre("", "hidden", "tail", "tail", "tail.0", "tail.1"));
  EXPECT_THAT(module_features_names(net.named_children()), ElementsAre("hidden", "tail"));
  EXPECT_EQ(net.modules().size(), 6u);
  EXPECT_EQ(net.children()[0], &net.hidden);
  EXPECT_EQ(net.parameters(false).size(), 1u);
  EXPECT_EQ(net.parameters().size(), 5u);
  EXPECT_EQ(net.buffers().size(), 1u);
  EXPECT_EQ(net.named_buffers(false)[0].name, "seen");
}

TEST(ModuleTree, AppliesFromBelow) {
  ModuleFeaturesNet net;
  std::vector<std::string> order;
  net.apply([&](Module& m) {
    order.push_back(m.type_name());
    if (auto* linear = dynamic_cast<Linear*>(&m)) init::zeros_(linear->weight);
  });
  EXPECT_THAT(order, ElementsAre("Linear", "ReLU", "Linear", "ModuleList", "Sequential", "ModuleFeaturesNet"));
  EXPECT_EQ(net.hidden.weight.to_vector<float>(), std::vector<float>(12, 0));
}

TEST(ModuleTree, PrintsEqualNeighboursOfAListOnce) {
  ModuleList<Linear> list;
  list.emplace_back(2, 3), list.emplace_back(2, 3), list.emplace_back(3, 1, false);
  std::ostringstream out;
  out << list;
  EXPECT_EQ(out.str(),
            "ModuleList(\n  (0-1): 2 x Linear(in_features=2, out_features=3, bias=True)\n"
            "  (2): Linear(in_features=3, out_features=1, bias=False)\n)");
}

TEST(ModuleTree, FreezesAndUnfreezes) {
  ModuleFeaturesNet net;
  net.requires_grad_(false);
  for (const Tensor& p : net.parameters()) EXPECT_FALSE(p.requires_grad());
  net.requires_grad_();
  for (const Tensor& p : net.parameters()) EXPECT_TRUE(p.requires_grad());
}

TEST(Clone, CopiesValuesModesAndSharing) {
  ModuleFeaturesNet net;
  net.eval();
  net.scale.requires_grad_(false);
  net.seen.fill_(3);
  dynamic_cast<Linear&>(net.tail.modules[1]).to(bf16);
  const std::unique_ptr<ModuleFeaturesNet> copy = clone_of(net);
  EXPECT_FALSE(copy->training());
  EXPECT_FALSE(copy->hidden.training());
  EXPECT_FALSE(copy->scale.requires_grad());
  EXPECT_EQ(copy->seen.item<int>(), 3);
  const auto mine = net.named_parameters(), theirs = copy->named_parameters();
  ASSERT_EQ(mine.size(), theirs.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(mine[i].name, theirs[i].name);
    EXPECT_EQ(mine[i].tensor.dtype(), theirs[i].tensor.dtype());
    EXPECT_EQ(mine[i].tensor.to_vector<float>(), theirs[i].tensor.to_vector<float>());
  }
  init::zeros_(copy->hidden.weight);
  EXPECT_NE(net.hidden.weight.to_vector<float>(), copy->hidden.weight.to_vector<float>());

  const models::Decoder model(models::decoder_config(
      "gpt2", {.vocabulary = 5, .context = 3, .width = 4, .layers = 1, .heads = 2, .feed_forward = 8}));
  EXPECT_EQ(clone_of(model)->num_parameters(), model.num_parameters());
  struct Silent : Module {};
  struct Wider : Linear {
    Wider() : Linear(2, 3) {}
  };
  EXPECT_THAT([] { Wider().clone(); }, ThrowsMessage<Error>(HasSubstr("another() of Wider made a Linear")));
  EXPECT_THAT([] { Silent().clone(); }, ThrowsMessage<Error>(HasSubstr("override another()")));
}

TEST(Containers, HoldModulesAndParametersByName) {
  ModuleDict<UnaryModule> dict;
  dict.emplace<Linear>("a", 2, 3);
  dict.emplace<Identity>("b");
  EXPECT_THAT(dict.keys(), ElementsAre("a", "b"));
  EXPECT_TRUE(dict.contains("a"));
  const Tensor x = ones({1, 2});
  EXPECT_EQ(dict["b"](x).impl(), x.impl());
  EXPECT_EQ(dict.named_parameters()[0].name, "a.weight");
  EXPECT_THAT([&] { dict.at("c"); }, ThrowsMessage<Error>(HasSubstr("no module named 'c'")));
  EXPECT_THAT([&] { dict.emplace<Identity>("a"); }, ThrowsMessage<Error>(HasSubstr("named 'a' already")));

  ParameterList list({ones({2})});
  list.append(zeros({3}));
  EXPECT_EQ(list.named_parameters()[1].name, "1");
  EXPECT_TRUE(list[1].requires_grad());
  EXPECT_THROW(list.append({}), Error);
  ParameterDict named;
  named.insert("gain", ones({2}));
  EXPECT_TRUE(named["gain"].requires_grad());
  EXPECT_THROW(named["loss"], Error);
  EXPECT_THROW(named.insert("gain", ones({2})), Error);
}

class ModuleHooks : public OnDevice {};

TEST_P(ModuleHooks, SeeAndReplaceWhatPasses) {
  Linear layer(2, 2, false);
  init::ones_(layer.weight);
  layer.to(device());
  const Tensor x = from_vector<float>({1, 2}, {1, 2}, device()).requires_grad_();
  std::vector<std::string> order;
  HookHandle pre = layer.register_forward_pre_hook([&](const Module& m, const TensorList& in) {
    order.push_back("before " + m.type_name());
    return TensorList{in[0] * 2.0};
  });
  HookHandle post = layer.register_forward_hook([&](const Module&, const TensorList& in, const TensorList& out) {
    order.push_back("after");
    expect_near(in[0], std::vector<double>{2, 4}, 0);
    return TensorList{out[0] + 1.0};
  });
  expect_near(layer(x), std::vector<double>{7, 7}, 0);
  EXPECT_THAT(order, ElementsAre("before Linear", "after"));
  pre.remove(), pre.remove();
  post.remove();
  expect_near(layer(x), std::vector<double>{3, 3}, 0);
  EXPECT_EQ(order.size(), 2u);
  layer.register_forward_hook([](const Module&, const TensorList&, const TensorList&) { return TensorList(2); });
  EXPECT_THROW(layer(x), Error);
}

TEST_P(ModuleHooks, BackwardHooksSeeBothGradientsAndReplaceTheInputs) {
  Linear layer(2, 2, false);
  init::ones_(layer.weight);
  layer.to(device());
  const Tensor x = from_vector<float>({1, 2}, {1, 2}, device()).requires_grad_();
  int calls = 0;
  HookHandle handle =
      layer.register_full_backward_hook([&](const Module&, const TensorList& in, const TensorList& out) {
        ++calls;
        expect_near(out[0], std::vector<double>{1, 1}, 0);
        if (!in[0].defined()) return TensorList{};
        expect_near(in[0], std::vector<double>{2, 2}, 0);
        return TensorList{in[0] * 10.0};
      });
  sum(layer(x)).backward();
  expect_near(x.grad(), std::vector<double>{20, 20}, 0);
  EXPECT_EQ(calls, 1);
  // Without an input that requires grad it is still called.
  sum(layer(x.detach())).backward();
  EXPECT_EQ(calls, 2);
  handle.remove();
  sum(layer(x)).backward();
  EXPECT_EQ(calls, 2);
}

TEST_P(ModuleHooks, ReachModulesWithSeveralTensors) {
  LSTM lstm(2, 3);
  lstm.to(device());
  std::size_t inputs = 0, outputs = 0;
  lstm.register_forward_hook([&](const Module&, const TensorList& in, const TensorList& out) {
    inputs = in.size(), outputs = out.size();
    return TensorList{};
  });
  lstm(ones({2, 1, 2}, {f32, device()}));
  EXPECT_EQ(inputs, 3u);
  EXPECT_EQ(outputs, 3u);
}

ETNA_ON_EVERY_DEVICE(ModuleHooks);

class Reparametrized : public OnDevice {};

TEST_P(Reparametrized, TrainsItsPartsAndReturns) {
  Linear layer(3, 2);
  const Tensor x = ones({1, 3});
  const std::vector<float> before = layer(x).to_vector<float>();
  weight_norm(layer);
  EXPECT_EQ(layer.named_parameters()[1].name, "weight_g");
  layer.to(device());
  const Tensor here = x.to(device());
  expect_near(layer(here), std::vector<double>(before.begin(), before.end()), 1e-6);
  sum(layer(here)).backward();
  for (const Tensor& p : layer.parameters()) EXPECT_TRUE(p.grad().defined());
  remove_weight_norm(layer);
  EXPECT_EQ(layer.named_parameters()[1].name, "weight");
  expect_near(layer(here), std::vector<double>(before.begin(), before.end()), 1e-6);
  EXPECT_THAT([&] { remove_weight_norm(layer); }, ThrowsMessage<Error>(HasSubstr("not computed so")));
  EXPECT_THAT([&] { weight_norm(layer, "wait"); }, ThrowsMessage<Error>(HasSubstr("no parameter 'wait'")));
}

TEST_P(Reparametrized, ImprovesTheSpectralNormInCapturedSteps) {
  Linear layer(4, 3);
  layer.to(device());
  spectral_norm(layer);
  const Tensor x = ones({1, 4}, {f32, device()});
  auto step = capture([&] { return layer(x); }, {.device = device()});
  for (int i = 0; i < 40; ++i) step();
  // The weight's largest singular value is 1 then: the map lengthens no vector.
  layer.eval();
  const Tensor u = layer.named_buffers()[0].tensor, y = layer(x);
  const Tensor back = matmul(u, layer.weight);
  EXPECT_NEAR(sum(square(back)).item<double>(), 1, 1e-3);
  remove_spectral_norm(layer);
  EXPECT_EQ(layer.named_buffers().size(), 0u);
}

ETNA_ON_EVERY_DEVICE(Reparametrized);

class Small : public OnDevice {};

TEST_P(Small, DropoutOfChannelsZeroesThemWhole) {
  manual_seed(5);
  const Tensor x = ones({4, 8, 3}, {f32, device()});
  Dropout1d one(0.5);
  const Tensor y = one(x), sums = sum(y, {2});
  std::vector<double> values = sums.to_vector<double>();
  std::size_t zeroed = 0;
  for (double v : values) {
    EXPECT_TRUE(v == 0 || v == 6) << v;
    zeroed += v == 0;
  }
  EXPECT_GT(zeroed, 4u);
  EXPECT_LT(zeroed, 28u);
  one.eval();
  EXPECT_EQ(one(x).impl(), x.impl());
  EXPECT_EQ(Dropout1d(0.5)(x[0]).shape(), Shape({8, 3}));
  EXPECT_THROW(Dropout3d(0.5)(x), ShapeError);
  EXPECT_THROW(Dropout2d(1.5), Error);
}

TEST_P(Small, AlphaDropoutKeepsMeanAndVariance) {
  manual_seed(6);
  const Tensor x = randn({20000}, {f32, device()}), y = AlphaDropout(0.3)(x);
  EXPECT_NEAR(mean(y).item<double>(), 0, 0.03);
  EXPECT_NEAR(var(y).item<double>(), 1, 0.04);
}

TEST_P(Small, ParametersBecomeAVectorAndBack) {
  Linear layer(2, 3);
  layer.to(device());
  const std::vector<Tensor> parameters = layer.parameters();
  const Tensor vector = parameters_to_vector(parameters);
  EXPECT_EQ(vector.shape(), Shape({9}));
  vector_to_parameters(vector.detach() * 2.0, parameters);
  expect_near(parameters_to_vector(parameters).detach(), vector.detach() * 2.0, 0);
  EXPECT_THROW(vector_to_parameters(zeros({8}), parameters), ShapeError);
  EXPECT_THROW(parameters_to_vector({}), Error);
}

TEST_P(Small, GradientsAreClampedInPlace) {
  Tensor p = from_vector<float>({1, -2, 3}, device()).requires_grad_();
  sum(square(p)).backward();
  optim::clip_grad_value_({p, zeros({1})}, 3);
  expect_near(p.grad(), std::vector<double>{2, -3, 3}, 0);
  EXPECT_THROW(optim::clip_grad_value_({p}, -1), Error);
}

ETNA_ON_EVERY_DEVICE(Small);

}  // namespace
}  // namespace etna::nn
