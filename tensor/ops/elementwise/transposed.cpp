#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/layout.h>
#include <etna/tensor/ops/elementwise/elementwise.h>
#include <etna/tensor/vulkan.h>

namespace etna::elementwise {
namespace {

/// What shaders/elementwise_transposed.comp takes.
struct Push {
  vulkan::Word64 y, a, b, c;
  vulkan::Word64 scalar;
  std::uint32_t rows, columns, groups, inner;
  std::uint32_t strides[kMaxOperands][4];  ///< outer, inner, row, column
};
static_assert(sizeof(Push) == 120);

constexpr std::int64_t kLeast = 16;  ///< rows and columns: of less a tile would be mostly empty

/// The matrices of an iteration: `column` is the dimension in which the result's elements are neighbours, `row` that in which those of
/// the operands in `turned` (1: a, 2: b, 4: c) are.
struct Matrices {
  int row = -1, column = -1;
  std::uint32_t turned = 0;
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
    for (int d = 0; d < layout.shape.rank(); ++d) {
      if (strides[d] != 1 || layout.shape[d] < kLeast || (m.row >= 0 && m.row != d)) continue;
      m.row = d;
      m.turned |= 1u << (k - 1);
    }
  }
  return m;
}

}  // namespace

bool transposed(const Evaluation& e, const Layout& layout, const Tensor* const* operands, std::uint64_t scalar) {
  const int rank = layout.shape.rank();
  if (rank < 2 || rank > 4) return false;
  const Matrices m = matrices_of(layout);
  if (m.turned == 0) return false;
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

  Push push{};
  vulkan::Word64* addresses[] = {&push.y, &push.a, &push.b, &push.c};
  DType dtypes[kMaxOperands] = {};
  vulkan::Range reads[3];
  std::size_t n_reads = 0;
  for (int k = 0; k < layout.operands; ++k) {
    if (!operands[k]->defined()) continue;
    *addresses[k] = operands[k]->address();
    dtypes[k] = operands[k]->dtype();
    if (k > 0) reads[n_reads++] = vulkan::range(*operands[k]);
    for (int j = 0; j < 4; ++j) push.strides[k][j] = dims[j] < 0 ? 0 : vulkan::word(layout.strides[k][dims[j]]);
  }
  push.scalar = scalar;
  push.rows = vulkan::word(size(2));
  push.columns = vulkan::word(size(3));
  push.groups = vulkan::word(tiles(side));
  push.inner = vulkan::word(size(1));
  const vulkan::Range write = vulkan::range(e.y);
  const std::uint32_t spec[] = {static_cast<std::uint32_t>(e.attributes.row),
                                m.turned,
                                vulkan::word(e.attributes.scalar_at),
                                vulkan::word(dtypes[0]),
                                vulkan::word(dtypes[1]),
                                vulkan::word(dtypes[2]),
                                vulkan::word(dtypes[3]),
                                vulkan::word(e.arity),
                                vulkan::word(side)};
  gpu::record(e.y.device(), {is_floating(e.attributes.compute) ? shaders::elementwise_transposed_float
                                                                  : shaders::elementwise_transposed_int,
                                e.name,
                                spec,
                                vulkan::bytes_of(push),
                                vulkan::grid(tiles(side)),
                                {reads, n_reads},
                                {&write, 1}});
  return true;
}

}  // namespace etna::elementwise
