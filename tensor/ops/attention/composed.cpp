#include <limits>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/internal/attention.h>

namespace etna::attention {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// [..., G, S, D] → [..., H, S, D]: repeats each group for its heads.
Tensor repeat_groups(const Tensor& x, std::int64_t heads) {
  std::int64_t groups = x.size(-3);
  if (groups == heads) return x;
  Shape repeated = x.shape(), merged = x.shape();
  repeated.insert(x.dim() - 2, heads / groups);
  merged[x.dim() - 3] = heads;
  return x.unsqueeze(-3).expand(repeated).reshape(merged);
}

/// The gradient of repeat_groups().
Tensor sum_groups(const Tensor& g, std::int64_t groups) {
  std::int64_t heads = g.size(-3);
  if (groups == heads) return g;
  Shape split = g.shape();
  split[g.dim() - 3] = heads / groups;
  split.insert(g.dim() - 3, groups);
  return sum(g.reshape(split), {-3});
}

Tensor scores(const Tensor& q, const Tensor& k, const Tensor& mask, const AttentionAttrs& attributes) {
  Tensor s = matmul(q, repeat_groups(k, q.size(-3)).t()) * attributes.scale;
  if (attributes.causal) {
    Tensor allowed = tril(ones({q.size(-2), k.size(-2)}, {f32, q.device()}));
    s = masked_fill(s, eq(allowed, 0.0), kMinusInfinity);
  }
  if (!mask.defined()) return s;
  return mask.dtype() == boolean ? masked_fill(s, logical_not(mask), kMinusInfinity) : s + mask.to(s.dtype());
}

/// Softmax over keys; rows without a key to attend to are 0.
Tensor weights(const Tensor& s) {
  if (s.size(-1) == 0) return s;
  Tensor nothing = eq(max(s, {-1}, true), kMinusInfinity);
  return masked_fill(softmax(masked_fill(s, nothing, 0.0), -1), nothing, 0.0);
}

}  // namespace

Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                const AttentionAttrs& attributes) {
  return matmul(weights(scores(q, k, mask, attributes)), repeat_groups(v, q.size(-3)));
}

Tensor composed_logsumexp(const Tensor& q, const Tensor& k, const Tensor& mask, const AttentionAttrs& attributes) {
  Tensor s = scores(q, k, mask, attributes);
  return s.size(-1) == 0 ? full(sum(s, {-1}).shape(), kMinusInfinity, {s.dtype(), s.device()}) : logsumexp(s, {-1});
}

TensorList composed_gradients(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                              const Tensor& gradient, const AttentionAttrs& attributes) {
  std::int64_t heads = q.size(-3), groups = k.size(-3);
  Tensor p = weights(scores(q, k, mask, attributes));
  Tensor dp = matmul(gradient, repeat_groups(v, heads).t());
  Tensor ds = p * (dp - sum(p * dp, {-1}, true));
  Tensor dq = matmul(ds, repeat_groups(k, heads)) * attributes.scale;
  Tensor dk = sum_groups(matmul(ds.t(), q), groups) * attributes.scale;
  Tensor dv = sum_groups(matmul(p.t(), gradient), groups);
  Tensor dmask = mask.defined() && is_floating(mask.dtype()) ? sum_to(ds, mask.shape()).to(mask.dtype()) : Tensor();
  return {dq, dk, dv, dmask};
}

}  // namespace etna::attention
