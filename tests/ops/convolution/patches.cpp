#include <etna/tensor/ops/convolution/convolution.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_patches() {
  using In = const TensorList&;
  return {
      Sample("im2col", "plain").in({2, 3, 5, 4}).covers({"col2im"}).calls([](In in) {
        return unfold(in[0], {3, 2});
      }),
      Sample("im2col", "every setting").in({4, 7, 6}).calls([](In in) {
        return unfold(in[0], {2, 3}, 2, {1, 2}, 2);
      }),
      Sample("im2col", "many taps").in({1, 2, 7, 7}).gradients(Gradients::first).calls([](In in) {
        return unfold(in[0], 6, 1, 1);
      }),
      Sample("im2col", "nothing").in({0, 3, 5, 4}).calls([](In in) { return unfold(in[0], 2); }),
      Sample("col2im", "plain").in({2, 12, 12}).calls([](In in) {
        return fold(in[0], {5, 4}, 2);
      }),
      Sample("col2im", "every setting").in({24, 12}).calls([](In in) {
        return fold(in[0], {7, 6}, {2, 3}, 2, {1, 2}, 2);
      }),
      Sample("col2im", "nothing").in({0, 12, 12}).calls([](In in) {
        return fold(in[0], {5, 4}, 2);
      }),
  };
}

}  // namespace etna::conformance
