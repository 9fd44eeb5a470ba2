#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

/// @param numbers of each row, in the order of SamplingNumber
Sample draw(const char* name, Shape logits, std::vector<double> numbers, bool counts = false, bool bias = false) {
  const std::int64_t batch = logits[0];
  std::vector<double> all;
  for (std::int64_t i = 0; i < batch; ++i) all.insert(all.end(), numbers.begin(), numbers.end());
  return Sample("sample_tokens", name)
      .in(logits, -4, 4)
      .distinct()
      .values({batch, kSamplingNumbers}, all)
      .as(f32)
      .constant()
      .index({batch, 2}, -1000, 1000, i32)
      .index({batch}, 0, 100, i32)
      .index(logits, 0, 3, i32)
      .dense()
      .in(logits, -1, 1)
      .constant()
      .calls([counts, bias](const TensorList& in) {
        SamplingInputs inputs{in[1].to(f32), in[2], in[3]};
        if (counts) inputs.counts = in[4].clone();
        if (bias) inputs.bias = in[5].to(f32);
        const Tensor token = sample_tokens(in[0], inputs);
        return counts ? TensorList{token, inputs.counts} : TensorList{token};
      })
      .in_dtypes({f32})
      .gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_sample_tokens() {
  return {draw("the largest", {3, 37}, {0, 0, 1, 0, 1, 1, 0, 0}),
          draw("all", {5, 300}, {1, 0, 1, 0, 1, 1, 0, 0}),
          draw("top_k", {4, 67}, {0.7, 5, 1, 0, 1, 1, 0, 0}),
          draw("top_p", {4, 131}, {1.5, 0, 0.6, 0, 1, 1, 0, 0}),
          draw("min_p", {4, 67}, {1, 0, 1, 0.3, 1, 1, 0, 0}),
          draw("typical", {4, 67}, {1, 0, 1, 0, 0.4, 1, 0, 0}),
          draw("everything", {4, 1031}, {0.9, 200, 0.9, 0.01, 0.9, 1.2, 0.3, 0.1}, true, true),
          draw("one token", {2, 1}, {1, 40, 0.5, 0.1, 0.5, 1, 0, 0}),
          draw("no rows", {0, 5}, {1, 0, 1, 0, 1, 1, 0, 0})};
}

}  // namespace etna::conformance
