#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_matmul() {
  auto product = [](const TensorList& in) { return matmul(in[0], in[1]); };
  auto transposed = [](const TensorList& in) { return matmul(in[0].t(), in[1].t()); };
  auto sample = [&](const char* name, Shape a, Shape b) {
    return Sample("matmul", name).in(a, -1, 1).in(b, -1, 1).calls(product);
  };
  return {
      sample("matrices", {3, 4}, {4, 2}),
      sample("one element", {1, 1}, {1, 1}),
      sample("batch", {2, 3, 4}, {2, 4, 2}),
      sample("broadcast batch", {2, 1, 3, 4}, {3, 4, 2}),
      sample("batch and one matrix", {3, 2, 4}, {4, 3}),
      sample("one matrix and batch", {3, 4}, {2, 4, 2}),
      sample("vectors", {5}, {5}),
      sample("row", {4}, {4, 3}),
      sample("column", {2, 3, 4}, {4}),
      sample("no inner elements", {2, 0}, {0, 3}),
      sample("no rows", {0, 4}, {4, 3}),
      sample("no columns", {2, 4}, {4, 0}),
      sample("no batch", {0, 2, 4}, {4, 3}),
      sample("prime sizes", {67, 131}, {131, 71}),
      Sample("matmul", "transposed views").in({4, 3}, -1, 1).in({2, 4}, -1, 1).calls(transposed),
      Sample("matmul", "long sums").in({1031, 5}, -1, 1).in({3, 1031}, -1, 1).calls(transposed).looser(8),
  };
}

}  // namespace etna::conformance
