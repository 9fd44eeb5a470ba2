#include <algorithm>

#include <etna/tensor/internal/layout.h>
#include <etna/tensor/ops/attention/internal/attention.h>
#include <etna/tensor/ops/resample/resample.h>

namespace etna::attention {

Tensor merge_leading(const Tensor& x, std::int64_t batch) {
  int n = x.dim();
  Tensor merged = n == 3 ? x.unsqueeze(0) : n == 4 ? x : x.reshape({batch, x.size(-3), x.size(-2), x.size(-1)});
  return merged.size(-1) == 1 || merged.strides()[3] == 1 ? merged : merged.contiguous();
}

namespace {

/// Kernels read both bounds of a position at once, so they begin at multiples of 8 bytes.
Tensor merged_documents(const Tensor& documents, const Inputs& in) {
  if (!documents.defined()) return documents;
  const Tensor dense = documents.contiguous();
  return (dense.offset() % 2 == 0 ? dense : dense.clone()).reshape({in.batch, in.queries, 2});
}

}  // namespace

Inputs inputs(const OpCall& call) {
  const Tensor &q = call.in[0], &k = call.in[1], &mask = call.in[3];
  Inputs in;
  in.batch = 1;
  for (int i = 0; i < q.dim() - 3; ++i) in.batch *= q.shape()[i];
  in.heads = q.size(-3), in.groups = k.size(-3), in.queries = q.size(-2), in.keys = k.size(-2), in.size = q.size(-1);
  in.value_size = call.in[2].size(-1);
  in.q = merge_leading(q, in.batch), in.k = merge_leading(k, in.batch), in.v = merge_leading(call.in[2], in.batch);
  in.documents = merged_documents(call.in[4], in);
  if (mask.defined()) {
    Shape scores = q.shape();
    scores.back() = in.keys;
    Tensor whole = mask.expand(scores);
    Shape merged = {in.batch, in.heads, in.queries, in.keys};
    in.mask = whole.shape() == merged ? whole : whole.reshape(merged);
  }
  return in;
}

bool with_equal_heads(const OpCall& call, std::span<Tensor> out,
                      const std::function<bool(const OpCall&, std::span<Tensor>)>& run) {
  const bool backward = call.in.size() > 7;
  const std::int64_t size = std::max(call.in[0].size(-1), call.in[2].size(-1));
  std::vector<Tensor> in(call.in.begin(), call.in.end()), results(out.begin(), out.end());
  for (const std::size_t i : {0, 1, 2, 5, 7}) {
    if (i < 3 || backward) in[i] = pad(in[i], {0, size - in[i].size(-1)});
  }
  for (std::size_t i = 0; i < (backward ? 3U : 1U); ++i) {
    Shape shape = out[i].shape();
    shape.back() = size;
    if (out[i].size(-1) != size) results[i] = empty(shape, {out[i].dtype(), out[i].device()});
  }
  if (!run({call.op, in, call.attrs}, results)) return false;
  for (std::size_t i = 0; i < (backward ? 3U : 1U); ++i) {
    if (out[i].size(-1) != size) out[i].copy_(results[i].slice(-1, 0, out[i].size(-1)));
  }
  return true;
}

Tensor heads_of(const Tensor& x, std::int64_t batch, std::int64_t n) {
  return x.reshape({batch, x.size(-2), n, n == 0 ? 0 : x.size(-1) / n}).transpose(1, 2);
}

Inputs packed_inputs(const Tensor& qkv, const Tensor& documents, const AttentionAttrs& attributes) {
  Inputs in;
  in.batch = 1;
  for (int i = 0; i < qkv.dim() - 2; ++i) in.batch *= qkv.shape()[i];
  in.heads = attributes.heads, in.groups = attributes.groups;
  Tensor all = heads_of(qkv, in.batch, in.heads + 2 * in.groups);
  if (all.size(3) > 1 && all.strides()[3] != 1) all = heads_of(qkv.contiguous(), in.batch, in.heads + 2 * in.groups);
  in.queries = in.keys = all.size(2), in.size = in.value_size = all.size(3);
  in.documents = merged_documents(documents, in);
  in.q = all.slice(1, 0, in.heads), in.k = all.slice(1, in.heads, in.heads + in.groups);
  in.v = all.slice(1, in.heads + in.groups, in.heads + 2 * in.groups);
  return in;
}

}  // namespace etna::attention
