#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/internal/attention.h>

namespace etna {
namespace {

using AttentionAttrs = attention::AttentionAttrs;

constexpr const char* kAttentionName = "scaled_dot_product_attention";

std::string shapes_in_words(const OpCall& call) {
  return fmt::format("q {}, k {}, v {}", str(call.in[0].shape()), str(call.in[1].shape()), str(call.in[2].shape()));
}

bool leading_match(const Tensor& a, const Tensor& b) {
  if (a.dim() != b.dim()) return false;
  for (int i = 0; i < a.dim() - 3; ++i) {
    if (a.shape()[i] != b.shape()[i]) return false;
  }
  return true;
}

void attention_check_mask(const OpCall& call) {
  const Tensor &q = call.in[0], &k = call.in[1], &mask = call.in[3];
  if (!mask.defined()) return;
  if (call.in[4].defined())
    throw ShapeError(fmt::format("{}: got a mask and documents; use dot_product_attention()", kAttentionName));
  if (call.as<AttentionAttrs>().causal)
    throw ShapeError(fmt::format("{}: got a mask and causal; put the triangle into the mask", kAttentionName));
  if (mask.dtype() != boolean && !is_floating(mask.dtype())) {
    throw DtypeError(fmt::format("{}: the mask holds {}, it must be bool (true: attend) or floating (added)",
                                 kAttentionName, name(mask.dtype())));
  }
  Shape scores = q.shape();
  scores.back() = k.size(-2);
  bool fits = mask.dim() <= scores.rank();
  for (int i = 1; fits && i <= mask.dim(); ++i) fits = mask.size(-i) == 1 || mask.size(-i) == scores[scores.rank() - i];
  if (!fits)
    throw ShapeError(fmt::format("{}: the mask {} does not broadcast to the scores {}", kAttentionName,
                                 str(mask.shape()), str(scores)));
}

}  // namespace

std::vector<OutputSpec> attention::infer(const OpCall& call) {
  const Tensor &q = call.in[0], &k = call.in[1], &v = call.in[2];
  for (int i = 0; i < 3; ++i) {
    DType t = call.in[static_cast<std::size_t>(i)].dtype();
    if (!is_floating(t) || t != q.dtype()) {
      throw DtypeError(fmt::format("{}: q holds {}, k {}, v {}; all must be of one floating dtype", kAttentionName,
                                   name(q.dtype()), name(k.dtype()), name(v.dtype())));
    }
  }
  Shape of_values = v.shape();
  if (v.dim() > 0) of_values.back() = q.dim() > 0 ? q.size(-1) : 0;
  if (q.dim() < 3 || !leading_match(q, k) || k.shape() != of_values || q.size(-1) != k.size(-1)) {
    throw ShapeError(fmt::format(
        "{}: got {}; wanted q [..., H, T, D], k [..., G, S, D] and v [..., G, S, E] with the same leading sizes",
        kAttentionName, shapes_in_words(call)));
  }
  if (k.size(-3) == 0 ? q.size(-3) != 0 : q.size(-3) % k.size(-3) != 0) {
    throw ShapeError(fmt::format("{}: got {}; the {} heads of q must be a multiple of the {} of k and v",
                                 kAttentionName, shapes_in_words(call), q.size(-3), k.size(-3)));
  }
  if (const std::int64_t size = std::max(q.size(-1), v.size(-1)); size > 256)
    throw ShapeError(fmt::format("{}: the head size{} is {}; wanted at most 256", kAttentionName,
                                 size > q.size(-1) ? " of v" : "", size));
  Shape leading = q.shape();
  for (int i = 0; i < 3; ++i) leading.erase(leading.rank() - 1);
  attention::check_limits(kAttentionName, call.as<AttentionAttrs>(), call.in[4], leading, q.size(-2), k.size(-2));
  attention_check_mask(call);
  Shape rows = q.shape(), results = q.shape();
  rows.erase(q.dim() - 1);
  results.back() = v.size(-1);
  return {{results, q.dtype()}, {rows, attention::row_dtype(q.dtype())}};
}

namespace {

std::vector<OutputSpec> attention_backward_infer(const OpCall& call) {
  std::vector<OutputSpec> specs;
  for (std::size_t i = 0; i < 3; ++i) specs.push_back({call.in[i].shape(), call.in[i].dtype()});
  return specs;
}

/// In the accumulation dtype.
attention::Operands attention_operands(const OpCall& call) {
  DType rows = attention::row_dtype(call.in[0].dtype());
  return {call.in[0].to(rows), call.in[1].to(rows), call.in[2].to(rows), call.in[3], call.in[4]};
}

TensorList attention_reference(const OpCall& call) {
  auto attributes = call.as<AttentionAttrs>();
  const attention::Operands in = attention_operands(call);
  return {attention::composed(in, attributes).to(call.in[0].dtype()), attention::composed_logsumexp(in, attributes)};
}

/// Uses q, k, v, mask, documents and the gradient only, not what forward saved, so that it can be differentiated.
TensorList attention_backward_reference(const OpCall& call) {
  DType t = call.in[0].dtype(), rows = attention::row_dtype(t);
  TensorList grads =
      attention::composed_gradients(attention_operands(call), call.in[7].to(rows), call.as<AttentionAttrs>());
  return {grads[0].to(t), grads[1].to(t), grads[2].to(t)};
}

const OpDef kAttentionBackward = {.name = "attention_backward",
                                  .infer = attention_backward_infer,
                                  .cpu = attention::backward_cpu,
                                  .gpu = attention::backward_gpu,
                                  .reference = attention_backward_reference};

TensorList attention_vjp(const VjpCall& call) {
  TensorList grads(5);
  if (!call.grad[0].defined()) return grads;
  const Tensor &q = call.in[0], &k = call.in[1], &v = call.in[2], &mask = call.in[3], &documents = call.in[4];
  if (call.needs[0] || call.needs[1] || call.needs[2]) {
    TensorList found =
        apply(kAttentionBackward, {q, k, v, mask, documents, call.out[0], call.out[1], call.grad[0]}, call.attrs);
    for (std::size_t i = 0; i < 3; ++i) {
      if (call.needs[i]) grads[i] = found[i];
    }
  }
  if (call.needs[3]) {
    DType rows = attention::row_dtype(q.dtype());
    grads[3] = attention::composed_gradients({q.to(rows), k.to(rows), v.to(rows), mask, documents},
                                             call.grad[0].to(rows), call.as<AttentionAttrs>())[3];
  }
  return grads;
}

const OpDef kAttention = {.name = kAttentionName,
                          .infer = attention::infer,
                          .cpu = attention::forward_cpu,
                          .gpu = attention::forward_gpu,
                          .reference = attention_reference,
                          .vjp = attention_vjp,
                          .saved = Saved::both};

}  // namespace

Tensor attention::fused(const Tensor& q, const Tensor& k, const Tensor& v, const Extras& extras,
                        AttentionAttrs attributes, std::optional<double> scale) {
  detail::require_defined("scaled_dot_product_attention", q, k, v);
  Tensor a = detail::lowered(q), b = detail::lowered(k), c = detail::lowered(v);
  if (is_floating(a.dtype()) && is_floating(b.dtype()) && is_floating(c.dtype())) {
    DType t = promote(promote(a.dtype(), b.dtype()), c.dtype());
    a = q.to(t), b = k.to(t), c = v.to(t);
  }
  double size = q.dim() > 0 ? static_cast<double>(q.size(-1)) : 1;
  if (q.dim() > 1 && attributes.window >= q.size(-2)) attributes.window = 0;
  attributes.scale = scale ? *scale : size > 0 ? 1 / std::sqrt(size) : 1;
  if (extras.sinks.defined()) return fused_with_sinks(a, b, c, extras, attributes);
  return apply1(kAttention, {a, b, c, extras.mask, extras.documents}, Attrs::of(attributes));
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
                                    std::optional<double> scale) {
  return attention::fused(q, k, v, {.mask = mask}, {.causal = causal}, scale);
}

std::span<const OpDef* const> ops_in_attention() {
  static const OpDef* const list[] = {&kAttention, &kAttentionBackward};
  return list;
}

}  // namespace etna
