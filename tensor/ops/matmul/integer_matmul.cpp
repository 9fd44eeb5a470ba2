#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>

// Matmuls of integers: exact modulo 2^bits, as PyTorch's on the CPU. Sums are in 32 bits, or 64 for i64; the low bits
// of a sum do not depend on its high bits, so the stored result is correct for narrower types too.
namespace etna {
namespace {

std::vector<OutputSpec> integer_matmul_infer(const OpCall& call) {
  const Tensor &a = call.in[0], &b = call.in[1];
  for (const Tensor& x : {a, b}) {
    if (!is_integral(x.dtype()) || x.dtype() != a.dtype()) {
      throw DtypeError(fmt::format("integer_matmul: operands hold {} and {}, they must be integers of one dtype",
                                   name(a.dtype()), name(b.dtype())));
    }
    if (x.dim() < 2) {
      throw ShapeError(
          fmt::format("matmul: an operand {} has no dimensions; multiply by a number with *", str(x.shape())));
    }
  }
  if (a.size(-1) != b.size(-2)) {
    throw ShapeError(
        fmt::format("matmul: inner sizes differ: a {} · b {}; the last size of a must equal the second-to-last of b",
                    str(a.shape()), str(b.shape())));
  }
  Shape shape = gemm::batch_of(call, a, b);
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-1));
  return {{shape, a.dtype()}};
}

/// Offset of each matrix of a batch; the offsets of a repeated operand are equal.
struct Operand {
  Tensor x;
  Shape batch;
  Strides strides;
  Operand(const Tensor& given, const Shape& result) {
    Shape shape = result;
    shape[result.rank() - 2] = given.size(-2), shape[result.rank() - 1] = given.size(-1);
    x = given.expand(shape);
    for (int d = 0; d < result.rank() - 2; ++d) batch.push_back(shape[d]), strides.push_back(x.strides()[d]);
  }
  std::int64_t offset(std::int64_t matrix) const { return gemm::offset_of(matrix, batch, strides); }
};

void integer_matmul_cpu(const OpCall& call, std::span<Tensor> out) {
  Tensor& y = out[0];
  if (y.numel() == 0) return;
  const Operand a(call.in[0], y.shape()), b(call.in[1], y.shape());
  const std::int64_t m = y.size(-2), n = y.size(-1), k = a.x.size(-1), rows = y.numel() / n;
  visit(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      using Sum = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
      const T *from_a = a.x.host<T>(), *from_b = b.x.host<T>();
      T* to = y.host<T>();
      const std::int64_t step = a.x.strides()[y.dim() - 1], row_step = a.x.strides()[y.dim() - 2];
      const std::int64_t b_row = b.x.strides()[y.dim() - 2], b_step = b.x.strides()[y.dim() - 1];
      const std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, n * k));
      cpu::parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
        cpu::Scratch<Sum> sums(static_cast<std::size_t>(n));
        for (std::int64_t r = begin; r < end; ++r) {
          const T* row = from_a + a.offset(r / m) + r % m * row_step;
          const T* matrix = from_b + b.offset(r / m);
          std::fill_n(sums.data(), n, Sum{0});
          for (std::int64_t i = 0; i < k; ++i) {
            const auto factor = static_cast<Sum>(row[i * step]);
            const T* line = matrix + i * b_row;
            if (b_step == 1) {
              for (std::int64_t j = 0; j < n; ++j)
                sums[static_cast<std::size_t>(j)] += factor * static_cast<Sum>(line[j]);
            } else {
              for (std::int64_t j = 0; j < n; ++j)
                sums[static_cast<std::size_t>(j)] += factor * static_cast<Sum>(line[j * b_step]);
            }
          }
          for (std::int64_t j = 0; j < n; ++j) to[r * n + j] = static_cast<T>(sums[static_cast<std::size_t>(j)]);
        }
      });
    }
  });
}

bool integer_matmul_gpu(const OpCall& call, std::span<Tensor> out) {
  Tensor& y = out[0];
  const gpu::Capabilities& able = gpu::capabilities(y.device());
  const std::int64_t m = y.numel() == 0 ? 0 : y.size(-2), n = y.numel() == 0 ? 0 : y.size(-1), k = call.in[0].size(-1);
  if (able.most_iterations != 0 && k + k / 16 > able.most_iterations) return false;
  if (y.numel() == 0) return true;
  const Tensor a = Operand(call.in[0], y.shape()).x.contiguous(), b = Operand(call.in[1], y.shape()).x.contiguous();
  const std::int64_t tiles = (m + 15) / 16, across = (n + 15) / 16, batch = y.numel() / (m * n);
  const gpu::Shader& wide = able.int64 ? shaders::integer_matmul_i64 : shaders::integer_matmul_pairs;
  gpu::Kernel(y.dtype() == i64 ? wide : shaders::integer_matmul, call)
      .spec(y.dtype())
      .read(a)
      .read(b)
      .write(y)
      .u32(batch, m, n, k)
      .dispatch(gpu::grid(batch * tiles * across));
  return true;
}

/// Computes each row from sums of elementwise products.
TensorList integer_matmul_reference(const OpCall& call) {
  const Tensor &a = call.in[0], &b = call.in[1];
  return {sum(a.unsqueeze(-1).to(i64) * b.unsqueeze(-3).to(i64), {-2}).to(a.dtype())};
}

const OpDef kIntegerMatmul = {.name = "integer_matmul",
                              .infer = integer_matmul_infer,
                              .cpu = integer_matmul_cpu,
                              .gpu = integer_matmul_gpu,
                              .reference = integer_matmul_reference};

}  // namespace

Tensor detail::integer_matmul(const Tensor& a, const Tensor& b) {
  const DType t = promote(a.dtype(), b.dtype());
  return apply1(kIntegerMatmul, {a.to(t), b.to(t)});
}

std::span<const OpDef* const> ops_in_integer_matmul() {
  static const OpDef* const list[] = {&kIntegerMatmul};
  return list;
}

}  // namespace etna
