#include <algorithm>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/tensor/internal/layout.h>
#include <etna/tensor/ops/activations/internal/cpu.h>
#include <etna/tensor/ops/activations/internal/formulas.h>
#include <etna/tensor/ops/activations/internal/table.h>
#include <etna/tensor/ops/elementwise/internal/elementwise.h>
#include <etna/tensor/ops/elementwise/internal/special.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Works in chunks that fit the L1 cache. Each operand is copied into a contiguous buffer of the compute type, or used
// in place if it is contiguous and already of that type. The row's loop runs over the buffers, then the result is
// stored. So a row is compiled only three times (f32, f64, i64) for all dtypes and strides, and its loop always
// vectorizes.
namespace etna::elementwise {
namespace {

constexpr std::int64_t kChunk = 1024;
constexpr std::int64_t kGrain = 16 * kChunk;
using rows::convert;

template <typename S, typename T>
S narrow(T value) {
  if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>) {
    return S(static_cast<float>(value));
  } else if constexpr (std::is_same_v<S, bool>) {
    return value != T(0);
  } else if constexpr (std::is_integral_v<S> && std::is_floating_point_v<T>) {
    return static_cast<S>(static_cast<std::int64_t>(value));  // narrow integers wrap, as on the GPU
  } else {
    return static_cast<S>(value);
  }
}

/// Calls run(position in the chunk, offset in the operand, length) for each run along the last dimension within
/// elements [begin, begin + count) of the iteration.
template <typename Run>
void for_each_run(const Shape& shape, const Strides& strides, std::int64_t begin, std::int64_t count, const Run& run) {
  if (shape.empty()) {
    run(0, 0, count);
    return;
  }
  int last = shape.rank() - 1;
  Dims index = Dims::filled(shape.rank(), 0);
  std::int64_t rest = begin, offset = 0;
  for (int d = last; d >= 0; --d) {
    index[d] = rest % shape[d];
    rest /= shape[d];
    offset += index[d] * strides[d];
  }
  for (std::int64_t done = 0; done < count;) {
    std::int64_t length = std::min(count - done, shape[last] - index[last]);
    run(done, offset, length);
    done += length;
    offset -= index[last] * strides[last];
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= shape[d] * strides[d];
      index[d] = 0;
    }
  }
}

template <typename T>
using Loop = void (*)(const T* a, const T* b, const T* c, T* y, std::int64_t n);

template <cpu::UnaryOp op>
void unary_row(const float* x, float* y, std::int64_t n) {
  cpu::unary(op, x, y, n);
}
template <Activation activation>
void activation_row(const float* x, float* y, std::int64_t n) {
  cpu::activate(activation, x, y, n);
}
template <Activation activation>
void activation_derivative_row(const float* x, float* y, std::int64_t n) {
  cpu::activation_derivative(activation, x, y, n);
}

/// f32 rows computed with vectors chosen at run time: a function of a; for gradients, a times a function of b.
struct UnaryRow {
  Row row;
  void (*compute)(const float* x, float* y, std::int64_t n);
  bool gradient = false, vectors = true;
};
constexpr UnaryRow kUnaryRows[] = {
    {Row::exp_, unary_row<cpu::UnaryOp::exp>},
    {Row::tanh_, unary_row<cpu::UnaryOp::tanh>},
    {Row::sigmoid_, unary_row<cpu::UnaryOp::sigmoid>},
    {Row::erf_, unary_row<cpu::UnaryOp::erf>},
#define ETNA_ACTIVATION(number, name, ...)                                                            \
  {Row::name##_, activation_row<Activation::name>, false, activations::in_vectors(Activation::name)}, \
      {Row::name##_backward_, activation_derivative_row<Activation::name>, true,                      \
       activations::in_vectors(Activation::name)},
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION
};
constexpr const UnaryRow* curve_of(Row row) {
  for (const UnaryRow& c : kUnaryRows) {
    if (c.row == row && c.vectors) return &c;
  }
  return nullptr;
}

/// @param n at most kChunk; y may alias an operand
template <Row row>
void curve_loop(const float* a, const float* b, const float*, float* y, std::int64_t n) {
  constexpr UnaryRow c = *curve_of(row);
  if constexpr (c.gradient) {
    alignas(64) float derivative[kChunk];
    c.compute(b, derivative, n);
    for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] * derivative[i];
  } else {
    c.compute(a, y, n);
  }
}

#define ETNA_ELEMENTWISE(name, arity, result, saved, cpp, ...)                                                     \
  template <typename T>                                                                                            \
  void loop_##name([[maybe_unused]] const T* pa, [[maybe_unused]] const T* pb, [[maybe_unused]] const T* pc, T* y, \
                   std::int64_t n) {                                                                               \
    for (std::int64_t i = 0; i < n; ++i) {                                                                         \
      [[maybe_unused]] T a = pa[i];                                                                                \
      [[maybe_unused]] T b = ETNA_ARITY(arity) > 1 ? pb[i] : T(0);                                                 \
      [[maybe_unused]] T c = ETNA_ARITY(arity) > 2 ? pc[i] : T(0);                                                 \
      y[i] = static_cast<T>(cpp);                                                                                  \
    }                                                                                                              \
  }
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE

template <typename T>
void loop_identity(const T* a, const T*, const T*, T* y, std::int64_t n) {
  std::copy(a, a + n, y);
}

enum class Result { same, real, truth, bits };
template <typename T, Result kind, Row row, typename F>
constexpr Loop<T> loop_if(F loop) {
  if constexpr (kind == Result::real && !std::is_floating_point_v<T>)
    return nullptr;
  else if constexpr (kind == Result::bits && std::is_floating_point_v<T>)
    return nullptr;
  else if constexpr (std::is_same_v<T, float> && curve_of(row) != nullptr)
    return &curve_loop<row>;
  else
    return loop();
}

template <typename T>
Loop<T> loop_of(Row row) {
  static const Loop<T> loops[] = {
#define ETNA_ELEMENTWISE(name, arity, result, ...) \
  loop_if<T, Result::result, Row::name##_>([]<typename U = T>()->Loop<U> { return &loop_##name<U>; }),
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
      &loop_identity<T>};
  return loops[static_cast<int>(row)];
}

/// Copies one operand's elements of a chunk into `buffer`, or returns a pointer to them in place.
template <typename T>
const T* load(const Tensor& x, const Shape& shape, const Strides& strides, bool contiguous, std::int64_t begin,
              std::int64_t n, T* buffer) {
  return visit(x.dtype(), [&](auto zero) -> const T* {
    using S = decltype(zero);
    const S* base = x.host<S>();
    if (contiguous) {
      if constexpr (std::is_same_v<S, T>) return base + begin;
      rows::convert_run(base + begin, buffer, n);
      return buffer;
    }
    for_each_run(shape, strides, begin, n, [&](std::int64_t at, std::int64_t offset, std::int64_t length) {
      std::int64_t step = strides.empty() ? 0 : strides.back();
      const S* from = base + offset;
      T* to = buffer + at;
      if (step == 0) {
        std::fill_n(to, length, convert<T>(*from));
      } else if (step == 1) {
        rows::convert_run(from, to, length);
      } else {
        for (std::int64_t i = 0; i < length; ++i) to[i] = convert<T>(from[i * step]);
      }
    });
    return buffer;
  });
}

template <typename T>
void store(const Tensor& y, const Shape& shape, const Strides& strides, std::int64_t begin, std::int64_t n,
           const T* buffer) {
  visit(y.dtype(), [&](auto zero) {
    using S = decltype(zero);
    S* base = y.host<S>();
    for_each_run(shape, strides, begin, n, [&](std::int64_t at, std::int64_t offset, std::int64_t length) {
      std::int64_t step = strides.empty() ? 0 : strides.back();
      if constexpr (std::is_same_v<S, BFloat16> && std::is_same_v<T, float>) {
        if (step == 1) return rows::convert_run(buffer + at, base + offset, length);
      }
      for (std::int64_t i = 0; i < length; ++i) base[offset + i * step] = narrow<S>(buffer[at + i]);
    });
  });
}

template <typename T>
void evaluate(const Evaluation& e) {
  const Tensor* operands[kMaxOperands] = {&e.y, nullptr, nullptr, nullptr};
  for (int k = 0; k < e.arity; ++k) operands[k + 1] = &e.operands[static_cast<std::size_t>(k)];
  Layout layout =
      merge_layout(e.y.shape(), std::span<const Tensor* const>(operands, static_cast<std::size_t>(e.arity + 1)));
  if (transposed_copy(e, layout)) return;
  Loop<T> loop = loop_of<T>(e.attributes.row);
  bool in_place = layout.contiguous(0) && e.y.dtype() == dtype_of<T>();
  cpu::parallel_for(e.y.numel(), kGrain, [&](std::int64_t first, std::int64_t last) {
    alignas(64) T buffers[kMaxOperands][kChunk];
    if (e.attributes.scalar_at != 0)
      std::fill_n(buffers[e.attributes.scalar_at], kChunk, static_cast<T>(e.attributes.scalar));
    for (std::int64_t begin = first; begin < last; begin += kChunk) {
      std::int64_t n = std::min(kChunk, last - begin);
      const T* in[kMaxOperands] = {};
      for (int k = 1; k <= e.arity; ++k) {
        in[k] = k == e.attributes.scalar_at ? buffers[k]
                                            : load<T>(*operands[k], layout.shape, layout.strides[k],
                                                      layout.contiguous(k), begin, n, buffers[k]);
      }
      T* out = in_place ? static_cast<T*>(e.y.raw_host()) + begin : buffers[0];
      loop(in[1], in[2], in[3], out, n);
      if (!in_place) store<T>(e.y, layout.shape, layout.strides[0], begin, n, out);
    }
  });
}

}  // namespace

void cpu(const Evaluation& e) {
  if (e.y.numel() == 0) return;
  DType t = e.attributes.compute;
  if (t == f64)
    evaluate<double>(e);
  else if (is_floating(t))
    evaluate<float>(e);
  else
    evaluate<std::int64_t>(e);
}

}  // namespace etna::elementwise
