#include <algorithm>

#include <etna/device/cpu/blas.h>
#include <etna/device/cpu/parallel.h>
#include <etna/tensor/product/product.h>

namespace etna::product {
namespace {

/// Elements from the start to the index-th matrix of the batch.
std::int64_t offset_of(std::int64_t index, const Shape& batch, const Strides& strides) {
  std::int64_t offset = 0;
  for (int d = batch.rank() - 1; d >= 0; --d) {
    offset += index % batch[d] * strides[d];
    index /= batch[d];
  }
  return offset;
}

template <typename T>
void fill_rows(T* y, std::int64_t rows, std::int64_t n, const T* bias) {
  cpu::parallel_for(rows, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, n)),
                    [&](std::int64_t first, std::int64_t last) {
                      for (std::int64_t i = first; i < last; ++i) std::copy(bias, bias + n, y + i * n);
                    });
}

template <typename T>
void multiply(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y) {
  Plan p = plan(a, b);
  T* c = y.data<T>();
  T beta = T(0);
  if (bias.defined()) {
    Tensor row = bias.contiguous();
    fill_rows(c, y.numel() / std::max<std::int64_t>(1, p.n), p.n, row.data<T>());
    beta = T(1);
  }
  if (p.k == 0) {
    if (!bias.defined()) std::fill_n(c, y.numel(), T(0));
    return;
  }
  const T *pa = p.a.data<T>(), *pb = p.b.data<T>();
  cpu::Gemm g{p.a_matrix.transposed, p.b_matrix.transposed, p.m, p.n, p.k, p.a_matrix.leading, p.b_matrix.leading, p.n};
  std::int64_t count = numel(p.batch), work = p.m * p.n * p.k;
  auto one = [&](auto&& function, std::int64_t i) {
    function(g, T(1), pa + offset_of(i, p.batch, p.a_batch), pb + offset_of(i, p.batch, p.b_batch), beta,
             c + i * p.m * p.n);
  };
  // Many matrices, or small ones: a thread each. Few large ones: all threads on one after the other.
  constexpr std::int64_t kMany = 16, kSmall = 64 * 64 * 64;
  if (count > 1 && (count >= kMany || work <= kSmall)) {
    std::int64_t grain = std::max<std::int64_t>(1, kSmall / std::max<std::int64_t>(1, work));
    cpu::parallel_for(count, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) one([](auto&&... x) { cpu::gemm_one_thread(x...); }, i);
    });
  } else {
    for (std::int64_t i = 0; i < count; ++i) one([](auto&&... x) { cpu::gemm(x...); }, i);
  }
}

}  // namespace

void cpu(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y) {
  if (y.numel() == 0) return;
  if (y.dtype() == f64) {
    multiply<double>(a, b, bias, y);
  } else if (y.dtype() == f32) {
    multiply<float>(a, b, bias, y);
  } else {
    Tensor wide = empty(y.shape(), {f32, kCPU});
    multiply<float>(a.to(f32), b.to(f32), bias.defined() ? bias.to(f32) : bias, wide);
    y.copy_(wide);
  }
}

}  // namespace etna::product
