#include <etna/tensor/internal/layout.h>

namespace etna {

Strides broadcast_strides(const Tensor& x, const Shape& shape) {
  Strides out = Dims::filled(shape.rank(), 0);
  int shift = shape.rank() - x.dim();
  for (int i = 0; i < x.dim(); ++i) out[i + shift] = x.shape()[i] == 1 && shape[i + shift] != 1 ? 0 : x.strides()[i];
  return out;
}

void Layout::append(std::int64_t size, std::span<const std::int64_t> along) {
  if (size == 1) return;
  bool continues = !shape.empty();
  for (std::size_t k = 0; continues && k < along.size(); ++k) continues = strides[k].back() == along[k] * size;
  if (continues) {
    shape.back() *= size;
    for (std::size_t k = 0; k < along.size(); ++k) strides[k].back() = along[k];
  } else {
    shape.push_back(size);
    for (std::size_t k = 0; k < along.size(); ++k) strides[k].push_back(along[k]);
  }
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
    std::int64_t along[kMaxOperands] = {};
    for (std::size_t k = 0; k < operands.size(); ++k) along[k] = full[k][d];
    out.append(shape[d], std::span(along).first(operands.size()));
  }
  return out;
}

}  // namespace etna
