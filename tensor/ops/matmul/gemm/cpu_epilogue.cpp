#include <etna/tensor/ops/matmul/gemm/internal/cpu_epilogue.h>

#include <algorithm>

#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/ops/activations/internal/cpu.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/rows/internal/rows.h>

namespace etna::gemm {
namespace {

constexpr std::int64_t kChunk = 512;  // floats of a row per chunk: two such buffers stay in L1

/// x[i] *= activation'(at[i]). @param n at most kChunk
template <typename T>
void multiply_by_derivative(Activation activation, const T* at, T* x, std::int64_t n) {
  T derivative[kChunk];
  cpu::activation_derivative(activation, at, derivative, n);
  for (std::int64_t i = 0; i < n; ++i) x[i] *= derivative[i];
}

}  // namespace

template <typename T>
auto TileEpilogue<T>::aux(const Tensor& x) -> Aux {
  return x.defined() ? Aux{x, spacing(x)} : Aux{};
}

template <typename T>
const T* TileEpilogue<T>::read(const Aux& from, std::int64_t row, std::int64_t column, std::int64_t n, T* buffer) {
  const std::int64_t at = row * from.leading + column;
  if constexpr (std::is_same_v<T, float>) {
    if (from.x.dtype() == bf16) {
      cpu::widen_bf16(&from.x.template host<BFloat16>()[at].bits, buffer, n);
      return buffer;
    }
  }
  return rows::read(from.x, at, 1, n, buffer);
}

template <typename T>
void TileEpilogue<T>::write(const Aux& to, std::int64_t row, std::int64_t column, std::int64_t n, const T* values) {
  const std::int64_t at = row * to.leading + column;
  if constexpr (std::is_same_v<T, float>) {
    if (to.x.dtype() == bf16) return cpu::narrow_bf16(values, &to.x.template host<BFloat16>()[at].bits, n);
  }
  Tensor x = to.x;
  rows::write(x, at, 1, n, values);
}

template <typename T>
TileEpilogue<T>::TileEpilogue(const Epilogue& e, const Tensor& residual, T* sums, std::int64_t leading, const Tensor& y)
    : activation_(e.activation),
      bias_(e.bias.defined() ? e.bias.to(dtype_of<T>()).contiguous() : Tensor()),
      derivative_at_(aux(readable(e.derivative_at))),
      residual_(aux(readable(residual))),
      preactivation_(aux(e.preactivation)),
      y_(aux(y)),
      sums_(sums),
      leading_(leading) {}

template <typename T>
bool TileEpilogue<T>::needed() const {
  return activation_ != Activation::none || bias_.defined() || derivative_at_.x.defined() || residual_.x.defined() ||
         preactivation_.x.defined() || y_.x.defined();
}

template <typename T>
void TileEpilogue<T>::operator()(const cpu::ResultTile& tile) const {
  for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
    for (std::int64_t j = 0; j < tile.columns; j += kChunk) {
      chunk(row, tile.column + j, std::min(kChunk, tile.columns - j));
    }
  }
}

template <typename T>
void TileEpilogue<T>::chunk(std::int64_t row, std::int64_t column, std::int64_t n) const {
  T buffer[kChunk];
  T* x = sums_ + row * leading_ + column;
  if (bias_.defined()) {
    const T* bias = bias_.host<T>() + column;
    for (std::int64_t i = 0; i < n; ++i) x[i] += bias[i];
  }
  if (preactivation_.x.defined()) write(preactivation_, row, column, n, x);
  if (derivative_at_.x.defined())
    multiply_by_derivative(activation_, read(derivative_at_, row, column, n, buffer), x, n);
  else if (activation_ != Activation::none)
    cpu::activate(activation_, x, x, n);
  if (residual_.x.defined()) {
    const T* residual = read(residual_, row, column, n, buffer);
    for (std::int64_t i = 0; i < n; ++i) x[i] += residual[i];
  }
  if (y_.x.defined()) write(y_, row, column, n, x);
}

template class TileEpilogue<float>;
template class TileEpilogue<double>;

}  // namespace etna::gemm
