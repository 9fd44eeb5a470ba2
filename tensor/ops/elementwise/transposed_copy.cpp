#include <algorithm>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/transpose.h>
#include <etna/tensor/internal/layout.h>
#include <etna/tensor/ops/elementwise/internal/elementwise.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Copies between layouts with different contiguous dimensions, as from [N, C, H, W] to [N, H, W, C]. Bound by bytes if
// reads and writes touch whole cache lines. A copy that also converts transposes a block first.
namespace etna::elementwise {
namespace {

/// The memory layout of a block of rows. Steps are in elements.
struct Block {
  const std::byte* from;
  std::int64_t from_step;
  std::byte* to;
  std::int64_t to_step, rows, columns;
};

template <typename S, typename T>
void turn_and_convert(const Block& b) {
  cpu::Scratch<S> transposed(static_cast<std::size_t>(b.rows * b.columns));
  cpu::transpose(b.from, b.from_step, transposed.data(), b.columns, b.rows, b.columns, sizeof(S));
  T* to = reinterpret_cast<T*>(b.to);
  if (b.to_step == b.columns) return rows::convert_run(transposed.data(), to, b.rows * b.columns);
  for (std::int64_t r = 0; r < b.rows; ++r)
    rows::convert_run(transposed.data() + r * b.columns, to + r * b.to_step, b.columns);
}

}  // namespace

bool transposed_copy(const Evaluation& e, const Layout& layout) {
  if (e.attributes.row != Row::identity || e.arity != 1 || e.attributes.scalar_at != 0) return false;
  const Tensor &x = e.operands[0], &y = e.y;
  const bool narrows = x.dtype() == f32 && y.dtype() == bf16, widens = x.dtype() == bf16 && y.dtype() == f32;
  if ((x.dtype() != y.dtype() && !narrows && !widens) || x.storage() == y.storage()) return false;
  const Shape& shape = layout.shape;
  const Strides &from = layout.strides[1], &to = layout.strides[0];
  int row = -1, column = -1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (to[d] == 1) column = d;
    if (from[d] == 1) row = d;
  }
  if (row < 0 || column < 0 || row == column || from[column] < 1 || to[row] < 1) return false;
  const auto item = static_cast<std::int64_t>(item_size(x.dtype())),
             y_item = static_cast<std::int64_t>(item_size(y.dtype()));
  const std::int64_t rows = shape[row], columns = shape[column];
  Shape others = shape;
  Strides from_others = from, to_others = to;
  for (int d : {std::max(row, column), std::min(row, column)})
    others.erase(d), from_others.erase(d), to_others.erase(d);
  // Tasks are blocks of rows of one matrix.
  const std::int64_t block = std::max<std::int64_t>(32, rows::kGrain / columns / 32 * 32);
  const std::int64_t blocks = (rows + block - 1) / block;
  const auto* source = static_cast<const std::byte*>(x.raw_data());
  auto* target = static_cast<std::byte*>(y.raw_host());
  cpu::parallel_for(numel(others) * blocks, std::max<std::int64_t>(1, rows::kGrain / (std::min(block, rows) * columns)),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t t = begin; t < end; ++t) {
                        const std::int64_t matrix = t / blocks, first = t % blocks * block;
                        const std::int64_t at = rows::offset_of(others, from_others, matrix) + first;
                        const std::int64_t there = rows::offset_of(others, to_others, matrix) + first * to[row];
                        const Block part{source + at * item,
                                         from[column],
                                         target + there * y_item,
                                         to[row],
                                         std::min(block, rows - first),
                                         columns};
                        if (narrows)
                          turn_and_convert<float, BFloat16>(part);
                        else if (widens)
                          turn_and_convert<BFloat16, float>(part);
                        else
                          cpu::transpose(part.from, part.from_step, part.to, part.to_step, part.rows, columns, item);
                      }
                    });
  return true;
}

}  // namespace etna::elementwise
