#include <etna/tensor/ops/matmul/gemm/cpu_epilogue.h>

#include <algorithm>

#include <etna/device/cpu/math.h>
#include <etna/device/cpu/vector_rows.h>
#include <etna/tensor/ops/matmul/gemm/product.h>
#include <etna/tensor/ops/rows/rows.h>

namespace etna::product {
namespace {

constexpr std::int64_t kPiece = 512;  // floats of a row at a time: two buffers of them stay in L1

template <typename T>
void activate(Activation activation, T* x, std::int64_t n) {
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      for (std::int64_t i = 0; i < n; ++i) x[i] = m::maximum(x[i], T(0));
      return;
    case Activation::gelu:
      return cpu::curve(cpu::Curve::gelu, x, x, n);
    case Activation::gelu_tanh:
      return cpu::curve(cpu::Curve::gelu_tanh, x, x, n);
    case Activation::silu:
      return cpu::curve(cpu::Curve::silu, x, x, n);
  }
}

/// x · activation'(at)
template <typename T>
void slope(Activation activation, const T* at, T* x, std::int64_t n) {
  T steep[kPiece];
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      for (std::int64_t i = 0; i < n; ++i) x[i] *= at[i] > T(0) ? T(1) : T(0);
      return;
    case Activation::gelu:
      cpu::curve(cpu::Curve::gelu_slope, at, steep, n);
      break;
    case Activation::gelu_tanh:
      cpu::curve(cpu::Curve::gelu_tanh_slope, at, steep, n);
      break;
    case Activation::silu:
      cpu::curve(cpu::Curve::silu_slope, at, steep, n);
      break;
  }
  for (std::int64_t i = 0; i < n; ++i) x[i] *= steep[i];
}

}  // namespace

template <typename T>
auto PartEpilogue<T>::beside(const Tensor& x) -> Beside {
  return x.defined() ? Beside{x, spacing(x)} : Beside{};
}

template <typename T>
const T* PartEpilogue<T>::read(const Beside& from, std::int64_t row, std::int64_t column, std::int64_t n, T* buffer) {
  const std::int64_t at = row * from.leading + column;
  if constexpr (std::is_same_v<T, float>) {
    if (from.x.dtype() == bf16) {
      cpu::widen_bf16(&from.x.template data<BFloat16>()[at].bits, buffer, n);
      return buffer;
    }
  }
  return rows::read(from.x, at, 1, n, buffer);
}

template <typename T>
void PartEpilogue<T>::write(const Beside& to, std::int64_t row, std::int64_t column, std::int64_t n, const T* values) {
  const std::int64_t at = row * to.leading + column;
  if constexpr (std::is_same_v<T, float>) {
    if (to.x.dtype() == bf16) return cpu::narrow_bf16(values, &to.x.template data<BFloat16>()[at].bits, n);
  }
  Tensor x = to.x;
  rows::write(x, at, 1, n, values);
}

template <typename T>
PartEpilogue<T>::PartEpilogue(const Epilogue& e, const Tensor& residual, T* sums, std::int64_t leading, const Tensor& y)
    : activation_(e.activation),
      bias_(e.bias.defined() ? e.bias.to(dtype_of<T>()).contiguous() : Tensor()),
      derivative_at_(beside(readable(e.derivative_at))),
      residual_(beside(readable(residual))),
      pre_(beside(e.pre)),
      y_(beside(y)),
      sums_(sums),
      leading_(leading) {}

template <typename T>
bool PartEpilogue<T>::needed() const {
  return activation_ != Activation::none || bias_.defined() || derivative_at_.x.defined() || residual_.x.defined() ||
         pre_.x.defined() || y_.x.defined();
}

template <typename T>
void PartEpilogue<T>::operator()(const cpu::Part& part) const {
  for (std::int64_t row = part.row; row < part.row + part.rows; ++row) {
    for (std::int64_t j = 0; j < part.columns; j += kPiece) {
      piece(row, part.column + j, std::min(kPiece, part.columns - j));
    }
  }
}

template <typename T>
void PartEpilogue<T>::piece(std::int64_t row, std::int64_t column, std::int64_t n) const {
  T buffer[kPiece];
  T* x = sums_ + row * leading_ + column;
  if (bias_.defined()) {
    const T* bias = bias_.data<T>() + column;
    for (std::int64_t i = 0; i < n; ++i) x[i] += bias[i];
  }
  if (pre_.x.defined()) write(pre_, row, column, n, x);
  if (derivative_at_.x.defined())
    slope(activation_, read(derivative_at_, row, column, n, buffer), x, n);
  else
    activate(activation_, x, n);
  if (residual_.x.defined()) {
    const T* residual = read(residual_, row, column, n, buffer);
    for (std::int64_t i = 0; i < n; ++i) x[i] += residual[i];
  }
  if (y_.x.defined()) write(y_, row, column, n, x);
}

template class PartEpilogue<float>;
template class PartEpilogue<double>;

}  // namespace etna::product
