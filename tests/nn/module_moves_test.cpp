#include <optional>
#include <vector>

#include <gmock/gmock.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/nn.h>
#include <etna/nn/parameters.h>
#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

using testing::HasSubstr;

/// Submodules as members, in a list and in a chain; tensors of its own, and a recurrent layer's, which are on the heap.
struct MovesNet : Module {
  Tensor scale = ones({4});
  Tensor seen = zeros({1});
  Linear hidden{4, 4};
  LSTM lstm{4, 4};
  ModuleList<Linear> list;
  Sequential tail{Linear(4, 4), BatchNorm1d(4), Dropout(0.5)};
  MovesNet() {
    list.emplace_back(4, 4);
    register_parameter("scale", &MovesNet::scale);
    register_buffer("seen", &MovesNet::seen);
    register_module("hidden", hidden), register_module("lstm", lstm);
    register_module("list", list), register_module("tail", tail);
  }
  Tensor forward(const Tensor& x) const {
    return tail(list[0](lstm(hidden(x).unsqueeze(0)).output.squeeze(0)) * scale + seen);
  }
};

MovesNet moves_made() {
  MovesNet net;
  net.eval();
  return net;
}

MovesNet moves_one_of(bool first) {
  MovesNet a, b;
  if (first) return a;
  return b;
}

/// All that is registered, and where its tensors are.
void expect_whole(MovesNet& net, const std::vector<NamedTensor>& wanted) {
  const std::vector<NamedTensor> got = net.named_parameters();
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, wanted[i].name);
    EXPECT_EQ(got[i].tensor.impl(), wanted[i].tensor.impl()) << got[i].name;
  }
  const std::vector<Module*> children = net.children();
  ASSERT_EQ(children.size(), 4u);
  EXPECT_EQ(children[0], &net.hidden);
  EXPECT_EQ(children[1], &net.lstm);
  EXPECT_EQ(children[3], &net.tail);
  EXPECT_EQ(net.tail.children()[0], &net.tail.modules);
  // The registry sees the members themselves.
  net.scale = full({4}, 2.0);
  net.hidden.bias = full({4}, 3.0);
  net.seen = full({1}, 5.0);
  const StateDict state = net.state_dict();
  EXPECT_EQ(state.at("scale")[0].item(), 2);
  EXPECT_EQ(state.at("hidden.bias")[0].item(), 3);
  EXPECT_EQ(state.at("seen")[0].item(), 5);
  net.train(false);
  EXPECT_FALSE(net.tail.modules[2].training());
  net.train();
  EXPECT_TRUE(net.tail.modules[2].training());
}

TEST(ModuleMoves, TheRegistryFollows) {
  MovesNet net;
  const std::vector<NamedTensor> before = net.named_parameters();
  const Tensor x = ones({2, 4});
  net.eval();
  const std::vector<float> wanted = net.forward(x).to_vector<float>();
  MovesNet moved = std::move(net);
  EXPECT_EQ(moved.forward(x).to_vector<float>(), wanted);
  EXPECT_FALSE(moved.training());
  expect_whole(moved, before);
}

TEST(ModuleMoves, AlsoOutOfFunctionsVectorsAndOptionals) {
  MovesNet made = moves_made();
  EXPECT_FALSE(made.training());
  expect_whole(made, made.named_parameters());
  MovesNet one = moves_one_of(false);
  expect_whole(one, one.named_parameters());

  std::vector<MovesNet> nets;
  std::vector<std::vector<NamedTensor>> before;
  for (int i = 0; i < 5; ++i) {
    nets.emplace_back();
    before.push_back(nets.back().named_parameters());
  }
  for (std::size_t i = 0; i < nets.size(); ++i) expect_whole(nets[i], before[i]);

  std::optional<MovesNet> held = std::move(nets[0]);
  expect_whole(*held, held->named_parameters());
}

struct MovesPair : Module {
  Linear a{2, 2}, b{2, 2};
  Tensor w = ones({2});
  MovesPair() {
    register_module("a", a), register_module("b", b);
    register_parameter("w", &MovesPair::w);
  }
};

void expect_own(MovesPair& net, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(net.children().size(), 2u);
  EXPECT_EQ(net.children()[0], &net.a);
  EXPECT_EQ(net.children()[1], &net.b);
  const std::vector<Tensor> got = net.parameters();
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].impl(), wanted[i].impl()) << i;
}

TEST(ModuleMoves, AssignmentReplacesWhatWasThere) {
  MovesPair net, other;
  const std::vector<Tensor> wanted = other.parameters();
  net = std::move(other);
  expect_own(net, wanted);
  EXPECT_TRUE(other.parameters().empty());

  std::vector<MovesPair> nets(4);
  const std::vector<Tensor> third = nets[2].parameters();
  nets.erase(nets.begin() + 1);
  expect_own(nets[1], third);
}

TEST(ModuleMoves, AMemberOfAModuleThatStaysHasItsPlace) {
  for (const bool moved_before : {false, true}) {
    MovesPair first;
    MovesPair second = std::move(first);
    MovesPair& net = moved_before ? second : (first = MovesPair(), first);
    Linear fresh(2, 2);
    const Tensor weight = fresh.weight;
    net.a = std::move(fresh);
    EXPECT_EQ(net.state_dict().at("a.weight").storage(), weight.storage());
    std::swap(net.a, net.b);
    EXPECT_EQ(net.state_dict().at("b.weight").storage(), weight.storage());
    {
      const Linear out = std::move(net.a);
      EXPECT_TRUE(net.a.parameters().empty());
    }
    net.a = Linear(2, 2);
    expect_own(net, {net.w, net.a.weight, net.a.bias, net.b.weight, net.b.bias});
  }
}

struct MovesByReference : Module {
  Tensor w = ones({2});
  MovesByReference() { register_parameter("w", w); }
};
struct MovesOuter : Module {
  Linear first{2, 2};
  MovesByReference inner;
  MovesOuter() { register_module("first", first), register_module("inner", inner); }
};

TEST(ModuleMoves, WhatWouldBeLeftBehindIsRefusedAndNothingChanges) {
  MovesOuter net;
  EXPECT_THAT(
      [&] { MovesOuter moved = std::move(net); },
      testing::ThrowsMessage<Error>(HasSubstr("MovesByReference cannot be moved: it registered its tensor 'w'")));
  EXPECT_EQ(net.parameters().size(), 3u);
  EXPECT_EQ(net.children()[0], &net.first);

  Linear normed(2, 2);
  weight_norm(normed);
  EXPECT_THAT([&] { Linear moved = std::move(normed); },
              testing::ThrowsMessage<Error>(HasSubstr("its 'weight' is computed by weight_norm()")));
}

TEST(ModuleMoves, AModuleThatEndsIsNoLongerRegistered) {
  struct Holder : Module {
    using Module::register_module;
  } holder;
  {
    Linear inner(2, 2);
    holder.register_module("inner", inner);
    EXPECT_EQ(holder.parameters().size(), 2u);
  }
  EXPECT_TRUE(holder.parameters().empty());
}

struct MovesForgetsLast : Module {
  Linear a{2, 3}, b{3, 4}, c{4, 5};
  MovesForgetsLast() { register_module("a", a), register_module("b", b); }
};
struct MovesForgetsFirst : Module {
  Sequential first{Linear(2, 3), ReLU()};
  Linear b{3, 4};
  MovesForgetsFirst() { register_module("b", b); }
};

std::string moves_said(const std::function<void()>& what) {
  testing::internal::CaptureStderr();
  what();
  return testing::internal::GetCapturedStderr();
}

TEST(UnregisteredModule, IsNamedOnce) {
  const auto twice = [](auto make) { make(), make(); };
  const std::string last = moves_said([&] { twice([] { MovesForgetsLast().parameters(); }); });
  const std::string sentence =
      "MovesForgetsLast: its member Linear(in_features=4, out_features=5, bias=True) is not reg";
  EXPECT_THAT(last, HasSubstr(sentence));
  EXPECT_EQ(last.find(sentence), last.rfind(sentence));
  EXPECT_THAT(moves_said([] { MovesForgetsFirst().parameters(); }),
              HasSubstr("MovesForgetsFirst: its member Sequential is not registered"));
  // A submodule's own.
  struct Around : Module {
    Linear before{7, 7};
    struct Inner : Module {
      Linear kept{6, 6}, lost{6, 7};
      Inner() { register_module("kept", kept); }
    } inner;
    Around() { register_module("before", before), register_module("inner", inner); }
  };
  EXPECT_THAT(moves_said([] { Around().parameters(); }), HasSubstr("Inner: its member Linear(in_features=6, out_feat"));
}

TEST(UnregisteredModule, OthersNearbyAreNotMeant) {
  const std::string said = moves_said([] {
    MovesNet net;
    Linear other(2, 2);
    Sequential chain;
    Linear beside(2, 2);
    chain.add<Linear>(2, 2);
    std::vector<std::unique_ptr<Module>> heap;
    auto list = std::make_unique<ModuleList<Linear>>();
    heap.push_back(std::make_unique<Linear>(2, 2));
    list->emplace_back(2, 2);
    heap.push_back(std::make_unique<Linear>(2, 2));
    struct Late : Module {
      explicit Late(Linear& shared) { register_module("shared", shared); }
    } late(beside);
    std::vector<MovesNet> nets(3);
    nets.emplace_back();
    for (const Module* m : std::initializer_list<const Module*>{&net, &other, &chain, &beside, list.get(), &late})
      m->parameters();
    for (const auto& m : heap) m->parameters();
    for (const auto& m : nets) m.parameters();
  });
  EXPECT_EQ(said, "");
}

TEST(SequentialOfModules, TakesThemInOrder) {
  Linear named(3, 4);
  const Tensor weight = named.weight;
  Sequential net(std::move(named), ReLU(), Linear(4, 2));
  EXPECT_EQ(net.modules.size(), 3u);
  EXPECT_EQ(net.state_dict().at("0.weight").storage(), weight.storage());
  EXPECT_EQ(net(ones({5, 3})).shape(), Shape({5, 2}));
  Sequential one(Dropout(0.5));
  EXPECT_EQ(one.modules.size(), 1u);
  Sequential nested(std::move(net), Sequential(Linear(2, 2)));
  EXPECT_EQ(nested.parameters().size(), 6u);
  EXPECT_EQ(nested.repr(),
            "Sequential(\n"
            "  (0): Sequential(\n"
            "    (0): Linear(in_features=3, out_features=4, bias=True)\n"
            "    (1): ReLU()\n"
            "    (2): Linear(in_features=4, out_features=2, bias=True)\n"
            "  )\n"
            "  (1): Sequential(\n"
            "    (0): Linear(in_features=2, out_features=2, bias=True)\n"
            "  )\n"
            ")");
}

}  // namespace
}  // namespace etna::nn
