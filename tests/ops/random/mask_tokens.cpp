#include <etna/tensor/ops/random/random.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

/// @param least of the rows' indices; -1: some rows have no mask
Sample mask_sample(const char* name, Shape logits, std::int64_t masks, std::int64_t least, std::int64_t end) {
  return Sample("mask_tokens", name)
      .in(logits, -4, 4)
      .index({masks, (logits[1] + 31) / 32}, -2000000000, 2000000000, i32)
      .index({logits[0]}, least, end, i32)
      .calls([](const TensorList& in) { return TensorList{mask_tokens(in[0], in[1], in[2])}; })
      .gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_mask_tokens() {
  return {mask_sample("all masked", {3, 64}, 5, 0, 5), mask_sample("some rows", {7, 101}, 3, -1, 3),
          mask_sample("prime", {13, 1031}, 2, -1, 2),  mask_sample("no masks", {4, 33}, 0, -1, 0),
          mask_sample("no rows", {0, 40}, 2, 0, 2),    mask_sample("no tokens", {3, 0}, 2, 0, 2)};
}

}  // namespace etna::conformance
