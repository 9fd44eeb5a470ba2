#include <etna/tensor/ops/reduce/reduce.h>

namespace etna::reduce {
namespace {

void append(Shape& shape, Strides& strides, std::int64_t size, std::int64_t stride) {
  if (size == 1) return;
  if (!shape.empty() && strides.back() == stride * size) {
    shape.back() *= size;
    strides.back() = stride;
  } else {
    shape.push_back(size);
    strides.push_back(stride);
  }
}

}  // namespace

Plan::Plan(const Tensor& x, const Dims& dims) {
  if (x.numel() == 0) {  // outputs of empty reductions: the product of the other sizes may overflow
    for (int d = 0; d < x.dim(); ++d) {
      if (!dims.contains(d)) outputs *= x.shape()[d];
    }
    length = 0;
    append(kept, kept_strides, outputs, 1);
    append(reduced, reduced_strides, 0, 1);
    return;
  }
  for (int d = 0; d < x.dim(); ++d) {
    std::int64_t size = x.shape()[d], stride = x.strides()[d];
    if (dims.contains(d)) {
      length *= size;
      append(reduced, reduced_strides, size, stride);
    } else {
      outputs *= size;
      append(kept, kept_strides, size, stride);
    }
  }
}

bool Plan::columns() const {
  return !kept.empty() && !reduced.empty() && kept_strides.back() == 1 && kept.back() >= 8 &&
         reduced_strides.back() != 1;
}

}  // namespace etna::reduce
