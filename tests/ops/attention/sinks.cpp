#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

Sample with_sinks(const char* name, Shape q, Shape k, const AttentionSettings& settings = {}, Shape mask = {}) {
  Sample sample = Sample("sink_attention", name).in(q).in(k).in(k).in({q[q.rank() - 3]}, -1, 2);
  if (mask.rank() > 0) sample.in(mask);
  return sample.looser_halves(2).covers({"sink_attention_backward"}).calls([=](const TensorList& in) {
    AttentionSettings own = settings;
    own.sinks = in[3];
    if (in.size() > 4) own.mask = in[4];
    return dot_product_attention(in[0], in[1], in[2], own);
  });
}

}  // namespace

std::vector<Sample> samples_in_sinks() {
  return {with_sinks("plain", {2, 2, 4, 4}, {2, 2, 4, 4}),
          with_sinks("heads that share keys, primes", {1, 6, 13, 7}, {1, 2, 13, 7},
                     {.causal = true, .softcap = 3, .window = 5}),
          with_sinks("chunks", {2, 2, 7, 4}, {2, 1, 7, 4}, {.causal = true, .chunk = 3}),
          with_sinks("a mask", {1, 2, 3, 4}, {1, 2, 5, 4}, {}, {3, 5}),
          with_sinks("no queries", {1, 2, 0, 4}, {1, 2, 3, 4})};
}

}  // namespace etna::conformance
