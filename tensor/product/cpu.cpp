#include <algorithm>

#include <etna/device/cpu/blas.h>
#include <etna/device/cpu/math.h>
#include <etna/device/cpu/parallel.h>
#include <etna/tensor/product/product.h>

namespace etna::product {

std::int64_t offset_of(std::int64_t index, const Shape& batch, const Strides& strides) {
  std::int64_t offset = 0;
  for (int d = batch.rank() - 1; d >= 0; --d) {
    offset += index % batch[d] * strides[d];
    index /= batch[d];
  }
  return offset;
}

namespace {

/// Calls f(i) for each of the rows, from several threads.
template <typename F>
void each_row(std::int64_t rows, std::int64_t n, const F& f) {
  cpu::parallel_for(rows, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, n)),
                    [&](std::int64_t first, std::int64_t last) {
                      for (std::int64_t i = first; i < last; ++i) f(i);
                    });
}

/// y = a · b + bias, all of T. @param y contiguous
template <typename T>
void multiply(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y) {
  Plan p = plan(a, b);
  T* c = y.data<T>();
  T beta = T(0);
  if (bias.defined()) {
    Tensor row = bias.contiguous();
    const T* from = row.data<T>();
    each_row(y.numel() / p.n, p.n, [&](std::int64_t i) { std::copy(from, from + p.n, c + i * p.n); });
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

template <typename T>
T activated(Activation activation, T x) {
  switch (activation) {
    case Activation::relu:
      return m::maximum(x, T(0));
    case Activation::gelu:
      return m::gelu(x);
    case Activation::gelu_tanh:
      return m::gelu_tanh(x);
    case Activation::silu:
      return x * m::sigmoid(x);
    default:
      return x;
  }
}

template <typename T>
T slope(Activation activation, T x) {
  switch (activation) {
    case Activation::relu:
      return x > T(0) ? T(1) : T(0);
    case Activation::gelu:
      return m::gelu_slope(x);
    case Activation::gelu_tanh:
      return m::gelu_tanh_slope(x);
    case Activation::silu:
      return m::silu_backward(T(1), x);
    default:
      return T(1);
  }
}

/// What an epilogue does behind the bias. @param t [..., N], contiguous, of T
template <typename T>
void finish(const Epilogue& e, double scale, bool add_bias, Tensor& t) {
  DType dtype = t.dtype();
  auto wide = [&](const Tensor& x) { return x.defined() ? x.to(dtype).contiguous() : x; };
  auto start = [](const Tensor& x) { return x.defined() ? x.data<T>() : nullptr; };
  Tensor bias = add_bias ? wide(e.bias) : Tensor(), at = wide(e.derivative_at), residual = wide(e.residual);
  Tensor pre = e.pre.defined() ? empty(t.shape(), {dtype, kCPU}) : Tensor();
  T *y = t.data<T>(), *kept = start(pre);
  const T *b = start(bias), *d = start(at), *r = start(residual);
  std::int64_t n = t.size(-1);
  each_row(t.numel() / n, n, [&](std::int64_t i) {
    for (std::int64_t j = 0, k = i * n; j < n; ++j, ++k) {
      T x = y[k];
      if (scale != 1) x *= static_cast<T>(scale);
      if (b != nullptr) x += b[j];
      if (kept != nullptr) kept[k] = x;
      x = d != nullptr ? x * slope(e.activation, d[k]) : activated(e.activation, x);
      y[k] = r != nullptr ? x + r[k] : x;
    }
  });
  if (pre.defined()) Tensor(e.pre).copy_(pre);
}

}  // namespace

void cpu(const Tensor& a, const Tensor& b, const Epilogue& e, Tensor& y) {
  if (y.numel() == 0) return;
  DType t = a.dtype() == f64 ? f64 : f32;
  double scale = static_cast<double>(e.scale) * (e.scale_by.defined() ? e.scale_by.item<double>() : 1.0);
  bool early_bias = e.bias.defined() && scale == 1;
  bool later = scale != 1 || e.activation != Activation::none || e.pre.defined() || e.residual.defined();
  bool in_place = y.is_contiguous() && y.dtype() == t && !e.residual.defined();
  Tensor sums = in_place ? y : empty(y.shape(), {t, kCPU}), bias = early_bias ? e.bias.to(t) : Tensor();
  if (t == f64) {
    multiply<double>(a, b, bias, sums);
    if (later) finish<double>(e, scale, !early_bias, sums);
  } else {
    multiply<float>(a.to(f32), b.to(f32), bias, sums);
    if (later) finish<float>(e, scale, !early_bias, sums);
  }
  if (!in_place) y.copy_(sums);
}

}  // namespace etna::product
