#include <etna/tensor/ops/linalg/internal/matrices.h>

#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/kernel.h>

namespace etna::linalg {

void require_matrices(const char* op, const Tensor& a) {
  if (a.dtype() != f32 && a.dtype() != f64) {
    throw DtypeError(
        fmt::format("{}: the matrix holds {}, it must hold f32 or f64; call .to(f32)", op, name(a.dtype())));
  }
  if (a.dim() < 2) throw ShapeError(fmt::format("{}: {} has no matrix of two dimensions", op, str(a.shape())));
}

void require_square(const char* op, const Tensor& a) {
  require_matrices(op, a);
  if (a.size(-1) != a.size(-2)) {
    throw ShapeError(fmt::format("{}: {} is not square; the last two sizes must be equal", op, str(a.shape())));
  }
}

std::int64_t batch_size(const Tensor& a) { return numel(batch_shape(a), "linalg"); }

void broadcast_batches(const char* op, Tensor& a, Tensor& b) {
  if (a.dtype() != b.dtype()) {
    throw DtypeError(
        fmt::format("{}: A holds {}, B holds {}; bring both to one dtype", op, name(a.dtype()), name(b.dtype())));
  }
  const Shape batch = broadcast(batch_shape(a), batch_shape(b), op);
  a = a.expand(with_sizes(batch, {a.size(-2), a.size(-1)}));
  b = b.expand(with_sizes(batch, {b.size(-2), b.size(-1)}));
}

Tensor diagonal(const Tensor& a) {
  const std::int64_t k = std::min(a.size(-1), a.size(-2));
  return detail::equal_indices(a.slice(-2, 0, k).slice(-1, 0, k), a.dim() - 2, a.dim() - 1);
}

Tensor as_diagonal(const Tensor& d) {
  return where(detail::identity(d.size(-1), {boolean, d.device()}), d.unsqueeze(-1), 0.0);
}

bool run_small(const OpCall& call, Small what, const Tensor& a, const Tensor& b, Tensor& y, const Tensor& second,
               const Tensor& third, bool upper, bool unit) {
  constexpr std::int64_t kMost = 64, kElements = 7680;  // of shared memory, for a matrix and its right-hand sides
  const std::int64_t n = a.size(-1), batch = batch_size(a);
  if (a.dtype() != f32 || n > kMost || n != a.size(-2)) return false;
  if (y.numel() == 0) return true;
  const bool identity = (what == Small::solve && !b.defined()) || what == Small::cofactor;
  const std::int64_t columns = identity ? n : b.defined() ? b.size(-1) : 0;
  const std::int64_t tile = std::min(columns, n == 0 ? kMost : kElements / n - n),
                     tiles = tile == 0 ? 1 : (columns + tile - 1) / tile;
  const Tensor from_a = a.contiguous(), from_b = b.defined() ? b.contiguous() : Tensor();
  gpu::Kernel(shaders::small_matrix, call)
      .spec(what, upper, unit)
      .read(from_a)
      .read(from_b)
      .write(y)
      .write(second)
      .write(third)
      .u32(checked_product(batch, tiles, call.op.name), n, columns, tile, tiles)
      .dispatch(gpu::grid(batch * tiles));
  return true;
}

}  // namespace etna::linalg
