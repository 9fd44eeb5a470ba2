#include <etna/nn/transformer_block.h>

#include <etna/tensor/ops.h>

namespace etna::nn {

TransformerBlock::TransformerBlock(std::int64_t dim, std::int64_t heads, std::int64_t hidden, AttentionOptions options)
    : norm1(dim), attention(dim, heads, options), norm2(dim), ffn(dim, hidden, options.dropout) {
  register_module("norm1", norm1);
  register_module("", attention);
  register_module("norm2", norm2);
  register_module("", ffn);
}

Tensor TransformerBlock::forward(const Tensor& x) const { return forward(Residual{x}).sum(); }

Residual TransformerBlock::forward(const Residual& r) const {
  auto [x, normed1] = norm1.forward(r);
  auto [y, normed2] = attention.forward(normed1, x, norm2);
  return {y, ffn(normed2)};
}

AddedNorm TransformerBlock::forward(const AddedNorm& x, const LayerNorm& next) const {
  auto [y, normed] = attention.forward(x.normed, x.sum, norm2);
  return ffn.forward(normed, y, next);
}

}  // namespace etna::nn
