#include <etna/tensor/ops.h>
#include <etna/tensor/ops/normalization/internal/norm.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_gated_rms_norm() {
  const auto sample = [](const char* name, const Shape& shape) {
    return Sample("gated_rms_norm", name)
        .in(shape)
        .in({shape[shape.size() - 1]})
        .in(shape)
        .calls([](const TensorList& in) { return normalization::gated_rms_norm(in[0], in[1], 1e-5, in[2]); })
        .looser_halves(2);
  };
  return {
      sample("rows", {5, 7}),
      sample("heads by fours", {2, 3, 4, 16}),
      sample("long rows", {3, 4507}).gradients(Gradients::first),
      sample("no rows", {0, 5}),
      sample("no columns", {3, 0}),
      Sample("gated_rms_norm", "no weight")
          .in({67, 12})
          .none()
          .in({67, 12})
          .calls([](const TensorList& in) { return normalization::gated_rms_norm(in[0], in[1], 1e-5, in[2]); })
          .looser_halves(2),
  };
}

}  // namespace etna::conformance
