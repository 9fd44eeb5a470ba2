#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/internal/layout.h>
#include <etna/tensor/ops/elementwise/internal/elementwise.h>
#include <etna/tensor/ops/kernel.h>

namespace etna::elementwise {
namespace {

constexpr std::int64_t kLeast = 16;  ///< fewest rows and columns: below it most of a tile would be empty
constexpr std::int64_t kNear = 4;    ///< elements so far apart still share sectors

/// The matrices of an iteration. The result is contiguous in dimension `column`; the operands in `transposed_operands`
/// (bits 1: a, 2: b, 4: c) are contiguous in dimension `row`, or nearly.
struct Matrices {
  int row = -1, column = -1;
  std::uint32_t transposed_operands = 0;
};

Matrices matrices_of(const Layout& layout) {
  Matrices m;
  for (int d = 0; d < layout.shape.rank(); ++d) {
    if (layout.strides[0][d] == 1) m.column = d;
  }
  if (m.column < 0 || layout.shape[m.column] < kLeast) return m;
  for (int k = 1; k < layout.operands; ++k) {
    const Strides& strides = layout.strides[k];
    if (strides[m.column] <= 1) continue;
    int row = -1;
    for (int d = 0; d < layout.shape.rank(); ++d) {
      const bool near = strides[d] == 1 || (strides[d] > 1 && strides[d] <= kNear && strides[m.column] > kNear);
      if (near && layout.shape[d] >= kLeast && (row < 0 || strides[d] < strides[row])) row = d;
    }
    if (row < 0 || (m.row >= 0 && m.row != row)) continue;
    m.row = row;
    m.transposed_operands |= 1u << (k - 1);
  }
  return m;
}

}  // namespace

bool transposed(const Evaluation& e, const Layout& layout, const Tensor* const* operands, std::uint64_t scalar) {
  const int rank = layout.shape.rank();
  if (rank < 2 || rank > 4) return false;
  const Matrices m = matrices_of(layout);
  if (m.transposed_operands == 0) return false;
  int dims[4] = {-1, -1, m.row, m.column};
  for (int d = 0, next = rank == 4 ? 0 : 1; d < rank; ++d) {
    if (d != m.row && d != m.column) dims[next++] = d;
  }
  auto size = [&](int j) { return dims[j] < 0 ? std::int64_t{1} : layout.shape[dims[j]]; };
  const std::int64_t units = gpu::capabilities(e.y.device()).compute_units;
  auto tiles = [&](std::int64_t side) {
    return size(0) * size(1) * ((size(2) + side - 1) / side) * ((size(3) + side - 1) / side);
  };
  const std::int64_t side = tiles(64) >= 4 * units ? 64 : 32;

  auto operand = [&](int k) { return k < layout.operands && operands[k]->defined() ? operands[k] : nullptr; };
  gpu::Kernel kernel(
      is_floating(e.attributes.compute) ? shaders::elementwise_transposed_float : shaders::elementwise_transposed_int,
      e.name);
  kernel.on(e.y.device()).spec(e.attributes.row, m.transposed_operands, e.attributes.scalar_at);
  for (int k = 0; k < kMaxOperands; ++k) kernel.spec(operand(k) != nullptr ? operand(k)->dtype() : DType{});
  kernel.spec(e.arity, side).write(e.y);
  for (int k = 1; k < kMaxOperands; ++k) kernel.read(operand(k) != nullptr ? gpu::pointer(*operand(k)) : Pointer{});
  kernel.u64(scalar).u32(size(2), size(3), tiles(side), size(1));
  for (int k = 0; k < kMaxOperands; ++k) {
    for (int d : dims)
      kernel.u32(d < 0 || operand(k) == nullptr ? 0 : layout.strides[k][d]);  // outer, inner, row, column
  }
  kernel.dispatch(gpu::grid(tiles(side)));
  return true;
}

}  // namespace etna::elementwise
