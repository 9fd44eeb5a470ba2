#include <etna/tensor/ops/rearrange/rearrange.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_flip() {
  std::vector<Sample> all;
  auto flipped = [&](const char* name, Shape shape, Dims dims) {
    all.push_back(Sample("flip", name).in(shape).and_integers().and_bool().calls([=](const TensorList& in) {
      return flip(in[0], dims);
    }));
  };
  flipped("rows", {5, 7}, 1);
  flipped("two of three", {2, 3, 4}, {0, -1});
  flipped("nothing", {3, 0}, 0);
  auto composed = [&](const char* op, Shape shape, std::function<Tensor(const Tensor&)> f) {
    all.push_back(Sample(op, "plain").in(shape).in_dtypes({f32, i32}).composed().calls([=](const TensorList& in) {
      return f(in[0]);
    }));
    shape[1] = 0;
    all.push_back(Sample(op, "nothing").in(shape).in_dtypes({f32}).composed().calls([=](const TensorList& in) {
      return f(in[0]);
    }));
  };
  composed("roll", {3, 4}, [](const Tensor& x) { return roll(x, {1, -2}, {0, 1}); });
  composed("rot90", {3, 4}, [](const Tensor& x) { return rot90(x, 3); });
  composed("repeat", {2, 3}, [](const Tensor& x) { return repeat(x, {2, 1, 2}); });
  composed("repeat_interleave", {2, 3}, [](const Tensor& x) { return repeat_interleave(x, 2, 0); });
  return all;
}

}  // namespace etna::conformance
