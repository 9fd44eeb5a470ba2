#include <functional>

#include <gtest/gtest.h>

#include <etna/nn/nn.h>
#include <etna/tensor/ops.h>
#include <torch/modules.h>

namespace etna {
namespace {

class TorchModules : public testing::Test {
 protected:
  void check(const std::string& name, nn::Module& module, const std::function<Tensor(const TensorList&)>& call) {
    const nlohmann::json& figure = all["cases"][name];
    figures::load_state(module, figure["state"]);
    module.to(device);
    const Tensor y = call(figures::tensors(figure["inputs"], device));
    figures::expect_results(name, module, {y}, nlohmann::json::array({figure["output"]}),
                            {figures::tensor(figure["seed"], device)}, {}, {}, figure["gradients"]);
  }

  const nlohmann::json all = figures::load("modules");
  Device device;
};

TEST_F(TorchModules, Parametrizations) {
  for (Device d : figures::devices()) {
    device = d;
    const std::pair<const char*, std::optional<std::int64_t>> dims[] = {{"rows", 0}, {"columns", 1}, {"all", {}}};
    for (const auto& [name, dim] : dims) {
      nn::Linear layer(3, 4);
      nn::weight_norm(layer, "weight", dim);
      check(std::string("weight_norm_") + name, layer, [&](const TensorList& in) { return layer(in[0]); });
    }
    for (const char* name : {"training", "evaluating"}) {
      nn::Linear layer(3, 4);
      nn::spectral_norm(layer, "weight", 2);
      layer.train(std::string(name) == "training");
      check(std::string("spectral_norm_") + name, layer, [&](const TensorList& in) { return layer(in[0]); });
      figures::expect_close(layer.named_buffers()[0].tensor, all["cases"][std::string("spectral_norm_") + name]["u"]);
    }
  }
}

TEST_F(TorchModules, BilinearAndEmbeddingBag) {
  for (Device d : figures::devices()) {
    device = d;
    nn::Bilinear bilinear(3, 2, 4);
    check("bilinear", bilinear, [&](const TensorList& in) { return bilinear(in[0], in[1]); });
    const std::pair<const char*, nn::BagMode> modes[] = {
        {"sum", nn::BagMode::sum}, {"mean", nn::BagMode::mean}, {"max", nn::BagMode::max}};
    for (const auto& [name, mode] : modes) {
      for (bool pads : {false, true}) {
        nn::EmbeddingBagOptions options{.mode = mode};
        if (pads) options.padding_idx = 4;
        nn::EmbeddingBag bag(5, 3, options);
        const std::string given = std::string("bag_") + name + (pads ? "_padding" : "");
        check(given, bag, [&](const TensorList& in) { return bag(in[0], in[1]); });
        check(given + "_rows", bag, [&](const TensorList& in) { return bag(in[0]); });
      }
    }
    nn::EmbeddingBag bag(5, 3, {.mode = nn::BagMode::sum, .include_last_offset = true});
    check("bag_factors", bag, [&](const TensorList& in) { return bag(in[0], in[1], in[2]); });
  }
}

TEST_F(TorchModules, PrintsAsPyTorchDoes) {
  nn::Sequential net;
  net.add<nn::Linear>(2, 3).add<nn::ReLU>();
  auto inner = std::make_unique<nn::Sequential>();
  inner->add<nn::LayerNorm>(3).add<nn::Dropout>(0.25);
  net.add(std::move(inner));
  // Sequential takes modules of one tensor; a plain module prints what else there is.
  struct Rest : nn::Module {
    nn::LSTM lstm{3, 4, {.num_layers = 2, .batch_first = true, .bidirectional = true}};
    nn::GRU gru{3, 4, {.bias = false}};
    nn::Identity identity;
    nn::GELU gelu;
    nn::SiLU silu;
    nn::Embedding embedding{5, 3};
    nn::Dropout2d dropout{0.5};
    nn::AlphaDropout alpha{0.5};
    nn::Bilinear bilinear{3, 2, 4};
    nn::EmbeddingBag bag{5, 3};
    nn::ModuleDict<> dict;
    explicit Rest(nn::Sequential& before) {
      dict.emplace<nn::Linear>("a", 1, 1, false);
      register_module("", before);
      int i = 3;
      for (nn::Module* m : std::initializer_list<nn::Module*>{&lstm, &gru, &identity, &gelu, &silu, &embedding,
                                                              &dropout, &alpha, &bilinear, &bag, &dict})
        register_module(std::to_string(i++), *m);
    }
    std::string type_name() const override { return "Sequential"; }
  };
  EXPECT_EQ(Rest(net).repr(), all["printed"].get<std::string>());
}

}  // namespace
}  // namespace etna
