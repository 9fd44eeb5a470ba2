#include <algorithm>

#include <etna/device/internal/rounding.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/matmul/gemm/internal/epilogue.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/int8.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>

namespace etna::gemm {
namespace {

/// The index stride of a scale; 0: one scale for all.
std::uint32_t step_of(const Tensor& scale) { return scale.defined() && scale.numel() > 1 ? 1 : 0; }
Tensor int8_gpu_dense(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

/// The stride of a batch dimension counted from the end (1: the last); 0 if there is none.
std::int64_t stride_at(const Strides& strides, int from_end) {
  return strides.rank() >= from_end ? strides[strides.rank() - from_end] : 0;
}

/// A plan with at most two batch dimensions; copies operands with more.
Plan plan_of(const Tensor& a, const Tensor& b) {
  Plan p = plan(a, b);
  if (p.batch.rank() <= 2) return p;
  auto whole = [&](const Tensor& x, const Tensor& other) {
    Shape x_batch = x.shape(), other_batch = other.shape();
    for (Shape* s : {&x_batch, &other_batch}) s->erase(s->rank() - 1), s->erase(s->rank() - 1);
    Shape shape = broadcast(x_batch, other_batch, "int8_matmul");
    shape.push_back(x.size(-2)), shape.push_back(x.size(-1));
    return x.expand(shape).contiguous();
  };
  return plan(whole(a, b), whole(b, a));
}

/// The matrix shape of the matrix-unit kernel: its sides divide a subgroup's tile of 64 x 64 results; its k divides the
/// kernel's step of 128 and is a multiple of 16. Null if the device has none.
const gpu::MatrixShape* shape_for(const gpu::Capabilities& can) {
  for (const gpu::MatrixShape& s : can.matrix_shapes) {
    bool whole = s.operands == gpu::MatrixElement::i8 && s.sums == gpu::MatrixElement::i32;
    if (whole && 64 % s.m == 0 && 64 % s.n == 0 && s.n % 4 == 0 && 128 % s.k == 0 && s.k % 16 == 0) return &s;
  }
  return nullptr;
}

/// True if ETNA_GEMM allows the matrix-unit variant.
bool asked_for_matrices() {
  for (const Launcher& l : launchers()) {
    if (l.variant == KernelVariant::coopmat) return true;
  }
  return false;
}

/// Number of elements of an operand that can be loaded at once from the start of any row of any matrix.
std::int64_t width_of(const Tensor& x, const Matrix& matrix, const Strides& batch, std::int64_t widest) {
  std::int64_t w = vector_width(x.address(), i8, {matrix.leading}, widest);
  for (int d = 0; d < batch.rank(); ++d) w = std::min(w, vector_width(0, i8, {batch[d]}, widest));
  return w;
}

}  // namespace

bool int8_gpu(const OpCall& call, const Tensor& a, const Tensor& b, const Int8Scales& scales, Tensor& y) {
  if (y.dtype() == f64) return false;
  if (y.numel() == 0) return true;
  if (a.size(-1) == 0) {
    y.zero_();
    return true;
  }
  const Plan p = plan_of(a, b);
  const Tensor row = int8_gpu_dense(scales.row), column = int8_gpu_dense(scales.column);
  const std::int64_t matrices = numel(p.batch);
  const gpu::Capabilities& can = gpu::capabilities(y.device());
  const std::uint32_t scaled = y.dtype() == i32 ? 0 : 4 | (row.defined() ? 1u : 0u) | (column.defined() ? 2u : 0u);
  const std::int64_t y_width = vector_width(y.address(), y.dtype(), {p.n});
  auto launch = [&](const gpu::Shader& shader, std::int64_t tile, std::initializer_list<std::uint32_t> spec) {
    gpu::Kernel(shader, call)
        .spec(std::span(spec.begin(), spec.size()))
        .spec(scaled, y.dtype(), y_width)
        .read(p.a)
        .read(p.b)
        .write(y)
        .read(row)
        .read(column)
        .u32(p.m, p.n, p.k, p.a_matrix.leading, p.b_matrix.leading)
        .u32(stride_at(p.a_batch, 2), stride_at(p.a_batch, 1), stride_at(p.b_batch, 2), stride_at(p.b_batch, 1))
        .u32(p.batch.rank() > 0 ? p.batch.back() : 1, matrices, step_of(row), step_of(column))
        .dispatch(gpu::grid(ceil_div(p.m, tile) * ceil_div(p.n, tile) * matrices));
  };

  const gpu::MatrixShape* shape = shape_for(can);
  const std::uint32_t threads = 4 * can.subgroup_size;
  const bool along_k = !p.a_matrix.transposed && p.b_matrix.transposed && p.k % 16 == 0 &&
                       width_of(p.a, p.a_matrix, p.a_batch, 16) == 16 && width_of(p.b, p.b_matrix, p.b_batch, 16) == 16;
  constexpr std::uint32_t matrix_shared = 2 * 128 * (128 + 16);
  if (along_k && can.cooperative_matrix && shape != nullptr && asked_for_matrices() &&
      !shaders::gemm_int8_coopmat.words.empty() && threads <= can.max_workgroup_size && 1024 % threads == 0 &&
      matrix_shared <= can.shared_memory_bytes) {
    launch(shaders::gemm_int8_coopmat, 128, {threads, shape->m, shape->n, shape->k});
    return true;
  }

  // The larger tile multiplies more per byte read. The smaller tile is for gemms that would otherwise have too few
  // workgroups.
  const bool large = ceil_div(p.m, 128) * ceil_div(p.n, 128) * matrices >= std::max(32u, can.compute_units);
  const gpu::Shader& shader = can.packed_dot ? (large ? shaders::gemm_int8_packed_128 : shaders::gemm_int8_packed_64)
                                             : (large ? shaders::gemm_int8_128 : shaders::gemm_int8_64);
  launch(shader, large ? 128 : 64,
         {gpu::u32(!p.a_matrix.transposed), gpu::u32(p.b_matrix.transposed),
          gpu::u32(width_of(p.a, p.a_matrix, p.a_batch, 4)), gpu::u32(width_of(p.b, p.b_matrix, p.b_batch, 4))});
  return true;
}

}  // namespace etna::gemm
