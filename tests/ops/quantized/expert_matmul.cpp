#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/expert_matmul.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

struct Grouped {
  Shape x;  ///< [rows, columns], or [rows, choices, columns]
  std::int64_t choices, experts, rows;
  ExpertMatmulOptions options = {};
  bool matrices = false;  ///< the weights are [E, M, K]
};

Sample grouped(const char* name, const Grouped& g) {
  const std::int64_t in = g.x.back(), m = g.options.transposed ? in : g.rows, k = g.options.transposed ? g.rows : in;
  return Sample("expert_matmul", name)
      .in(g.x)
      .in(g.matrices ? Shape{g.experts, m, k} : Shape{g.experts * m, k})
      .index({g.x[0], g.choices}, 0, static_cast<double>(g.experts), g.matrices ? i32 : i64)
      .calls([=](const TensorList& in) { return expert_matmul(in[0], in[1], in[2], g.experts, g.options); });
}

/// @param a, b [rows, columns], or [rows, choices, columns]
Sample weight_gradient(const char* name, Shape a, Shape b, std::int64_t choices, std::int64_t experts) {
  return Sample("expert_weight_gradient", name)
      .in(a)
      .in(b)
      .index({a[0], choices}, 0, static_cast<double>(experts))
      .calls([=](const TensorList& in) { return expert_weight_gradient(in[0], in[1], in[2], experts); });
}

}  // namespace

std::vector<Sample> samples_in_expert_matmul() {
  return {grouped("few", {{2, 2}, 2, 2, 1}),
          grouped("rows", {{3, 8}, 2, 3, 5}),
          grouped("a row for each choice", {{3, 2, 4}, 2, 3, 5}),
          grouped("summed", {{4, 6}, 2, 3, 5, {.summed = true}}),
          grouped("transposed", {{3, 2, 4}, 2, 3, 5, {.transposed = true}}),
          grouped("transposed and summed", {{3, 2, 4}, 2, 3, 5, {.transposed = true, .summed = true}}),
          grouped("matrices", {{3, 4}, 2, 3, 5, {}, true}),
          grouped("prime sizes", {{131, 37}, 3, 5, 67}),
          grouped("prime sizes, transposed", {{131, 3, 37}, 3, 5, 67, {.transposed = true, .summed = true}}),
          grouped("one expert", {{7, 8}, 1, 1, 4}),
          grouped("experts that nobody chose", {{2, 3}, 1, 40, 4}),
          grouped("no columns", {{3, 0}, 2, 3, 4}),
          grouped("no rows", {{0, 8}, 2, 3, 4}),
          weight_gradient("rows", {3, 4}, {3, 2, 5}, 2, 3),
          weight_gradient("a row for each choice", {3, 2, 4}, {3, 2, 5}, 2, 3),
          weight_gradient("shared rows", {3, 4}, {3, 5}, 2, 3),
          weight_gradient("prime sizes", {131, 3, 37}, {131, 41}, 3, 5),
          weight_gradient("one expert", {7, 4}, {7, 1, 3}, 1, 1),
          weight_gradient("experts that nobody chose", {2, 3}, {2, 4}, 1, 20),
          weight_gradient("no rows", {0, 4}, {0, 5}, 2, 3)};
}

}  // namespace etna::conformance
