#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

// Attention with settings that the fused op lacks, composed of other ops.
namespace etna {
namespace {

constexpr const char* kAttentionSettingsName = "dot_product_attention";
constexpr double kAttentionSettingsMinusInfinity = -std::numeric_limits<double>::infinity();

void attention_settings_check(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSettings& s) {
  detail::require_defined(kAttentionSettingsName, q, k, v);
  const auto fail = [&](const char* wanted) {
    throw ShapeError(fmt::format("{}: q {}, k {}, v {}; {}", kAttentionSettingsName, str(q.shape()), str(k.shape()),
                                 str(v.shape()), wanted));
  };
  if (q.dim() < 3 || k.dim() != q.dim() || v.dim() != q.dim()) fail("wanted [..., heads, rows, size], of one rank");
  for (int d = 0; d < q.dim() - 3; ++d) {
    if (q.shape()[d] != k.shape()[d] || q.shape()[d] != v.shape()[d]) fail("wanted equal leading sizes");
  }
  if (q.size(-1) != k.size(-1)) fail("wanted one head size of q and k");
  if (k.size(-2) != v.size(-2) || k.size(-3) != v.size(-3)) fail("wanted as many heads and rows of k as of v");
  if (k.size(-3) == 0 ? q.size(-3) != 0 : q.size(-3) % k.size(-3) != 0)
    fail("the heads of q must be a multiple of those of k and v");
  if (s.causal_from_end && k.size(-2) < q.size(-2)) fail("causal_from_end: there are more queries than keys");
  if (s.softcap < 0) throw Error(fmt::format("{}: softcap {} must not be negative", kAttentionSettingsName, s.softcap));
}

double scale_of(const Tensor& q, const AttentionSettings& s) {
  const auto size = static_cast<double>(q.size(-1));
  return s.scale ? *s.scale : size > 0 ? 1 / std::sqrt(size) : 1;
}

/// Combines everything that hides keys in one mask: bool, or floating if the given mask is; undefined if nothing hides
/// keys.
Tensor whole_mask(const Tensor& q, const Tensor& k, const AttentionSettings& s) {
  if (!s.causal && !s.causal_from_end) return s.mask;
  const std::int64_t queries = q.size(-2), keys = k.size(-2), past = s.causal_from_end ? keys - queries : 0;
  const Tensor seen = ne(tril(ones({queries, keys}, {f32, q.device()}), past), 0.0);
  if (!s.mask.defined()) return seen;
  return s.mask.dtype() == boolean ? s.mask & seen : masked_fill(s.mask, ~seen, kAttentionSettingsMinusInfinity);
}

Tensor repeat_heads(const Tensor& x, std::int64_t heads) {
  const std::int64_t groups = x.size(-3);
  if (groups == heads) return x;
  Shape repeated = x.shape(), merged = x.shape();
  repeated.insert(x.dim() - 2, heads / groups);
  merged[x.dim() - 3] = heads;
  return x.unsqueeze(-3).expand(repeated).reshape(merged);
}

Tensor attention_settings_padded(const Tensor& x, std::int64_t size) {
  Shape more = x.shape();
  more.back() = size - x.size(-1);
  if (more.back() == 0) return x;
  return cat({x, zeros(more, {x.dtype(), x.device()})}, -1);
}

}  // namespace

WeightedAttention attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionSettings& s) {
  attention_settings_check(q, k, v, s);
  const std::int64_t heads = q.size(-3);
  const Tensor mask = whole_mask(q, k, s);
  Tensor scores = matmul(detail::lowered(q), detail::lowered(repeat_heads(k, heads)).t());
  const DType t = scores.dtype();
  if (t == f16 || t == bf16) scores = scores.to(f32);
  scores = scores * scale_of(q, s);
  if (s.softcap > 0) scores = tanh(scores / s.softcap) * s.softcap;
  if (mask.defined()) {
    scores = mask.dtype() == boolean ? masked_fill(scores, ~mask, kAttentionSettingsMinusInfinity)
                                     : scores + mask.to(scores.dtype());
  }
  Tensor weights = scores;
  if (k.size(-2) > 0) {
    // A row that may attend to nothing becomes 0, as in the fused op.
    const Tensor nothing = mask.defined() ? eq(max(scores, {-1}, true), kAttentionSettingsMinusInfinity) : Tensor();
    weights = softmax(mask.defined() ? masked_fill(scores, nothing, 0.0) : scores, -1);
    if (mask.defined()) weights = masked_fill(weights, nothing, 0.0);
  }
  weights = weights.to(t);
  const Tensor used = s.dropout > 0 ? dropout(weights, s.dropout) : weights;
  return {matmul(used, repeat_heads(v, heads).to(t)), weights};
}

Tensor dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSettings& s) {
  if (s.softcap > 0 || s.dropout > 0) return attention_with_weights(q, k, v, s).output;
  attention_settings_check(q, k, v, s);
  const bool square = q.size(-2) == k.size(-2), alone = !s.mask.defined();
  const bool causal = alone && (s.causal || (s.causal_from_end && square));
  const Tensor mask = causal && (!s.causal_from_end || square) ? Tensor() : whole_mask(q, k, s);
  const std::int64_t size = v.size(-1), widest = std::max(size, q.size(-1));
  const Tensor y = scaled_dot_product_attention(
      attention_settings_padded(q, widest), attention_settings_padded(k, widest), attention_settings_padded(v, widest),
      mask, !mask.defined() && causal, scale_of(q, s));
  return size == widest ? y : y.slice(-1, 0, size);
}

Tensor swiglu(const Tensor& gate, const Tensor& up) { return silu(gate) * up; }
Tensor geglu(const Tensor& gate, const Tensor& up) { return gelu(gate) * up; }

}  // namespace etna
