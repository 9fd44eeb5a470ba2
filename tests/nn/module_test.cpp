#include <gmock/gmock.h>

#include <etna/nn/nn.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna::nn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> module_names(const std::vector<NamedTensor>& list) {
  std::vector<std::string> out;
  for (const NamedTensor& x : list) out.push_back(x.name);
  return out;
}

/// A module with a parameter, a buffer, two submodules, and a tensor shared by both.
struct ModuleNet : Module {
  Tensor scale = ones({2}), count = zeros({}, {i64});
  Linear first{3, 2}, second{3, 2, false};
  Dropout drop;
  ModuleNet() {
    register_parameter("scale", scale);
    register_buffer("count", count);
    register_module("first", first);
    register_module("second", second);
    register_module("drop", drop);
    second.weight = first.weight;
  }
};

TEST(Module, NamesParametersDepthFirstAndSharedOnesOnce) {
  ModuleNet net;
  EXPECT_THAT(module_names(net.named_parameters()), ElementsAre("scale", "first.weight", "first.bias"));
  EXPECT_THAT(module_names(net.named_buffers()), ElementsAre("count"));
  EXPECT_EQ(net.num_parameters(), 2 + 6 + 2);
  for (const Tensor& p : net.parameters()) EXPECT_TRUE(p.requires_grad());
  EXPECT_FALSE(net.count.requires_grad());
}

struct FeedForwardPart : Module {
  Linear up{4, 8}, down{8, 4, false};
  FeedForwardPart() { register_module("up", up), register_module("down", down); }
};
struct BlockOfParts : Module {
  LayerNorm norm{4};
  FeedForwardPart feed_forward;
  BlockOfParts() { register_module("norm", norm), register_module("", feed_forward); }
};

TEST(Module, NamesAPartWithoutANameAsItsOwn) {
  ModuleList<BlockOfParts> blocks;
  blocks.emplace_back();
  EXPECT_THAT(module_names(blocks.named_parameters()),
              ElementsAre("0.norm.weight", "0.norm.bias", "0.up.weight", "0.up.bias", "0.down.weight"));
}

TEST(Module, LoadsWhatItSaved) {
  ModuleNet a, b;
  a.count.fill_(7);
  StateDict state = a.state_dict();
  EXPECT_EQ(state.size(), 4u);
  state["scale"] = state["scale"].to(f64) * 3;
  b.load_state_dict(state);
  EXPECT_EQ(b.first.weight.to_vector<float>(), a.first.weight.to_vector<float>());
  EXPECT_EQ(b.second.weight.to_vector<float>(), a.first.weight.to_vector<float>());
  EXPECT_EQ(b.scale.to_vector<float>(), std::vector<float>({3, 3}));
  EXPECT_EQ(b.scale.dtype(), f32);
  EXPECT_EQ(b.count.item<std::int64_t>(), 7);
}

TEST(Module, NamesWhatDoesNotFitAndCopiesNothing) {
  ModuleNet net;
  StateDict state = net.state_dict();
  auto kept = net.first.bias.to_vector<float>();
  state["first.bias"] = full({2}, 9);
  state.erase("scale");
  state["extra"] = zeros({1});
  EXPECT_THAT([&] { net.load_state_dict(state); }, ThrowsMessage<Error>(AllOf(HasSubstr("scale"), HasSubstr("extra"))));
  EXPECT_EQ(net.first.bias.to_vector<float>(), kept);
  const IncompatibleKeys left = net.load_state_dict(state, false);
  EXPECT_THAT(left.missing_keys, ElementsAre("scale"));
  EXPECT_THAT(left.unexpected_keys, ElementsAre("extra"));
  EXPECT_EQ(net.first.bias.to_vector<float>(), std::vector<float>({9, 9}));
  state["first.weight"] = zeros({3, 3});
  EXPECT_THAT([&] { net.load_state_dict(state, false); },
              ThrowsMessage<ShapeError>(HasSubstr("first.weight [3, 3] (wanted [2, 3])")));
}

TEST(Module, NamesThreeOfManyThatDoNotFit) {
  Sequential net(Linear(2, 2), Linear(2, 2), Linear(2, 2));
  StateDict others;
  for (int i = 0; i < 48; ++i) others["older." + std::to_string(i)] = zeros({1});
  EXPECT_THAT(
      [&] { net.load_state_dict(others); },
      ThrowsMessage<Error>(
          "load_state_dict: the names differ; missing: 0.bias, 0.weight, 1.bias and 3 more; not known: older.0, "
          "older.1, older.10 and 45 more; pass strict = false to load the rest"));
  for (const auto& [name, tensor] : net.state_dict()) others[name] = zeros({1});
  EXPECT_THAT([&] { net.load_state_dict(others, false); },
              ThrowsMessage<ShapeError>(HasSubstr("0.weight [1] (wanted [2, 2]), 1.bias [1] (wanted [2]) and 3 more")));
}

TEST(Module, RefusesANameTwice) {
  struct Twice : Module {
    Linear a{2, 2}, b{2, 2};
    Tensor p = ones({2});
    void register_all(const std::string& first, const std::string& second) {
      register_module(first, a), register_module(second, b);
    }
    void register_as(const std::string& name) { register_parameter(name, p); }
    void buffer_as(const std::string& name) { register_buffer(name, p); }
  };
  Twice t;
  EXPECT_THAT([&] { t.register_all("a", "a"); },
              ThrowsMessage<Error>(HasSubstr("register_module: the module has something named 'a' already")));
  EXPECT_THAT([&] { t.register_as("a"); }, ThrowsMessage<Error>(HasSubstr("named 'a' already")));
  EXPECT_THAT([&] { t.buffer_as("a"); }, ThrowsMessage<Error>(HasSubstr("named 'a' already")));
  EXPECT_THAT([&] { t.register_as("a.b"); }, ThrowsMessage<Error>(HasSubstr("'a.b' holds a dot")));
  EXPECT_THAT([&] { t.register_as(""); }, ThrowsMessage<Error>(HasSubstr("the name is empty")));
  EXPECT_EQ(t.parameters().size(), 2u) << "what was refused is not there";
  Twice unnamed;
  unnamed.register_all("", "");
  EXPECT_THAT([&] { unnamed.parameters(); }, ThrowsMessage<Error>(HasSubstr("two tensors have the name 'weight'")));
}

TEST(Module, TrainsAndEvaluatesWithAllItsParts) {
  ModuleNet net;
  Tensor x = ones({1000});
  EXPECT_NE(net.drop(x).to_vector<float>(), x.to_vector<float>());
  net.eval();
  EXPECT_FALSE(net.drop.training());
  EXPECT_EQ(net.drop(x).to_vector<float>(), x.to_vector<float>());
  net.train();
  EXPECT_TRUE(net.drop.training());
}

TEST(Module, ConvertsFloatingTensorsOnly) {
  ModuleNet net;
  Tensor handle = net.first.weight;
  net.to(bf16);
  EXPECT_EQ(handle.dtype(), bf16);
  EXPECT_EQ(net.second.weight.dtype(), bf16);
  EXPECT_TRUE(handle.requires_grad());
  EXPECT_EQ(net.count.dtype(), i64);
  EXPECT_THROW(net.to(i32), DtypeError);
}

class Moving : public OnDevice {};

TEST_P(Moving, KeepsHandlesSharingAndGradients) {
  ModuleNet net;
  Tensor handle = net.first.weight;
  sum(net.first(ones({4, 3}))).backward();
  net.to(device());
  EXPECT_EQ(handle.device(), device());
  EXPECT_EQ(net.second.weight.impl(), handle.impl());
  EXPECT_EQ(handle.grad().device(), device());
  expect_near(handle.grad(), std::vector<double>(6, 4), 0);
  EXPECT_EQ(net.count.device(), device());
  sum(net.first(ones({4, 3}, {f32, device()}))).backward();
  expect_near(handle.grad(), std::vector<double>(6, 8), 0);
  net.zero_grad();
  EXPECT_FALSE(handle.grad().defined());
}

ETNA_ON_EVERY_DEVICE(Moving);

}  // namespace
}  // namespace etna::nn
