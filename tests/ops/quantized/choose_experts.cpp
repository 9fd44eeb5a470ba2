#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/experts.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

Sample of_logits(const char* name, Shape logits, const ChoiceAttrs& options) {
  return Sample("choose_experts", name)
      .in(logits)
      .in_dtypes({f32})
      .gradients(Gradients::first)
      .calls([=](const TensorList& in) {
        const ExpertChoice c = choose_experts(in[0], {}, options);
        return TensorList{c.expert, c.factor};
      });
}

/// Biases that decide, and equal scores.
Sample of_values(const char* name, std::vector<double> logits, std::vector<double> bias, const ChoiceAttrs& options) {
  const Shape shape{std::ssize(logits) / std::ssize(bias), std::ssize(bias)};
  return Sample("choose_experts", name)
      .values(shape, std::move(logits))
      .values({shape[1]}, std::move(bias))
      .constant()
      .in_dtypes({f32})
      .gradients(Gradients::none)
      .calls([=](const TensorList& in) {
        const ExpertChoice c = choose_experts(in[0], in[1], options);
        return TensorList{c.expert, c.factor};
      });
}

}  // namespace

std::vector<Sample> samples_in_choose_experts() {
  return {
      of_logits("softmax", {3, 8}, {.chosen = 2}),
      of_logits("normalized", {5, 16}, {.chosen = 4, .normalized = true, .scale = 2.5}),
      of_logits("prime sizes", {7, 257}, {.chosen = 5, .normalized = true}),
      of_logits("all experts", {2, 3}, {.chosen = 3, .sigmoid = true}),
      of_logits("more than a workgroup", {2, 1031}, {.chosen = 3}),
      of_logits("groups", {4, 24}, {.chosen = 3, .sigmoid = true, .groups = 4, .chosen_groups = 2}),
      of_logits("groups by the best", {4, 24}, {.chosen = 3, .groups = 6, .chosen_groups = 2, .groups_by_best = true}),
      of_values("biases", {1, 2, 3, 0, -1, 4}, {5, 0, -5}, {.chosen = 2, .sigmoid = true, .normalized = true}),
      of_values("equal scores", {1, 1, 1, 1, 0, 2, 2, 0}, {0, 0, 0, 0}, {.chosen = 3}),
      of_logits("no rows", {0, 8}, {.chosen = 2})};
}

}  // namespace etna::conformance
