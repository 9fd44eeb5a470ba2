#include <etna/tensor/ops/pooling/pooling.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_max_pool() {
  auto pool2d = [](const TensorList& in) { return max_pool2d(in[0], {3, 2}, 2, 1, {1, 2}); };
  auto adaptive = [](const TensorList& in) { return adaptive_max_pool2d(in[0], {3, 2}); };
  auto unpool = [](const TensorList& in) {
    return max_unpool1d(in[0], max_pool1d_with_indices(in[1], 2, {.stride = 3}).indices, 2, 3);
  };
  auto channels = [](const TensorList& in) { return max_pool2d(in[0].permute({0, 3, 1, 2}), 2, 1, 0, 1, true); };
  return {
      Sample("max_pool", "overlapping windows, dilated")
          .in({2, 5, 7})
          .distinct()
          .covers({"max_pool_backward"})
          .calls(pool2d),
      Sample("max_pool", "adaptive").in({1, 5, 7}).distinct().calls(adaptive),
      Sample("max_pool", "channels last").in({1, 3, 5, 3}).distinct().calls(channels),
      Sample("max_pool", "no images").in({0, 5, 7}).calls(pool2d),
      Sample("max_unpool1d", "no lists").in({0, 3}).in({0, 8}).constant().composed().calls(unpool),
      Sample("max_unpool1d", "indices of windows").in({2, 3}).in({2, 8}).constant().composed().calls(unpool),
  };
}

}  // namespace etna::conformance
