#include <algorithm>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/signals_held.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu_epilogue.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>

namespace etna::gemm {

std::int64_t offset_of(std::int64_t index, const Shape& batch, const Strides& strides) {
  std::int64_t offset = 0;
  for (int d = batch.rank() - 1; d >= 0; --d) {
    offset += index % batch[d] * strides[d];
    index /= batch[d];
  }
  return offset;
}

namespace {

/// Converts to the element type that a library takes: bf16 as its bits.
const float* elements(const float* x) { return x; }
const double* elements(const double* x) { return x; }
const cpu::Bf16* elements(const BFloat16* x) { return reinterpret_cast<const cpu::Bf16*>(x); }

/// c = alpha · a · b + beta · c, then the epilogue. S is the element type of a and b.
/// @param c rows with stride `leading`, one matrix after another
template <typename S, typename T>
void gemm_cpu_multiply(const Plan& p, T alpha, T beta, T* c, std::int64_t leading, const TileEpilogue<T>& epilogue) {
  const auto *a = elements(p.a.host<S>()), *b = elements(p.b.host<S>());
  cpu::Gemm g{p.a_matrix.transposed, p.b_matrix.transposed, p.m,    p.n, p.k,
              p.a_matrix.leading,    p.b_matrix.leading,    leading};
  std::int64_t count = numel(p.batch), work = p.m * p.n * p.k;
  auto on_matrix = [&](std::int64_t i, auto&& function) {
    function(a + offset_of(i, p.batch, p.a_batch), b + offset_of(i, p.batch, p.b_batch), c + i * p.m * leading);
  };
  auto finish = [&](std::int64_t i, cpu::ResultTile tile) {
    tile.row += i * p.m;
    epilogue(tile);
  };
  const bool finishes = epilogue.needed();
  // Many or small matrices: one thread each. A few large ones: all threads on one matrix after another.
  constexpr std::int64_t kMany = 16, kSmall = 64 * 64 * 64;
  if (count > 1 && (count >= kMany || work <= kSmall)) {
    std::int64_t grain = std::max<std::int64_t>(1, kSmall / std::max<std::int64_t>(1, work));
    cpu::parallel_for(count, grain, [&](std::int64_t first, std::int64_t last) {
      const cpu::SignalsHeld once_for_all_products;
      for (std::int64_t i = first; i < last; ++i) {
        on_matrix(i, [&](auto* x, auto* w, auto* y) { cpu::gemm_one_thread(g, alpha, x, w, beta, y); });
        if (finishes) finish(i, {0, p.m, 0, p.n});
      }
    });
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    cpu::Finish then;
    if (finishes) then = [&finish, i](const cpu::ResultTile& tile) { finish(i, tile); };
    on_matrix(i, [&](auto* x, auto* w, auto* y) { cpu::gemm(g, alpha, x, w, beta, y, then); });
  }
}

bool same_elements(const Tensor& x, const Tensor& y) {
  return x.defined() && x.dtype() == y.dtype() && x.raw_data() == y.raw_data() && spacing(x) == spacing(y);
}

template <typename T>
void compute(const Tensor& a, const Tensor& b, const Epilogue& given, Tensor& y) {
  const DType t = dtype_of<T>();
  Epilogue e = given;
  if (e.preactivation.defined() && spacing(e.preactivation) == 0) e.preactivation = empty_like(e.preactivation);
  const double scale = static_cast<double>(e.scale) * (e.scale_by.defined() ? e.scale_by.item<double>() : 1.0);
  // If y is of type T, the sums are computed in place, and y's contents may be added there too.
  const bool even = spacing(y) != 0, same = same_elements(e.residual, y);
  const bool plain = e.activation == Activation::none && !e.derivative_at.defined() && !e.preactivation.defined();
  const bool adds_up = same && plain && y.dtype() == t && even;
  const bool in_place = y.dtype() == t && even && (!e.residual.defined() || adds_up);
  Tensor sums = in_place ? y : empty(y.shape(), {t, kCPU});
  const std::int64_t leading = spacing(sums);
  TileEpilogue<T> epilogue(e, adds_up ? Tensor() : e.residual, sums.host<T>(), leading,
                           in_place || !even ? Tensor() : y);
  const T alpha = static_cast<T>(scale), beta = adds_up ? T(1) : T(0);
  const Plan p = plan(a, b);
  if constexpr (std::is_same_v<T, float>) {
    if (a.dtype() == bf16)
      gemm_cpu_multiply<BFloat16>(p, alpha, beta, sums.host<T>(), leading, epilogue);
    else
      gemm_cpu_multiply<T>(p, alpha, beta, sums.host<T>(), leading, epilogue);
  } else {
    gemm_cpu_multiply<T>(p, alpha, beta, sums.host<T>(), leading, epilogue);
  }
  if (!in_place && !even) y.copy_(sums);
  if (e.preactivation.defined() && given.preactivation.raw_data() != e.preactivation.raw_data())
    Tensor(given.preactivation).copy_(e.preactivation);
}

}  // namespace

void cpu(const Tensor& a, const Tensor& b, const Epilogue& e, Tensor& y) {
  if (y.numel() == 0) return;
  if (a.dtype() == f64) return compute<double>(a, b, e, y);
  if (a.dtype() == f32 || (a.dtype() == bf16 && cpu::multiplies_bf16(y.numel() / y.size(-1), y.size(-1))))
    return compute<float>(a, b, e, y);
  compute<float>(a.to(f32), b.to(f32), e, y);
}

}  // namespace etna::gemm
