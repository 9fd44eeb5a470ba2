#include <etna/nn/attention.h>

#include <fmt/format.h>

#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

std::int64_t checked_kv_heads(std::int64_t dim, std::int64_t heads, std::int64_t kv_heads) {
  if (heads < 1 || dim < 1 || dim % heads != 0) {
    throw ShapeError(fmt::format("MultiHeadAttention: {} heads do not divide a width of {}", heads, dim));
  }
  if (kv_heads == 0) return heads;
  if (kv_heads < 0 || heads % kv_heads != 0) {
    throw ShapeError(fmt::format("MultiHeadAttention: {} key and value heads do not divide {} heads", kv_heads, heads));
  }
  return kv_heads;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::int64_t dim, std::int64_t heads, AttentionOptions options)
    : heads(heads),
      kv_heads(checked_kv_heads(dim, heads, options.kv_heads)),
      causal(options.causal),
      qkv(dim,
          checked_sum(dim, checked_product(2, kv_heads * (dim / heads), "MultiHeadAttention"), "MultiHeadAttention"),
          options.bias),
      proj(dim, dim, options.bias),
      dropout(options.dropout) {
  register_module("qkv", qkv);
  register_module("proj", proj);
  register_module("dropout", dropout);
}

std::string MultiHeadAttention::extra_repr() const {
  return fmt::format("heads={}, kv_heads={}, causal={}", heads, kv_heads, causal ? "True" : "False");
}

std::unique_ptr<Module> MultiHeadAttention::another() const {
  const AttentionOptions options{
      .kv_heads = kv_heads, .bias = proj.bias.defined(), .dropout = dropout.p, .causal = causal};
  return std::make_unique<MultiHeadAttention>(proj.weight.size(0), heads, options);
}

Tensor MultiHeadAttention::forward(const Tensor& x) const {
  if (x.dim() < 2) {
    throw ShapeError(fmt::format("MultiHeadAttention: x {} must be [..., T, {}]", str(x.shape()), proj.weight.size(0)));
  }
  return dropout(proj(self_attention(qkv(x), heads, kv_heads, causal)));
}

}  // namespace etna::nn
