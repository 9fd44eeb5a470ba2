#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_int8_matmul() {
  auto plain = [](const char* name, Shape a, Shape b) {
    return Sample("int8_matmul", name)
        .index(a, -128, 128, i8)
        .index(b, -128, 128, i8)
        .calls([](const TensorList& in) { return int8_matmul(in[0], in[1]); })
        .in_dtypes({f32})
        .gradients(Gradients::none);
  };
  // The result has the walk's dtype; the scales are f32.
  auto scaled = [](const char* name, Shape a, Shape b, Shape row, Shape column) {
    return Sample("int8_matmul", name)
        .index(a, -128, 128, i8)
        .index(b, -128, 128, i8)
        .in(row, 1e-3, 1e-2)
        .constant()
        .in(column, 1e-3, 1e-2)
        .constant()
        .calls([](const TensorList& in) {
          DType out = in[2].dtype() == f64 ? f32 : in[2].dtype();
          return int8_matmul(in[0], in[1], in[2].to(f32), in[3].to(f32), out);
        })
        .in_dtypes({f32, f16, bf16})
        .gradients(Gradients::none);
  };
  return {
      plain("rows", {5, 7}, {7, 3}),
      plain("whole words", {8, 16}, {16, 12}),
      plain("batch", {2, 3, 5}, {2, 5, 4}),
      plain("one matrix for a batch", {2, 3, 5}, {5, 4}),
      plain("both broadcast", {2, 1, 3, 5}, {3, 5, 4}),
      plain("prime sizes", {67, 131}, {131, 71}),
      plain("no rows", {0, 5}, {5, 4}),
      plain("no sums", {2, 0}, {0, 3}),
      scaled("scaled by rows and columns", {5, 7}, {7, 6}, {5}, {6}),
      scaled("scaled by numbers", {5, 8}, {8, 4}, {}, {1}),
      scaled("scaled batch", {2, 3, 5}, {5, 4}, {2, 3}, {4}),
      scaled("scaled, no rows", {0, 5}, {5, 4}, {0}, {4}),
  };
}

}  // namespace etna::conformance
