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

Tensor TransformerBlock::forward(const Tensor& x) const {
  Tensor y = x + attention(norm1(x));
  return y + ffn(norm2(y));
}

}  // namespace etna::nn
