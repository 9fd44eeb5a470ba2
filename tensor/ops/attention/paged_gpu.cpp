#include <algorithm>
#include <cmath>
#include <limits>

#include <etna/device/internal/rounding.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops/attention/internal/cubin.h>
#include <etna/tensor/ops/attention/internal/matrix.h>
#include <etna/tensor/ops/attention/internal/paged.h>
#include <etna/tensor/ops/kernel.h>

namespace etna::attention::paged {
namespace {

/// One workgroup attends to a sequence of up to kPositionsAlone positions. Longer sequences are divided into chunks,
/// one for each workgroup.
constexpr std::int64_t kPositionsAlone = 512, kPositionsPerChunk = 128;
/// Rows and positions of a tile of the plain kernel for many queries, and the fewest positions of its chunks.
constexpr std::int64_t kRowsPerTile = 64, kPositionsPerSpan = 256;
constexpr std::int64_t kMostShared = 16, kMostRow = 1024;
/// Of the kernel for wide heads: rows of a workgroup with one row for each of its owners, the largest head for which
/// there are two, and positions of its chunks, at least. Chunks are no more than these, whose results take this memory.
constexpr std::int64_t kWideTile = 16, kWideOfTwo = 640, kPositionsPerPart = 64;
constexpr std::int64_t kMostParts = 64, kMostPartBytes = std::int64_t{1} << 28;

/// Number of elements per load.
std::uint32_t load_width(const Tensor& cache, std::int64_t size) {
  if (cache.dtype() == u8) return 1;
  const std::uint64_t bytes = cache.address();
  const auto item = static_cast<std::uint64_t>(item_size(cache.dtype()));
  if (size % 4 == 0 && bytes % (4 * item) == 0) return 4;
  return size % 2 == 0 && bytes % (2 * item) == 0 ? 2 : 1;
}

/// Weights of norms in one dtype, and frequencies, as kernels read them.
struct HeadInputs {
  Tensor frequencies, query_norm, key_norm;
  std::uint32_t norm = 0;  ///< dtype of the norms' weights + 1; 0: no norms

  explicit HeadInputs(const OpCall& call) {
    const Tensor& any = call.in[kQueryNorm].defined() ? call.in[kQueryNorm] : call.in[kKeyNorm];
    if (any.defined()) norm = gpu::u32(any.dtype()) + 1;
    const auto weights = [&](const Tensor& w) { return w.defined() ? w.to(any.dtype()).contiguous() : Tensor(); };
    query_norm = weights(call.in[kQueryNorm]);
    key_norm = weights(call.in[kKeyNorm]);
    if (call.in[kFrequencies].defined()) frequencies = call.in[kFrequencies].contiguous();
  }
  std::int64_t pairs() const { return frequencies.defined() ? frequencies.size(0) : 0; }
};

/// True if the attention kernel supports `rows` rows of `heads` queries.
bool attends(DType dtype, const Tensor& keys, std::int64_t rows, std::int64_t heads, std::int64_t size) {
  const std::int64_t groups = keys.size(1), shared = groups > 0 ? heads / groups : 0;
  return dtype != f64 && keys.dtype() != f64 && size % 4 == 0 && size <= kMostSize && shared <= kMostShared &&
         groups <= 65535 && rows <= 65535 && shared * size <= 4096;
}

/// True if the kernels for many queries support them: tiles of rows, each of which is a head of a query.
bool attends_in_tiles(const Tensor& q, const Tensor& keys) {
  return q.size(1) >= kPrompt && q.dtype() != f64 && keys.dtype() != f64 && q.size(3) <= kMostSize &&
         keys.size(1) <= 65535 && q.size(0) <= 65535 && q.numel() < std::int64_t{1} << 32;
}

/// True if the kernel for wide heads, or for many that share keys, supports them.
bool attends_wide(const Tensor& q, const Tensor& keys) {
  return q.dtype() != f64 && keys.dtype() != f64 && q.size(3) % 4 == 0 && q.size(3) <= kMostRow &&
         keys.size(1) <= 65535 && q.size(0) <= 65535 && q.numel() < std::int64_t{1} << 32;
}

Tensor sinks_of(const Tensor& given) { return given.defined() ? given.to(f32).contiguous() : given; }

/// The arguments that all kernels of paged attention share.
struct Attention {
  Tensor q, keys, values, table, positions, y;
  AttentionAttrs attrs;
  Tensor sinks = {};  ///< [H] f32, added where parts are merged
  std::int64_t rows = 0, steps = 1, shared = 1, split = 1, size = 0, span = 0, chunks = 1;
  Tensor parts = {};  ///< undefined where one chunk writes the result

  /// @param shape of the queries, [B, T, H, D]
  void measure(const Shape& shape) {
    rows = shape[0] * shape[1];
    steps = shape[1];
    size = shape[3];
    shared = shape[2] / keys.size(1);
  }
  std::int64_t reach() const { return table.size(1) * kCacheBlock; }
  std::int64_t compute_units() const { return gpu::capabilities(q.device()).compute_units; }
  void divide(std::int64_t positions) {
    span = positions;
    chunks = std::max<std::int64_t>(1, ceil_div(reach(), span));
    make_parts();
  }
  void make_parts() {
    if (chunks > 1 || sinks.defined())
      parts = empty({rows * keys.size(1) * shared, chunks, size + 2}, {f32, q.device()});
  }

  void plan(const Shape& shape) {
    measure(shape);
    divide(reach() <= kPositionsAlone ? kPositionsAlone : kPositionsPerChunk);
    const std::int64_t workgroups = rows * keys.size(1) * chunks;
    if (overrides().split_heads || workgroups * shared <= compute_units()) split = shared;
  }

  /// For kernels whose workgroups own `tile` rows: keys are divided where tiles are too few for the device, until two
  /// rounds of two workgroups on each of its units are full. @return tiles of a sequence
  std::int64_t plan_tiles(const Shape& shape, std::int64_t tile) {
    measure(shape);
    const std::int64_t tiles = ceil_div(steps * shared, tile), workgroups = tiles * keys.size(1) * shape[0];
    const std::int64_t wanted = std::clamp<std::int64_t>((4 * compute_units() + workgroups / 2) / workgroups, 1,
                                                         std::max<std::int64_t>(1, reach() / kPositionsPerSpan));
    chunks = overrides().split_keys ? std::max<std::int64_t>(1, table.size(1)) : wanted;
    span = overrides().split_keys ? kCacheBlock : kPositionsPerSpan;
    make_parts();
    return tiles;
  }

  /// For kernels whose blocks stay on their compute units: as many chunks as let the last of them end earliest.
  void plan_blocks(const Shape& shape, const PagedTiles& all) {
    measure(shape);
    const std::int64_t blocks = ceil_div(reach(), all.positions);
    // What beginning and ending a tile costs, in blocks of keys, and what storing and merging parts adds.
    constexpr std::int64_t tile_cost = 2, part_cost = 1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t c = 1, most = std::max<std::int64_t>(1, reach() / kPositionsPerSpan); c <= most; ++c) {
      const std::int64_t cost =
          ceil_div(all.tiles * c, compute_units()) * (ceil_div(blocks, c) + tile_cost + (c > 1 ? part_cost : 0));
      if (cost < least) least = cost, chunks = c;
    }
    // Of one chunk the kernel writes the result itself, which knows no sinks.
    if (sinks.defined()) chunks = std::max<std::int64_t>(chunks, 2);
    span = kPositionsPerSpan;
    if (overrides().split_keys) {
      chunks = std::max<std::int64_t>(1, table.size(1));
      span = kCacheBlock;
    }
    make_parts();
  }

  /// For the kernel for wide heads. Chunks of a few queries depend on the table's width only, so that a sequence gets
  /// the same bits whoever else is in the batch. @return tiles of a sequence
  std::int64_t plan_wide(const Shape& shape, std::int64_t tile) {
    if (shape[1] >= kPrompt || overrides().split_keys) return plan_tiles(shape, tile);
    measure(shape);
    const std::int64_t part = rows * keys.size(1) * shared * (size + 2) * static_cast<std::int64_t>(sizeof(float));
    chunks = std::clamp<std::int64_t>(std::min(reach() / kPositionsPerPart, kMostPartBytes / part), 1, kMostParts);
    span = kPositionsPerPart;
    make_parts();
    return ceil_div(steps * shared, tile);
  }

  void begin(gpu::Kernel& kernel) const {
    kernel.spec(q.dtype(), keys.dtype(), size, shared / split)
        .spec(load_width(q, size), std::min(load_width(keys, size), load_width(values, size)))
        .spec(is_whole(), split, y.dtype());
  }
  bool is_whole() const { return !parts.defined(); }
  /// The window, or the chunk with the bit that shaders/lib/paged.glsl knows it by.
  std::uint32_t limit() const { return attrs.chunk > 0 ? gpu::u32(attrs.chunk) | 1u << 31 : gpu::u32(attrs.window); }
  /// @param bytes is bound in place of the partial results if there are none
  void places(gpu::Kernel& kernel, const Tensor& bytes = {}) const {
    kernel.read(table).read(positions).write(is_whole() ? y : Tensor()).write(is_whole() ? bytes : parts);
  }
  void numbers(gpu::Kernel& kernel) const {
    kernel.u32(steps, keys.size(1), table.size(1), keys.size(0), chunks, limit(), span)
        .f32(static_cast<float>(attrs.scale))
        .f32(static_cast<float>(attrs.softcap));
  }
  void dispatch(const OpCall& call, const gpu::Kernel& kernel) const {
    kernel.dispatch({gpu::u32(chunks), gpu::u32(keys.size(1) * split), gpu::u32(rows)});
    merge(call, false);
  }
  /// @param balanced the chunks of a sequence are equally long, however long it is
  void merge(const OpCall& call, bool balanced) const {
    if (is_whole()) return;
    gpu::Kernel(shaders::paged_attention_merge, call)
        .spec(y.dtype(), balanced, sinks.defined(), ceil_div(size, 128))
        .read(parts)
        .read(positions)
        .read(sinks)
        .write(y)
        .u32(steps, keys.size(1), shared, chunks, span, size, table.size(1) * kCacheBlock, limit())
        .dispatch(gpu::u32(rows * keys.size(1) * shared));
  }
};

/// Of a prompt, on a Hopper GPU's matrix units. @return false if there are none for it
bool attend_by_cubin(const OpCall& call, Attention& at) {
  PagedPrompt prompt{.q = at.q,
                     .keys = at.keys,
                     .values = at.values,
                     .table = at.table,
                     .positions = at.positions,
                     .y = at.y,
                     .parts = {},
                     .scale = at.attrs.scale,
                     .softcap = at.attrs.softcap,
                     .limit = at.limit()};
  const std::optional<PagedTiles> tiles = cubin_prompt_tiles(prompt);
  if (!tiles) return false;
  at.plan_blocks(at.q.shape(), *tiles);
  prompt.parts = at.parts;
  prompt.chunks = at.chunks;
  prompt.least = at.span;
  launch_cubin_prompt(call, prompt);
  at.merge(call, true);
  return true;
}

/// Of a prompt: by matrix units where queries and keys are in 16 bits.
void attend_in_tiles(const OpCall& call, Attention& at) {
  const Shape& shape = at.q.shape();
  const std::int64_t shared = shape[2] / at.keys.size(1), size = shape[3];
  const bool capped = at.attrs.softcap > 0;
  if (attend_by_cubin(call, at)) return;
  std::optional<MatrixKernel> matrix;
  const bool aligned = at.q.address() % 16 == 0 && at.keys.address() % 16 == 0 && at.values.address() % 16 == 0;
  if (aligned && std::isfinite(at.attrs.scale))
    matrix = paged_matrix_kernel(at.q.device(), at.q.dtype(), at.keys.dtype(), shape[1] * shared, size);
  const std::int64_t tiles = at.plan_tiles(shape, matrix ? matrix->tile() : kRowsPerTile);
  const bool q8 = at.keys.dtype() == u8;
  const gpu::Shader& plain = size <= 64 ? q8 ? shaders::attention_paged_q8_64 : shaders::attention_paged_64
                             : q8       ? shaders::attention_paged_q8_128
                                        : shaders::attention_paged_128;
  gpu::Kernel kernel(matrix ? *matrix->shader : plain, call);
  if (matrix) {
    kernel.spec(matrix->spec()).spec(at.is_whole(), capped, shared);
  } else {
    const std::uint32_t width = std::min(load_width(at.keys, size), load_width(at.values, size));
    // No mask, and sums unrolled by 4.
    kernel.spec(at.q.dtype(), load_width(at.q, size) == 4 ? 4 : 1, 99, 4)
        .spec(at.keys.dtype(), width, at.is_whole(), shared);
  }
  kernel.read(at.q).read(at.keys).read(at.values);
  at.places(kernel);
  at.numbers(kernel);
  kernel.u32(gpu::u32(shared) | gpu::u32(size) << 16)
      .dispatch({gpu::u32(tiles * at.chunks), gpu::u32(at.keys.size(1)), gpu::u32(shape[0])});
  at.merge(call, true);
}

/// By a kernel that keeps queries and sums in registers, whatever the size of a head.
void attend_wide(const OpCall& call, Attention& at) {
  const Shape& shape = at.q.shape();
  const std::int64_t size = shape[3], all = shape[1] * shape[2] / at.keys.size(1);
  const std::int64_t owned = all > kWideTile && size <= kWideOfTwo ? 2 : 1;
  const std::int64_t keys_at_once = owned == 1 && size <= kWideOfTwo ? 8 : 4;
  const std::int64_t tiles = at.plan_wide(shape, owned * kWideTile);
  const bool has_values = at.values.defined();
  const std::uint32_t width = load_width(at.keys, size);
  gpu::Kernel kernel(shaders::paged_attention_wide, call);
  kernel.spec(at.q.dtype(), at.keys.dtype(), size, owned, keys_at_once, load_width(at.q, size))
      .spec(has_values ? std::min(width, load_width(at.values, size)) : width, at.is_whole(), at.y.dtype(), has_values)
      .read(at.q)
      .read(at.keys)
      .read(at.values);
  at.places(kernel);
  at.numbers(kernel);
  kernel.u32(at.shared).dispatch({gpu::u32(tiles * at.chunks), gpu::u32(at.keys.size(1)), gpu::u32(shape[0])});
  at.merge(call, true);
}

}  // namespace

bool rotate_and_cache_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<WriteAttrs>();
  const Tensor& given = call.in[kQkv];
  if (given.dtype() == f64 || a.dtype == f64 || out[1].dtype() == f64 || a.size > kMostRow) return false;
  if (given.numel() == 0) return true;
  const Tensor qkv = given.contiguous(), table = call.in[kWriteTable].contiguous(),
               positions = call.in[kWritePositions].contiguous();
  const HeadInputs heads(call);
  gpu::Kernel(shaders::rotate_and_cache, call)
      .spec(qkv.dtype(), out[1].dtype(), a.interleaved, heads.norm, out[0].dtype())
      .read(qkv)
      .read(heads.frequencies)
      .read(table)
      .read(positions)
      .read(heads.query_norm)
      .read(heads.key_norm)
      .write(out[0])
      .read_write(out[1])
      .read_write(a.has_values ? out[2] : Tensor())
      .u32(qkv.size(1), a.heads, a.kv_heads, a.all_heads(), a.size, heads.pairs())
      .u32(table.size(1), out[1].size(0))
      .f32(a.eps)
      .f32(a.magnitude)
      .dispatch(gpu::grid(qkv.size(0) * qkv.size(1) * a.all_heads()));
  return true;
}

bool cached_rows_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor& cache = call.in[kCache];
  Tensor& y = out[0];
  const std::int64_t size = y.size(3);
  if (y.dtype() == f64 || cache.dtype() == f64 || y.numel() >= std::int64_t{1} << 32) return false;
  if (y.numel() == 0) return true;
  const std::int64_t quads = (size + 3) / 4, all = y.numel() / size * quads;
  const Tensor from = cache.contiguous(), table = call.in[kRowsTable].contiguous();
  gpu::Kernel(shaders::cached_rows, call)
      .spec(from.dtype(), load_width(from, size), y.dtype(), load_width(y, size))
      .read(from)
      .read(table)
      .write(y)
      .u32(quads, all, y.size(2), y.size(1), size, table.size(1), from.size(0))
      .dispatch(gpu::grid(all, 256));
  return true;
}

bool paged_attention_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor &given = call.in[kQ], &keys = call.in[kKeys];
  const bool tiles = attends_in_tiles(given, keys);
  const bool wide =
      !tiles && !attends(given.dtype(), keys, given.size(0) * given.size(1), given.size(2), given.size(3));
  if (wide && !attends_wide(given, keys)) return false;
  if (given.numel() == 0) return true;
  Attention at{given.contiguous(),
               keys,
               wide || call.in[kValues].defined() ? call.in[kValues] : keys,
               call.in[kTable].contiguous(),
               call.in[kPositions].contiguous(),
               out[0],
               call.as<AttentionAttrs>(),
               sinks_of(call.in[kSinks])};
  if (tiles || wide) {
    tiles ? attend_in_tiles(call, at) : attend_wide(call, at);
    return true;
  }
  at.plan(given.shape());
  gpu::Kernel kernel(shaders::paged_attention, call);
  at.begin(kernel);
  kernel.read(at.q).read(at.keys).read(at.values);
  at.places(kernel);
  at.numbers(kernel);
  at.dispatch(call, kernel);
  return true;
}

bool has_step_gpu(const Tensor& qkv, const PagedCache& cache, std::int64_t heads, std::int64_t size) {
  return cache.keys.dtype() != u8 && cache.values.defined() &&
         attends(qkv.dtype(), cache.keys, qkv.size(0), heads, size);
}

bool step_quantizes_gpu(const Tensor& table, std::int64_t size) {
  return table.size(1) * kCacheBlock <= kPositionsAlone && size % 32 == 0;
}

bool rotate_and_attend_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<StepAttrs>();
  const Tensor& given = call.in[kQkv];
  if (out[0].dtype() == f64 || !has_step_gpu(given, {out[1], out[2]}, a.write.heads, a.write.size)) return false;
  if (given.numel() == 0) return true;
  Attention at{given.contiguous(),
               out[1],
               out[2],
               call.in[kWriteTable].contiguous(),
               call.in[kWritePositions].contiguous(),
               out[0],
               a.attention,
               sinks_of(call.in[kStepSinks])};
  at.plan({out[0].size(0), 1, a.write.heads, a.write.size});
  const HeadInputs heads(call);
  gpu::Kernel kernel(shaders::paged_attention_rotated, call);
  at.begin(kernel);
  kernel.spec(a.write.interleaved, heads.norm, a.quantizes).read(at.q).read_write(at.keys).read_write(at.values);
  at.places(kernel, a.quantizes ? out[3] : Tensor());
  kernel.read(heads.frequencies).read(heads.query_norm).read(heads.key_norm);
  at.numbers(kernel);
  kernel.u32(heads.pairs()).f32(a.write.eps).f32(a.write.magnitude);
  at.dispatch(call, kernel);
  return true;
}

}  // namespace etna::attention::paged
