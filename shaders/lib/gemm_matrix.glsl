// Matrix multiplication y = a · b with an epilogue on KHR_cooperative_matrix units: f16 or bf16 operands, f32 sums,
// over a batch.
//
// A workgroup of four subgroups owns TILE_M x TILE_N results, each subgroup a quarter of them. Shared memory holds 64
// steps of k of both operands while the next 64 are loaded to registers. A subgroup with 64 x 64 results reads 8 KiB of
// shared memory per 64 x 64 x 16 x 2 multiplications. With 64 x 32 the shared-memory pipe, which serves loads and
// stores, would be as busy as the matrix units. Each row in shared memory is padded by eight elements, so that matrices
// are read without bank conflicts.
//
// Tried on an H200 at 4096³, f16 and bf16 alike, TFLOP/s, both operands contiguous in k (stand-alone kernels without
// edges and epilogues):
//   128x128, k 64, 64 x 64 a subgroup   316     tiles of 128x128, k 32           266 (272 loading two steps ahead)
//   64 x 32 a subgroup, eight of them   247     the same, two buffers            263 (291 two steps ahead)
//   tiles of 128x192, k 64              261     tiles of 128x256, k 32, eight    246 (272 three steps ahead)
//   tiles of 128x96                     278     k 16, two buffers                178
//   loading two steps ahead             226     (registers spill)
//   fragments of the next 16 steps read ahead, half of the tile replaced while the other half is multiplied: 202
//   NV_cooperative_matrix2, best of eleven tiles (128x128, k 64, 128 threads): 284
//   limits, at 128x128, k 32: without loads from memory 366, also without stores to shared memory 456, also without
//   barriers 527
// For small gemms: tiles of 128x64 218, of 64x64 202.
//
// With BLOCKS, b is a weight in a block format (lib/quant_blocks.glsl), row by row along k, and is decoded on its way
// to shared memory: 128 steps of k at a time, which are whole chunks in every format. This is for an a with few rows,
// where decoding the whole weight to memory first would not pay.
//
// With EXPERTS, b is a weight of each expert, one below the other, and the rows of a tile have one expert
// (quantized/expert_rows.comp); tiles behind the last have none. With EXPERT_ROWS, the batch are experts, and each sums
// over its own steps of k alone, of which there may be none.
//
// Operands are read eight elements at a time if their alignment allows it, otherwise two or one; elements past an edge
// are 0. Results pass through shared memory, so that rows are written in long runs and the epilogue knows rows and
// columns, which a cooperative matrix hides.

#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require

#include "epilogue.glsl"
#include "units.glsl"

#ifdef BLOCKS
#include "quant_blocks.glsl"
const uint STEP = 128;
#else
const uint STEP = 64;
#endif
const uint SUB_M = TILE_M / 2, SUB_N = TILE_N / 2;

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 128;      // four subgroups
layout(constant_id = 1) const uint A_K_NEIGHBOURS = 1;  // 1: consecutive k of a row of a are contiguous
layout(constant_id = 2) const uint B_K_NEIGHBOURS = 0;
layout(constant_id = 3) const uint A_WIDTH = 1;
layout(constant_id = 4) const uint B_WIDTH = 1;
layout(constant_id = 5) const uint M_FULL = 0;  // 1: m is a multiple of TILE_M, and so on; no bounds checks
layout(constant_id = 6) const uint N_FULL = 0;
layout(constant_id = 7) const uint K_FULL = 0;
layout(constant_id = 8) const uint Y_WIDTH = 1;
layout(constant_id = 9) const uint EPILOGUE = 0;
layout(constant_id = 10) const uint Y_DTYPE = 1;
layout(constant_id = 11) const uint BIAS_DTYPE = 1;
layout(constant_id = 12) const uint AUX_DTYPE = 1;
layout(constant_id = 13) const uint RESIDUAL_DTYPE = 1;
layout(constant_id = 14) const uint FM = 16;  // matrix shape: FM x FK times FK x FN
layout(constant_id = 15) const uint FN = 16;
layout(constant_id = 16) const uint FK = 16;
#ifdef BLOCKS
layout(constant_id = 17) const uint FORMAT = 0;
layout(constant_id = 18) const uint ALIGNED = 1;  // divides the address of every block
#endif

layout(push_constant, scalar) uniform Push {
  uvec2 a, b;
  EPILOGUE_PUSH
  uint m, n, k;
  uint lda, ldb;
  uint a_strides[2];  // of the outer and inner batch dimension
#ifdef BLOCKS
  uvec2 points;  // of grids (lib/quant_grids.glsl); there is one b
#else
  uint b_strides[2];
#endif
  uint inner, batch;                // sizes: of the inner batch dimension, of both combined
  uint k_per_split;                 // a multiple of STEP
#if defined(EXPERTS) || defined(EXPERT_ROWS)
  uvec2 experts;  // i32: of each tile of rows, -1: none; or of each expert, its first step of k and the one after all
#endif
} p;

#include "epilogue_row.glsl"

// In units of eight elements: the length of a stored row of each operand, the number of rows, and the distance between
// rows in shared memory.
const uint A_ROW = A_K_NEIGHBOURS != 0 ? STEP / 8 : TILE_M / 8, A_ROWS = A_K_NEIGHBOURS != 0 ? TILE_M : STEP;
const uint B_ROW = B_K_NEIGHBOURS != 0 ? STEP / 8 : TILE_N / 8, B_ROWS = B_K_NEIGHBOURS != 0 ? TILE_N : STEP;
const uint A_PITCH = A_ROW + 1, B_PITCH = B_ROW + 1;
const uint A_LOADS = TILE_M * STEP / 8 / THREADS, B_LOADS = TILE_N * STEP / 8 / THREADS;
#ifdef BLOCKS
const uint B_CHUNKS = TILE_N * STEP / 16 / THREADS, CHUNKS_PER_ROW = STEP / 16;
#endif
const uint B_AT = A_PITCH * A_ROWS;
const uint OUT_PITCH = SUB_N / 4 + 1;  // for a subgroup's FM rows of results
const uint OPERANDS = B_AT + B_PITCH * B_ROWS, OUT = 4 * FM * OUT_PITCH;

shared uvec4 pool[OPERANDS > OUT ? OPERANDS : OUT];

#define SUMS coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>
#define A_MATRIX coopmat<ELEMENT, gl_ScopeSubgroup, FM, FK, gl_MatrixUseA>
#define B_MATRIX coopmat<ELEMENT, gl_ScopeSubgroup, FK, FN, gl_MatrixUseB>
const uint DOWN = SUB_M / FM, ACROSS = SUB_N / FN;

// Elements i ... i + 7, of which `count` are valid; the others are the rest of their u32s, or 0.
uvec4 load_eight(uvec2 address, uint i, uint count, uint width) {
  if (width == 8) return count == 0 ? uvec4(0) : BufferQuads(address).v[i / 8];
  uvec4 r = uvec4(0);
  [[unroll]] for (uint w = 0; w < 4; ++w) {
    if (width > 1) {
      if (2 * w < count) r[w] = BufferPair(address).v[i / 2 + w];
    } else {
      if (2 * w < count) r[w] = uint(BufferU16(address).v[i + 2 * w]);
      if (2 * w + 1 < count) r[w] |= uint(BufferU16(address).v[i + 2 * w + 1]) << 16;
    }
  }
  return r;
}

// Eight elements of an operand; `x` and `y` are their stored row and column. `rows` is the number of rows; if k runs
// along the rows, rows past it are clamped.
uvec4 fetch(uvec2 address, uint offset, uint ld, uint k_neighbours, uint width, bool rows_full, bool columns_full,
            uint x, uint y, uint rows, uint columns) {
  uint count = columns_full ? 8 : y < columns ? min(8, columns - y) : 0;
  if (!rows_full) {
    if (k_neighbours != 0) x = min(x, rows - 1);
    else if (x >= rows) count = 0;
  }
  uvec4 r = load_eight(address, offset + x * ld + y, count, width);
  if (k_neighbours != 0 && !columns_full && count < 8) {
    // Memory past the end of a row may hold NaN, and 0 · NaN is NaN, so it is replaced by 0.
    [[unroll]] for (uint w = 0; w < 4; ++w) r[w] = 2 * w + 1 < count ? r[w] : 2 * w < count ? r[w] & 0xffffu : 0;
  }
  return r;
}

#define FETCH_A(k0)                                                                                             \
  [[unroll]] for (uint i = 0; i < A_LOADS; ++i) {                                                               \
    uint v = i * THREADS + me, x = v / A_ROW, y = v % A_ROW * 8;                                                \
    a_next[i] = A_K_NEIGHBOURS != 0                                                                             \
        ? fetch(p.a, a_offset, p.lda, 1, A_WIDTH, M_FULL != 0, K_FULL != 0, row0 + x, (k0) + y, p.m, k_end)     \
        : fetch(p.a, a_offset, p.lda, 0, A_WIDTH, K_FULL != 0, M_FULL != 0, (k0) + x, row0 + y, k_end, p.m);    \
  }

#define PUT_A                                                                                                   \
  [[unroll]] for (uint i = 0; i < A_LOADS; ++i) {                                                               \
    uint v = i * THREADS + me;                                                                                  \
    pool[v / A_ROW * A_PITCH + v % A_ROW] = a_next[i];                                                          \
  }

#ifdef BLOCKS
uvec2 weight = p.b;

// Sixteen elements of a row as four times four bf16.
void fetch_chunk(uint row, uint c, float tail, out uvec2 halves[4]) {
  Chunk k = decode_chunk(FORMAT, block_row(weight, row, p.ldb, ALIGNED), c, p.k, tail);
  [[unroll]] for (uint q = 0; q < 4; ++q) {
    vec4 v = k.scale[q] * k.quants[q];
    if (has_minimum(FORMAT)) v -= k.least[q];
    halves[q] = uvec2(narrow_pair(v.xy, BF16), narrow_pair(v.zw, BF16));
  }
}
void put_chunk(uint row, uint c, uvec2 halves[4]) {
  [[unroll]] for (uint q = 0; q < 4; ++q) {
    uint e = quad_at(FORMAT, chunk_first(FORMAT, c), q), at = B_AT + row * B_PITCH + e / 8;
    if (e % 8 == 0) pool[at].xy = halves[q];
    else pool[at].zw = halves[q];
  }
}
#define FETCH(k0)                                                                                               \
  FETCH_A(k0)                                                                                                   \
  [[unroll]] for (uint i = 0; i < B_CHUNKS; ++i) {                                                              \
    uint v = i * THREADS + me;                                                                                  \
    fetch_chunk(min(column0 + v / CHUNKS_PER_ROW, p.n - 1), (k0) / 16 + v % CHUNKS_PER_ROW, tail, b_next[i]);   \
  }
#define PUT                                                                                                     \
  PUT_A                                                                                                         \
  [[unroll]] for (uint i = 0; i < B_CHUNKS; ++i) {                                                              \
    uint v = i * THREADS + me;                                                                                  \
    put_chunk(v / CHUNKS_PER_ROW, v % CHUNKS_PER_ROW, b_next[i]);                                               \
  }
#else
#define FETCH(k0)                                                                                               \
  FETCH_A(k0)                                                                                                   \
  [[unroll]] for (uint i = 0; i < B_LOADS; ++i) {                                                               \
    uint v = i * THREADS + me, x = v / B_ROW, y = v % B_ROW * 8;                                                \
    b_next[i] = B_K_NEIGHBOURS != 0                                                                             \
        ? fetch(p.b, b_offset, p.ldb, 1, B_WIDTH, N_FULL != 0, K_FULL != 0, column0 + x, (k0) + y, p.n, k_end)  \
        : fetch(p.b, b_offset, p.ldb, 0, B_WIDTH, K_FULL != 0, N_FULL != 0, (k0) + x, column0 + y, k_end, p.n); \
  }

#define PUT                                                                                                     \
  PUT_A                                                                                                         \
  [[unroll]] for (uint i = 0; i < B_LOADS; ++i) {                                                               \
    uint v = i * THREADS + me;                                                                                  \
    pool[B_AT + v / B_ROW * B_PITCH + v % B_ROW] = b_next[i];                                                   \
  }
#endif

void main() {
#ifdef BLOCKS
  if (has_levels(FORMAT)) fill_level_table();
  grid_points = p.points;
#endif
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, me = gl_LocalInvocationID.x;
  uint tiles_m = (p.m + TILE_M - 1) / TILE_M, tiles_n = (p.n + TILE_N - 1) / TILE_N, tiles = tiles_m * tiles_n;
  if (group >= tiles * p.batch * ((p.k + p.k_per_split - 1) / p.k_per_split)) return;
  uint tile = group % tiles, matrix = group / tiles % p.batch, split = group / tiles / p.batch;

  // Tiles are ordered in bands of eight rows, so that tiles in flight share operands in the cache.
  uint band = tile / (8 * tiles_n), first = band * 8, height = min(8, tiles_m - first), inside = tile - first * tiles_n;
  uint row0 = (first + inside % height) * TILE_M, column0 = inside / height * TILE_N;
#if defined(EXPERTS) && defined(BLOCKS)
  int expert = BufferI32(p.experts).v[row0 / TILE_M];
  if (expert < 0) return;
  weight = address_of(p.b, uint(expert) * p.n, p.ldb);
#endif
  uint sub_row = gl_SubgroupID % 2 * SUB_M, sub_column = gl_SubgroupID / 2 * SUB_N;

  uint a_offset = matrix / p.inner * p.a_strides[0] + matrix % p.inner * p.a_strides[1];
#ifndef BLOCKS
  uint b_offset = matrix / p.inner * p.b_strides[0] + matrix % p.inner * p.b_strides[1];
#endif
  uint k_begin = split * p.k_per_split, k_end = min(p.k, k_begin + p.k_per_split);
#if defined(EXPERTS) && !defined(BLOCKS)
  int expert = ETNA_UNIFORM(BufferI32(p.experts).v[row0 / TILE_M]);
  if (expert < 0) return;
  b_offset = uint(expert) * p.b_strides[0];
#endif
#ifdef EXPERT_ROWS
  uint own_end = uint(ETNA_UNIFORM(BufferI32(p.experts).v[2 * matrix + 1]));
  k_begin = min(own_end, k_begin + uint(ETNA_UNIFORM(BufferI32(p.experts).v[2 * matrix])));
  k_end = min(own_end, k_begin + p.k_per_split);
#endif

  SUMS sums[DOWN * ACROSS];
  [[unroll]] for (uint i = 0; i < DOWN * ACROSS; ++i) sums[i] = SUMS(0.0);
#ifdef BLOCKS
  float tail = tail_scale(FORMAT, address_of(p.b, p.n, p.ldb));
  uvec4 a_next[A_LOADS];
  uvec2 b_next[B_CHUNKS][4];
#else
  uvec4 a_next[A_LOADS], b_next[B_LOADS];
#endif
  FETCH(k_begin)
  PUT
  barrier();
  for (uint k0 = k_begin + STEP;; k0 += STEP) {
    bool more = k0 < k_end;
    if (more) {
      FETCH(k0)
    }
    [[unroll]] for (uint k = 0; k < STEP; k += FK) {
      A_MATRIX a[DOWN];
      B_MATRIX b[ACROSS];
      [[unroll]] for (uint i = 0; i < DOWN; ++i) {
        uint row = sub_row + i * FM;
        if (A_K_NEIGHBOURS != 0)
          coopMatLoad(a[i], pool, row * A_PITCH + k / 8, A_PITCH, gl_CooperativeMatrixLayoutRowMajor);
        else coopMatLoad(a[i], pool, k * A_PITCH + row / 8, A_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
      }
      [[unroll]] for (uint j = 0; j < ACROSS; ++j) {
        uint column = sub_column + j * FN;
        if (B_K_NEIGHBOURS != 0) {
          coopMatLoad(b[j], pool, B_AT + column * B_PITCH + k / 8, B_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        } else {
          coopMatLoad(b[j], pool, B_AT + k * B_PITCH + column / 8, B_PITCH, gl_CooperativeMatrixLayoutRowMajor);
        }
      }
      [[unroll]] for (uint i = 0; i < DOWN; ++i) {
        [[unroll]] for (uint j = 0; j < ACROSS; ++j) {
          sums[i * ACROSS + j] = coopMatMulAdd(a[i], b[j], sums[i * ACROSS + j]);
        }
      }
    }
    if (!more) break;
    barrier();
    PUT
    barrier();
  }

  // Each subgroup moves FM of its rows to shared memory at a time, then writes along them.
  const uint THREADS_PER_ROW = THREADS / 4;
  uint first_row = (split * p.batch + matrix) * p.m, mine = gl_SubgroupID * FM * OUT_PITCH;
  [[unroll]] for (uint i = 0; i < DOWN; ++i) {
    barrier();
    [[unroll]] for (uint j = 0; j < ACROSS; ++j) {
      coopMatStore(sums[i * ACROSS + j], pool, mine + j * FN / 4, OUT_PITCH, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    [[unroll]] for (uint t = 0; t < FM * SUB_N / Y_WIDTH / THREADS_PER_ROW; ++t) {
      uint at = (t * THREADS_PER_ROW + gl_SubgroupInvocationID) * Y_WIDTH, r = at / SUB_N, c = at % SUB_N;
      uint row = row0 + sub_row + i * FM + r, column = column0 + sub_column + c;
      vec4 sum = uintBitsToFloat(pool[mine + r * OUT_PITCH + c / 4]);
      if (Y_WIDTH == 2 && (at & 2u) != 0) sum.xy = sum.zw;
      if (Y_WIDTH == 1) sum.x = sum[at & 3u];
      bool inside = (M_FULL != 0 || row < p.m) && (N_FULL != 0 || column < p.n);
      if (inside) apply_epilogue(sum, first_row + row, column, p.n);
    }
  }
}
