#include <etna/tensor/ops/rearrange/rearrange.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_windows() {
  std::vector<Sample> all;
  const auto windows = [&](const char* name, Shape shape, std::int64_t dim, std::int64_t size, std::int64_t step) {
    all.push_back(Sample("sliding_windows", name).in(shape).and_integers().and_bool().calls([=](const TensorList& in) {
      return sliding_windows(in[0], dim, size, step);
    }));
  };
  windows("rows", {3, 37}, -1, 5, 1);
  windows("between dimensions", {2, 11, 3, 2}, 1, 4, 3);
  windows("apart", {13, 2}, 0, 2, 5);
  windows("all of it", {2, 7}, 1, 7, 3);
  windows("one element", {5}, 0, 1, 2);
  windows("of prime sizes", {7, 509}, 1, 31, 7);
  windows("nothing", {0, 5}, 1, 2, 1);
  const auto sum = [&](const char* name, Shape shape, std::int64_t dim, std::int64_t step, std::int64_t length) {
    all.push_back(Sample("overlap_add", name).in(shape).calls([=](const TensorList& in) {
      return overlap_add(in[0], dim, step, length);
    }));
  };
  sum("rows", {3, 9, 5}, 1, 1, 0);
  sum("between dimensions, with a rest", {2, 3, 3, 2, 4}, 1, 3, 12);
  sum("apart", {3, 2, 2}, 0, 5, 13);
  sum("one window", {1, 7}, 0, 3, 9);
  sum("of prime sizes", {7, 67, 31}, 1, 7, 0);
  sum("nothing", {0, 4, 2}, 1, 1, 0);
  return all;
}

}  // namespace etna::conformance
