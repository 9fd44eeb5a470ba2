#include <etna/tensor/layout.h>

namespace etna {

Strides broadcast_strides(const Tensor& x, const Shape& shape) {
  Strides out = Dims::filled(shape.rank(), 0);
  int shift = shape.rank() - x.dim();
  for (int i = 0; i < x.dim(); ++i) out[i + shift] = x.shape()[i] == 1 && shape[i + shift] != 1 ? 0 : x.strides()[i];
  return out;
}

bool Layout::contiguous(int operand) const { return shape.empty() || (shape.rank() == 1 && strides[operand][0] == 1); }

bool Layout::all_contiguous() const {
  for (int i = 0; i < operands; ++i) {
    if (!contiguous(i)) return false;
  }
  return true;
}

Layout merge_layout(const Shape& shape, std::span<const Tensor* const> operands) {
  Strides full[kMaxOperands];
  for (std::size_t k = 0; k < operands.size(); ++k) {
    full[k] = operands[k] != nullptr && operands[k]->defined() ? broadcast_strides(*operands[k], shape)
                                                               : Dims::filled(shape.rank(), 0);
  }
  Layout out;
  out.operands = static_cast<int>(operands.size());
  if (numel(shape) == 0) {  // the product of the other sizes may overflow
    out.shape = {0};
    for (int k = 0; k < out.operands; ++k) out.strides[k] = {full[k].back()};
    return out;
  }
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    bool mergeable = !out.shape.empty();
    for (int k = 0; mergeable && k < out.operands; ++k) mergeable = out.strides[k].back() == full[k][d] * shape[d];
    if (mergeable) {
      out.shape.back() *= shape[d];
      for (int k = 0; k < out.operands; ++k) out.strides[k].back() = full[k][d];
    } else {
      out.shape.push_back(shape[d]);
      for (int k = 0; k < out.operands; ++k) out.strides[k].push_back(full[k][d]);
    }
  }
  return out;
}

}  // namespace etna
