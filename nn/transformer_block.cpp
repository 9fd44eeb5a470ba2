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

std::unique_ptr<Module> TransformerBlock::another() const {
  const AttentionOptions options{.kv_heads = attention.kv_heads,
                                 .bias = attention.proj.bias.defined(),
                                 .dropout = attention.dropout.p,
                                 .causal = attention.causal};
  return std::make_unique<TransformerBlock>(norm1.weight.size(0), attention.heads, ffn.up.weight.size(0), options);
}

Tensor TransformerBlock::forward(const Tensor& x) const {
  Tensor y = x + attention(norm1(x));
  return y + ffn(norm2(y));
}

}  // namespace etna::nn
