#include <etna/tensor/attention/attention.h>
#include <etna/tensor/layout.h>

namespace etna::attention {

Tensor merge_leading(const Tensor& x, std::int64_t batch) {
  int n = x.dim();
  Tensor merged = n == 3 ? x.unsqueeze(0) : n == 4 ? x : x.reshape({batch, x.size(-3), x.size(-2), x.size(-1)});
  return merged.size(-1) == 1 || merged.strides()[3] == 1 ? merged : merged.contiguous();
}

Inputs inputs(const OpCall& call) {
  const Tensor &q = call.in[0], &k = call.in[1], &mask = call.in[3];
  Inputs in;
  in.batch = 1;
  for (int i = 0; i < q.dim() - 3; ++i) in.batch *= q.shape()[i];
  in.heads = q.size(-3), in.groups = k.size(-3), in.queries = q.size(-2), in.keys = k.size(-2), in.size = q.size(-1);
  in.q = merge_leading(q, in.batch), in.k = merge_leading(k, in.batch), in.v = merge_leading(call.in[2], in.batch);
  if (mask.defined()) {
    Shape scores = q.shape();
    scores.back() = in.keys;
    Tensor whole = mask.expand(scores);
    Shape merged = {in.batch, in.heads, in.queries, in.keys};
    in.mask = whole.shape() == merged ? whole : whole.reshape(merged);
  }
  return in;
}

}  // namespace etna::attention
