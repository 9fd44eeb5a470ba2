#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <etna/nn/transformer.h>
#include <etna/tensor/ops.h>
#include <torch/modules.h>

namespace etna {
namespace {

class TorchTransformer : public testing::Test {
 protected:
  /// @param call gets the inputs, and returns outputs; an undefined one is left out
  void check(const std::string& name, nn::Module& module, const std::function<TensorList(const TensorList&)>& call) {
    const nlohmann::json& figure = all["cases"][name];
    figures::load_state(module, figure["state"]);
    module.to(device);
    TensorList inputs = figures::tensors(figure["inputs"], device), outputs;
    for (Tensor& x : inputs) x.requires_grad_();
    for (const Tensor& y : call(inputs)) {
      if (y.defined()) outputs.push_back(y);
    }
    figures::expect_results(name, module, outputs, figure["outputs"], figures::tensors(figure["seeds"], device), inputs,
                            figure["input_gradients"], figure["gradients"]);
  }
  /// True above the diagonal.
  Tensor later(std::int64_t n) const { return ne(triu(ones({n, n}, device), 1), 0.0); }

  const nlohmann::json all = figures::load("transformer");
  Device device;
};

TensorList list(const nn::MultiheadOutput& y) { return {y.output, y.weights}; }

TEST_F(TorchTransformer, Attention) {
  for (Device d : figures::devices()) {
    device = d;
    const Tensor hidden = figures::tensor(all["hidden"], d), floating = figures::tensor(all["floating"], d);
    nn::MultiheadAttention self(4, 2);
    check("self", self, [&](const TensorList& in) { return list(self(in[0], in[0], in[0], {}, false)); });
    check("self_causal", self,
          [&](const TensorList& in) { return list(self(in[0], in[0], in[0], {.attn_mask = later(3)}, false)); });
    check("self_causal", self,
          [&](const TensorList& in) { return list(self(in[0], in[0], in[0], {.is_causal = true}, false)); });
    check("self_weights", self,
          [&](const TensorList& in) { return list(self(in[0], in[0], in[0], {.attn_mask = later(3)})); });
    nn::MultiheadAttention cross(4, 2, {.kdim = 3, .vdim = 5, .batch_first = true});
    check("cross", cross,
          [&](const TensorList& in) { return list(cross(in[0], in[1], in[2], {.key_padding_mask = hidden}, false)); });
    check("cross_weights", cross, [&](const TensorList& in) {
      return list(cross(in[0], in[1], in[2], {.key_padding_mask = hidden, .attn_mask = floating}, true, false));
    });
    nn::MultiheadAttention more(4, 2, {.bias = false, .add_bias_kv = true, .add_zero_attn = true});
    check("more_unbatched", more,
          [&](const TensorList& in) { return list(more(in[0], in[1], in[1], {.key_padding_mask = hidden[0]})); });
  }
}

TEST_F(TorchTransformer, LayersAndStacks) {
  for (Device d : figures::devices()) {
    device = d;
    const nn::TransformerOptions post{.dim_feedforward = 5, .dropout = 0};
    nn::TransformerOptions pre = post;
    pre.norm_first = pre.batch_first = true, pre.activation = Activation::gelu;
    for (const auto& [name, options] : {std::pair{"post", post}, std::pair{"pre", pre}}) {
      nn::TransformerEncoderLayer encoder(4, 2, options);
      check(std::string("encoder_layer_") + name, encoder, [&](const TensorList& in) {
        return TensorList{encoder(in[0], {.mask = later(in[0].size(encoder.options.batch_first ? 1 : 0))})};
      });
      nn::TransformerDecoderLayer decoder(4, 2, options);
      check(std::string("decoder_layer_") + name, decoder, [&](const TensorList& in) {
        return TensorList{decoder(in[0], in[1], {.mask = later(in[0].size(decoder.options.batch_first ? 1 : 0))})};
      });
    }
    nn::TransformerOptions options = post;
    options.batch_first = true;
    nn::Transformer both(4, 2, 2, 1, options);
    const Tensor hidden = figures::tensor(all["hidden"], d);
    check("transformer", both, [&](const TensorList& in) {
      return TensorList{both(in[0], in[1], {.key_padding_mask = hidden},
                             {.mask = nn::Transformer::generate_square_subsequent_mask(3, device)},
                             {.key_padding_mask = hidden})};
    });
  }
}

}  // namespace
}  // namespace etna
