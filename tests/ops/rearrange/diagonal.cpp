#include <etna/tensor/ops/rearrange/rearrange.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_diagonal() {
  auto view = [](const TensorList& in) { return diagonal(in[0], 1, -1, 0); };
  auto embedded = [](const TensorList& in) { return diag_embed(in[0], -1, 0, 2); };
  return {
      Sample("diagonal", "of the outer dimensions").in({5, 2, 4}).and_integers().and_bool().calls(view),
      Sample("diagonal", "beyond the matrix").in({1, 1}).calls([](const TensorList& in) { return diagonal(in[0], 2); }),
      Sample("diagonal", "nothing").in({0, 3}).calls([](const TensorList& in) { return diagonal(in[0]); }),
      Sample("diag_embed", "below").in({2, 3}).and_integers().calls(embedded),
      Sample("diag_embed", "nothing").in({2, 0}).calls(embedded),
  };
}

}  // namespace etna::conformance
