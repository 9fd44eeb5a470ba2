#include <algorithm>
#include <bit>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/sorting/order/internal/order.h>

// One workgroup sorts one or more short rows in shared memory. Long rows take a radix sort. A few elements of a row are
// selected without sorting it.
namespace etna::order {
namespace {

constexpr std::int64_t kTile = 4096;       ///< elements that a workgroup sorts, counts or selects from
constexpr std::uint32_t kPlain = 9;        ///< PLAIN of shaders/lib/sort_keys.glsl
constexpr std::int64_t kShortest = 8;      ///< the shortest row of shaders/lib/bitonic.glsl
constexpr std::int64_t kSelectFrom = 512;  ///< shorter rows are sorted faster than selected from

std::int64_t power_of_two(std::int64_t n) {
  return std::max(kShortest, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n))));
}

struct Rows {
  const OpCall& call;
  const Tensor& x;
  std::int64_t rows, n;
  std::uint32_t dtype;
  bool descending;
  int bits;  ///< bits per key

  Tensor numbers(std::int64_t count) const { return empty({count}, {i32, x.device()}); }
};

std::int64_t tile_of(DType t) { return t == i64 ? kTile / 2 : kTile; }

/// @param sorted, places [rows, kept]: values and i64 indices, or keys and their i32 positions
void sort_short(const Rows& r, std::int64_t kept, bool values, const Tensor& sorted, const Tensor& places) {
  const std::int64_t length = power_of_two(r.n), per_tile = tile_of(r.x.dtype()) / length;
  gpu::Kernel(r.x.dtype() == i64 ? shaders::sort_rows_i64 : shaders::sort_rows, r.call)
      .spec(r.dtype, r.descending, item_size(r.x.dtype()), values)
      .read(r.x)
      .write(sorted)
      .write(places)
      .u32(r.rows, r.n, length, kept)
      .dispatch(gpu::grid((r.rows + per_tile - 1) / per_tile));
}

/// All passes over one u32 of the keys. Reads `order`, unless it is undefined, and leaves the result there.
void sort_u32(const Rows& r, int word, int bits, Tensor& keys, Tensor& order) {
  const std::int64_t tiles = (r.n + kTile - 1) / kTile, total = r.rows * r.n;
  const Tensor counts = r.numbers(checked_product(r.rows, 256 * tiles, r.call.op.name)), sums = r.numbers(r.rows * 256);
  keys = r.numbers(total);
  gpu::Kernel(shaders::radix_keys, r.call)
      .spec(r.dtype, r.descending, word)
      .read(r.x)
      .read(order)
      .write(keys)
      .u32(total, r.n)
      .dispatch(gpu::grid(total, 1024));
  const std::uint32_t lanes = gpu::capabilities(r.x.device()).subgroup_size;
  Tensor other_keys = r.numbers(total), other_order = r.numbers(total), spare;
  for (int shift = 0; shift < bits; shift += 8) {
    gpu::Kernel(shaders::radix_count, r.call)
        .read(keys)
        .write(counts)
        .u32(r.rows, r.n, tiles, shift)
        .dispatch(gpu::grid(r.rows * tiles));
    gpu::Kernel(shaders::radix_offsets, r.call)
        .read_write(counts)
        .write(sums)
        .u32(r.rows * 256, tiles)
        .dispatch(gpu::grid(r.rows * 256));
    gpu::Kernel(lanes < 8 ? shaders::radix_scatter_128 : shaders::radix_scatter, r.call)
        .spec(lanes)
        .read(keys)
        .read(order)
        .write(other_keys)
        .write(other_order)
        .read(counts)
        .read(sums)
        .u32(r.rows, r.n, tiles, shift)
        .dispatch(gpu::grid(r.rows * tiles));
    std::swap(keys, other_keys);
    std::swap(order, other_order);
    if (!other_order.defined()) other_order = r.numbers(total);
  }
}

/// @return the order of whole rows; `keys` becomes the last u32 of their keys in that order
Tensor sort_long(const Rows& r, Tensor& keys) {
  Tensor order;
  sort_u32(r, 0, r.bits, keys, order);
  if (r.x.dtype() == i64) sort_u32(r, 1, 32, keys, order);
  return order;
}

void order_gpu_select(const Rows& r, std::int64_t kept, const Tensor& order) {
  Tensor candidates;
  for (std::int64_t n = r.n;;) {
    const std::int64_t tiles = (n + kTile - 1) / kTile;
    const Tensor selected = tiles == 1 ? order : r.numbers(r.rows * tiles * kept);
    gpu::Kernel(shaders::select_rows, r.call)
        .spec(r.dtype, r.descending)
        .read(r.x)
        .read(candidates)
        .write(selected)
        .u32(r.rows, r.n, n, tiles, kept, power_of_two(kept))
        .dispatch(gpu::grid(r.rows * tiles));
    if (tiles == 1) return;
    candidates = selected;
    n = tiles * kept;
  }
}

/// True if the first elements are selected: each pass over the candidates must leave fewer of them.
bool selects(DType t, std::int64_t n, std::int64_t kept) {
  return t != i64 && kept <= kMostSelected && kept <= n / 2 && n > kSelectFrom;
}

int key_bits(DType t) { return t == i64 ? 32 : static_cast<int>(8 * item_size(t)); }

}  // namespace

bool sort_rows_gpu(const OpCall& call, const Tensor& x, bool descending, std::int64_t kept, const Tensor& values,
                   const Tensor& indices) {
  const std::int64_t n = x.size(-1);
  if (n > tile_of(x.dtype()) || selects(x.dtype(), n, kept)) return false;
  sort_short({call, x, x.numel() / n, n, gpu::u32(x.dtype()), descending, 0}, kept, true, values, indices);
  return true;
}

SortedKeys order_gpu(const OpCall& call, const Tensor& x, bool descending, std::int64_t kept) {
  const std::int64_t n = x.size(-1), rows = x.numel() / n;
  const Rows r{call, x, rows, n, gpu::u32(x.dtype()), descending, key_bits(x.dtype())};
  SortedKeys sorted;
  if (selects(x.dtype(), n, kept)) {
    sorted.order = empty({rows, kept}, {i32, x.device()});
    order_gpu_select(r, kept, sorted.order);
    return sorted;
  }
  sorted.order = sort_long(r, sorted.keys).reshape({rows, n});
  if (x.dtype() == i64) sorted.keys = Tensor();  // these are only one u32 of two
  if (kept < n) {
    sorted.order = sorted.order.slice(1, 0, kept).contiguous();
    sorted.keys = Tensor();
  }
  return sorted;
}

SortedKeys sort_keys_gpu(const OpCall& call, const Tensor& keys, std::int64_t limit) {
  const std::int64_t n = keys.numel();
  const Rows r{call, keys, 1, n, kPlain, false, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(limit)))};
  SortedKeys sorted{r.numbers(n), r.numbers(n)};
  if (n <= kTile) {
    sort_short(r, n, false, sorted.keys, sorted.order);
  } else {
    sorted.order = sort_long(r, sorted.keys);
  }
  return sorted;
}

}  // namespace etna::order
