#include <etna/tensor/internal/layout.h>
#include <etna/tensor/ops/reduce/internal/reduce.h>

namespace etna::reduce {

Plan::Plan(const Tensor& x, const Dims& dims) {
  if (x.numel() == 0) {  // outputs of empty reductions: the product of the other sizes may overflow
    for (int d = 0; d < x.dim(); ++d) {
      if (!dims.contains(d)) outputs *= x.shape()[d];
    }
    length = 0;
    if (outputs != 1) kept = {outputs}, kept_strides = {1};
    reduced = {0}, reduced_strides = {1};
    return;
  }
  Layout outside, inside;
  for (int d = 0; d < x.dim(); ++d) {
    const std::int64_t size = x.shape()[d], stride = x.strides()[d];
    (dims.contains(d) ? length : outputs) *= size;
    (dims.contains(d) ? inside : outside).append(size, {&stride, 1});
  }
  kept = outside.shape, kept_strides = outside.strides[0];
  reduced = inside.shape, reduced_strides = inside.strides[0];
}

bool Plan::columns() const {
  return !kept.empty() && !reduced.empty() && kept_strides.back() == 1 && kept.back() >= 8 &&
         reduced_strides.back() != 1;
}

}  // namespace etna::reduce
