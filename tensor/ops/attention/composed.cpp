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

Tensor raw_scores(const Operands& in, const AttentionAttrs& attributes) {
  return matmul(in.q, repeat_groups(in.k, in.q.size(-3)).t()) * attributes.scale;
}

/// Raw scores with the soft cap and all that hides keys.
Tensor scores(const Tensor& raw, const Operands& in, const AttentionAttrs& attributes) {
  Tensor s = attributes.softcap > 0 ? tanh(raw / attributes.softcap) * attributes.softcap : raw;
  const Tensor seen = attended(attributes, in.documents, in.q.size(-2), in.k.size(-2), 0, in.q.device());
  if (seen.defined()) s = masked_fill(s, logical_not(seen), kMinusInfinity);
  if (!in.mask.defined()) return s;
  return in.mask.dtype() == boolean ? masked_fill(s, logical_not(in.mask), kMinusInfinity) : s + in.mask.to(s.dtype());
}

/// Of each row; 1 row of -inf where there are no keys.
Tensor logsumexp_of(const Tensor& s) {
  return s.size(-1) == 0 ? full(sum(s, {-1}).shape(), kMinusInfinity, {s.dtype(), s.device()}) : logsumexp(s, {-1});
}

/// What the keys of each row have of the weights; the sink has the rest. @param s scores @return [..., H, T, 1]
Tensor share_of_keys(const Tensor& s, const Tensor& sinks) {
  return sigmoid(logsumexp_of(s) - sinks.unsqueeze(-1)).unsqueeze(-1);
}

/// Softmax over keys and the sink; rows without a key to attend to are 0.
Tensor weights(const Tensor& s, const Tensor& sinks) {
  if (s.size(-1) == 0) return s;
  Tensor nothing = eq(max(s, {-1}, true), kMinusInfinity);
  const Tensor p = masked_fill(softmax(masked_fill(s, nothing, 0.0), -1), nothing, 0.0);
  return sinks.defined() ? p * share_of_keys(masked_fill(s, nothing, 0.0), sinks) : p;
}

}  // namespace

Tensor composed(const Operands& in, const AttentionAttrs& attributes) {
  return matmul(weights(scores(raw_scores(in, attributes), in, attributes), in.sinks),
                repeat_groups(in.v, in.q.size(-3)));
}

Tensor composed_logsumexp(const Operands& in, const AttentionAttrs& attributes) {
  const Tensor of_keys = logsumexp_of(scores(raw_scores(in, attributes), in, attributes));
  if (!in.sinks.defined()) return of_keys;
  const Tensor sinks = in.sinks.unsqueeze(-1);
  return maximum(of_keys, sinks) + log1p(exp(-abs(of_keys - sinks)));
}

TensorList composed_gradients(const Operands& in, const Tensor& gradient, const AttentionAttrs& attributes) {
  const Tensor& mask = in.mask;
  std::int64_t heads = in.q.size(-3), groups = in.k.size(-3);
  const Tensor raw = raw_scores(in, attributes);
  const Tensor s = scores(raw, in, attributes), p = weights(s, in.sinks);
  Tensor dp = matmul(gradient, repeat_groups(in.v, heads).t());
  const Tensor mean = sum(p * dp, {-1}, true);
  Tensor ds = p * (dp - mean);
  Tensor dmask = mask.defined() && is_floating(mask.dtype()) ? sum_to(ds, mask.shape()).to(mask.dtype()) : Tensor();
  if (attributes.softcap > 0) ds = ds * (1.0 - square(tanh(raw / attributes.softcap)));
  Tensor dq = matmul(ds, repeat_groups(in.k, heads)) * attributes.scale;
  Tensor dk = sum_groups(matmul(ds.t(), in.q), groups) * attributes.scale;
  Tensor dv = sum_groups(matmul(p.t(), gradient), groups);
  Tensor dsinks;
  if (in.sinks.defined()) {
    const Tensor of_sink = 1.0 - share_of_keys(s, in.sinks);
    dsinks = sum_to((-of_sink * mean).squeeze(-1), {heads, 1}).squeeze(-1);
  }
  return {dq, dk, dv, dmask, dsinks};
}

}  // namespace etna::attention
