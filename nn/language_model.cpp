#include <etna/nn/language_model.h>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/init.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

LanguageModel::LanguageModel(const LanguageModelConfig& config)
    : config(config),
      wte(config.vocab, config.dim),
      wpe(config.seq, config.dim),
      dropout(config.dropout),
      norm(config.dim) {
  register_module("wte", wte);
  register_module("wpe", wpe);
  register_module("dropout", dropout);
  register_module("blocks", blocks);
  checked_size("LanguageModel", "layers", config.layers);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    blocks.emplace_back(config.dim, config.heads, config.ffn, AttentionOptions{.dropout = config.dropout});
  }
  register_module("norm", norm);
  for (const Tensor& p : parameters()) {
    if (p.dim() > 1) init::normal_(p, 0, 0.02);
  }
  for (TransformerBlock& block : blocks) {
    for (Linear* layer : {&block.attention.qkv, &block.attention.proj, &block.ffn.up, &block.ffn.down})
      init::zeros_(layer->bias);
  }
}

Tensor LanguageModel::hidden(const Tensor& tokens) const {
  if (tokens.dim() != 2 || tokens.size(1) > config.seq) {
    throw ShapeError(
        fmt::format("LanguageModel: tokens {} must be [B, T] with T at most {}", str(tokens.shape()), config.seq));
  }
  Tensor x = dropout(wte(tokens) + wpe.weight.slice(0, 0, tokens.size(1)));
  if (!config.recompute_blocks || !grad_enabled()) {
    for (const TransformerBlock& block : blocks) x = block(x);
    return norm(x);
  }
  // Frozen embeddings give no input that requires grad, and nothing inside a checkpoint would be differentiated.
  if (!x.requires_grad()) x = x.detach().requires_grad_();
  for (const TransformerBlock& block : blocks) {
    x = autograd::checkpoint([&block](const TensorList& in) { return TensorList{block(in[0])}; }, {x})[0];
  }
  return norm(x);
}

Tensor LanguageModel::forward(const Tensor& tokens) const { return linear(hidden(tokens), wte.weight); }

Tensor LanguageModel::loss(const Tensor& tokens, const Tensor& targets) const {
  return linear_cross_entropy(hidden(tokens).flatten(0, 1), wte.weight, targets.flatten());
}

std::unique_ptr<Module> LanguageModel::another() const { return std::make_unique<LanguageModel>(config); }

}  // namespace etna::nn
