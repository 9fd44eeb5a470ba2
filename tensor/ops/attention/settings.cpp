#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/attention/internal/attention.h>

// Attention with settings that the fused op lacks: as a mask, or composed of other ops.
namespace etna {
namespace {

constexpr const char* kAttentionSettingsName = "dot_product_attention";
constexpr double kAttentionSettingsMinusInfinity = -std::numeric_limits<double>::infinity();

/// What the fused op knows, too.
attention::AttentionAttrs limits_of(const AttentionSettings& s) {
  return {.causal = s.causal || s.causal_from_end, .window = s.window, .softcap = s.softcap};
}

/// @return the settings, with documents in place of chunks
AttentionSettings checked_settings(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSettings& s) {
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
  Shape leading = q.shape();
  for (int i = 0; i < 3; ++i) leading.erase(leading.rank() - 1);
  attention::check_limits(kAttentionSettingsName, limits_of(s), s.documents, leading, q.size(-2), k.size(-2));
  return attention::with_chunk_as_documents(kAttentionSettingsName, s, leading, q.size(-2), k.size(-2), q.device());
}

double scale_of(const Tensor& q, const AttentionSettings& s) {
  const auto size = static_cast<double>(q.size(-1));
  return s.scale ? *s.scale : size > 0 ? 1 / std::sqrt(size) : 1;
}

/// Combines everything that hides keys in one mask: bool, or floating if the given mask is; undefined if nothing hides
/// keys.
Tensor whole_mask(const Tensor& q, const Tensor& k, const AttentionSettings& s) {
  const std::int64_t queries = q.size(-2), keys = k.size(-2), past = s.causal_from_end ? keys - queries : 0;
  const Tensor seen = attention::attended(limits_of(s), s.documents, queries, keys, past, q.device());
  if (!seen.defined()) return s.mask;
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

}  // namespace

WeightedAttention attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionSettings& settings) {
  const AttentionSettings s = checked_settings(q, k, v, settings);
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
    if (s.sinks.defined()) {
      // What the keys have of all weights; the sink has the rest.
      const Tensor sinks = attention::checked_sinks(s.sinks, heads).to(scores.dtype()).unsqueeze(-1);
      weights = weights * sigmoid(logsumexp(scores, {-1}) - sinks).unsqueeze(-1);
    }
  }
  weights = weights.to(t);
  const Tensor used = s.dropout > 0 ? dropout(weights, s.dropout) : weights;
  return {matmul(used, repeat_heads(v, heads).to(t)), weights};
}

Tensor dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSettings& settings) {
  // The fused op ends at heads of 256 elements.
  const bool wide = q.defined() && v.defined() && q.dim() > 0 && v.dim() > 0 && std::max(q.size(-1), v.size(-1)) > 256;
  if (settings.dropout > 0 || wide) return attention_with_weights(q, k, v, settings).output;
  const AttentionSettings s = checked_settings(q, k, v, settings);
  const attention::AttentionAttrs limits = limits_of(s);
  if (!s.mask.defined() && (!s.causal_from_end || q.size(-2) == k.size(-2)))
    return attention::fused(q, k, v, {{}, s.documents, s.sinks}, limits, s.scale);
  return attention::fused(q, k, v, {whole_mask(q, k, s), {}, s.sinks}, {.softcap = limits.softcap}, s.scale);
}

Tensor swiglu(const Tensor& gate, const Tensor& up) { return silu(gate) * up; }
Tensor geglu(const Tensor& gate, const Tensor& up) { return gelu(gate) * up; }

}  // namespace etna
