#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/attention/internal/attention.h>

// Self-attention from one fused projection to one result. Replaces scaled_dot_product_attention, the views that slice
// q, k and v, and the copies that concatenate heads and gradients.
namespace etna {
namespace {

using SelfAttentionAttrs = attention::AttentionAttrs;

constexpr const char* kSelfAttentionName = "self_attention";

/// Number of heads in q, k and v together.
std::int64_t all_heads(std::int64_t heads, std::int64_t groups) {
  return checked_sum(heads, checked_product(2, groups, kSelfAttentionName), kSelfAttentionName);
}

std::vector<OutputSpec> self_attention_infer(const OpCall& call) {
  const Tensor& qkv = call.in[0];
  const auto attributes = call.as<SelfAttentionAttrs>();
  const std::int64_t heads = attributes.heads, groups = attributes.groups;
  if (!is_floating(qkv.dtype()))
    throw DtypeError(
        fmt::format("{}: qkv holds {}, it must be f64, f32, f16 or bf16", kSelfAttentionName, name(qkv.dtype())));
  if (heads < 1 || groups < 1 || heads % groups != 0) {
    throw ShapeError(
        fmt::format("{}: got {} heads and {} key and value heads; the former must be a multiple of the latter",
                    kSelfAttentionName, heads, groups));
  }
  std::int64_t all = all_heads(heads, groups);
  if (qkv.dim() < 2 || qkv.size(-1) % all != 0) {
    throw ShapeError(fmt::format("{}: got qkv {}; wanted [..., T, ({} + 2 · {}) · D]", kSelfAttentionName,
                                 str(qkv.shape()), heads, groups));
  }
  std::int64_t size = qkv.size(-1) / all;
  if (size > 256)
    throw ShapeError(fmt::format("{}: the head size is {}; wanted at most 256", kSelfAttentionName, size));
  Shape leading = qkv.shape();
  for (int i = 0; i < 2; ++i) leading.erase(leading.rank() - 1);
  attention::check_limits(kSelfAttentionName, attributes, call.in[1], leading, qkv.size(-2), qkv.size(-2));
  Shape result = qkv.shape(), rows = qkv.shape();
  result.back() = heads * size;
  rows[qkv.dim() - 2] = heads;
  rows.back() = qkv.size(-2);
  return {{result, qkv.dtype()}, {rows, attention::row_dtype(qkv.dtype())}};
}

std::vector<OutputSpec> self_attention_backward_infer(const OpCall& call) {
  return {{call.in[0].shape(), call.in[0].dtype()}};
}

/// x [..., T, n · D] as [..., n, T, D].
Tensor to_heads(const Tensor& x, std::int64_t n) {
  Shape shape = x.shape();
  shape.back() = n;
  shape.push_back(x.size(-1) / n);
  return x.reshape(shape).transpose(-2, -3);
}
/// The inverse of to_heads().
Tensor from_heads(const Tensor& x) {
  Tensor rows = x.transpose(-2, -3);
  Shape shape = rows.shape();
  shape.erase(shape.rank() - 1);
  shape.back() = x.size(-3) * x.size(-1);
  return rows.reshape(shape);
}

/// In the accumulation dtype.
attention::Operands parts(const OpCall& call) {
  auto attributes = call.as<SelfAttentionAttrs>();
  Tensor all =
      to_heads(call.in[0].to(attention::row_dtype(call.in[0].dtype())), attributes.heads + 2 * attributes.groups);
  const TensorList three = all.split({attributes.heads, attributes.groups, attributes.groups}, -3);
  return {three[0], three[1], three[2], {}, call.in[1]};
}

TensorList self_attention_reference(const OpCall& call) {
  auto attributes = call.as<SelfAttentionAttrs>();
  const attention::Operands in = parts(call);
  return {from_heads(attention::composed(in, attributes)).to(call.in[0].dtype()),
          attention::composed_logsumexp(in, attributes)};
}

/// Uses qkv, documents and the gradient only, not what forward saved, so that it can be differentiated.
TensorList self_attention_backward_reference(const OpCall& call) {
  auto attributes = call.as<SelfAttentionAttrs>();
  const attention::Operands in = parts(call);
  Tensor dy = to_heads(call.in[4].to(in.q.dtype()), attributes.heads);
  TensorList grads = attention::composed_gradients(in, dy, attributes);
  return {from_heads(cat({grads[0], grads[1], grads[2]}, -3)).to(call.in[0].dtype())};
}

const OpDef kSelfAttentionBackward = {.name = "self_attention_backward",
                                      .infer = self_attention_backward_infer,
                                      .cpu = attention::self_backward_cpu,
                                      .gpu = attention::self_backward_gpu,
                                      .reference = self_attention_backward_reference};

TensorList self_attention_vjp(const VjpCall& call) {
  if (!call.grad[0].defined()) return {{}, {}};
  return {apply1(kSelfAttentionBackward, {call.in[0], call.in[1], call.out[0], call.out[1], call.grad[0]}, call.attrs),
          {}};
}

const OpDef kSelfAttention = {.name = kSelfAttentionName,
                              .infer = self_attention_infer,
                              .cpu = attention::self_forward_cpu,
                              .gpu = attention::self_forward_gpu,
                              .reference = self_attention_reference,
                              .vjp = self_attention_vjp,
                              .saved = Saved::both};

}  // namespace

Tensor self_attention(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const AttentionSettings& settings) {
  detail::require_defined("self_attention", qkv);
  if (settings.mask.defined() || settings.dropout > 0 || settings.sinks.defined()) {
    throw Error(fmt::format("{}: got {}; use dot_product_attention()", kSelfAttentionName,
                            settings.mask.defined() ? "a mask"
                            : settings.dropout > 0  ? "dropout"
                                                    : "sinks"));
  }
  const std::int64_t rows = qkv.dim() > 1 ? qkv.size(-2) : 0;
  Shape leading = qkv.shape();
  for (int i = 0; i < 2 && leading.rank() > 0; ++i) leading.erase(leading.rank() - 1);
  const AttentionSettings s =
      attention::with_chunk_as_documents(kSelfAttentionName, settings, leading, rows, rows, qkv.device());
  std::int64_t groups = kv_heads == 0 ? heads : kv_heads, all = all_heads(heads, groups);
  double size = qkv.dim() > 0 && all > 0 ? static_cast<double>(qkv.size(-1)) / static_cast<double>(all) : 1;
  return apply1(kSelfAttention, {detail::lowered(qkv), s.documents},
                Attrs::of(SelfAttentionAttrs{.causal = s.causal || s.causal_from_end,
                                             .scale = s.scale    ? *s.scale
                                                      : size > 0 ? 1 / std::sqrt(size)
                                                                 : 1,
                                             .heads = heads,
                                             .groups = groups,
                                             .window = qkv.dim() > 1 && s.window >= qkv.size(-2) ? 0 : s.window,
                                             .softcap = s.softcap}));
}

Tensor self_attention(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, bool causal,
                      std::optional<double> scale) {
  return self_attention(qkv, heads, kv_heads, AttentionSettings{.causal = causal, .scale = scale});
}

std::span<const OpDef* const> ops_in_self_attention() {
  static const OpDef* const list[] = {&kSelfAttention, &kSelfAttentionBackward};
  return list;
}

}  // namespace etna
