#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Matrix multiplication y = a · b with an epilogue (lib/epilogue.glsl), f32 sums, over a batch. Arithmetic-bound when
// large, latency-bound when small.
//
// A workgroup owns a tile of TILE x TILE results; each thread has RM x RN of them in registers. The large tile uses 16
// x 8, so six vec4s read from shared memory serve 128 multiplications. Small tiles leave fewer results per thread.
// There, SLICES teams of threads share the tile: each takes some of every STEP steps of k, and their sums are added in
// order at the end. The next STEP steps of k are loaded to registers while the current ones are multiplied. With two
// BUFFERS of shared memory one barrier per step is enough.
//
// Both operands are stored in shared memory with k outermost, as vec4s of rows (columns). A padding of one vec4 keeps
// the transposing stores free of bank conflicts. Either operand may have k or its rows (columns) contiguous in memory.
// Results also go through shared memory, so that rows are written in long runs whatever their alignment.
//
// `crossed` works around NVIDIA's register banks: a vec4 starts at an even register, so a sum and the column that is
// added to it would be read from the same bank. Crossing each pair of columns puts them in different banks. Worth 2 to
// 6 %.
//
// Tried on an H200, f32, TFLOP/s at 4096³ and 1024x128x33278. The baseline, 8 x 8 results per thread in one buffer, k
// unrolled by four and stored straight from registers, gave 36.5 and 24.8:
//   16 x 8, as here               45.9  36.5      8 x 16                         43.6  34.9
//   the same, not crossed         43.2  35.5      tiles of 256 x 128             44.2  34.4
//   straight from registers       42.8  32.8      tiles of 128 x 256             45.8  35.6
//   one buffer of 16 steps        45.6  35.9      shared memory never read       51.5
//   8 x 8                         43.6  37.8      results never stored (8 x 8)   43.9  43.2
// Small tiles also gain from more results per thread and more teams: 1024x128x512 takes 8.3 µs in tiles of 64, and 10.5
// with one team; 1024x512x128 takes 9.3 µs in tiles of 32, and 10.0 with two teams of 4 x 4 results per thread
// (including the barrier before it, 2 µs).
//
// With EXPERTS, b is a matrix of each expert, b_strides[0] elements apart, and the rows of a tile have one expert
// (quantized/expert_rows.comp); tiles behind the last have none. With EXPERT_ROWS, the batch are experts, and each sums
// over its own steps of k alone, of which there may be none.
//
// Split-K, for few results and a long k: `splits` workgroups share a tile, each writes its sum to scratch (y is then
// f32 and the epilogue empty), and gemm_reduce adds them in order.
//
// variant: gemm_128 TILE=128 RM=16 RN=8 SLICES=1 STEP=8 BUFFERS=2
// variant: gemm_64 TILE=64 RM=8 RN=8 SLICES=2 STEP=16 BUFFERS=2
// variant: gemm_32 TILE=32 RM=8 RN=4 SLICES=4 STEP=32 BUFFERS=2
// variant: gemm_experts_64 TILE=64 RM=8 RN=8 SLICES=2 STEP=16 BUFFERS=2 EXPERTS
// variant: gemm_experts_32 TILE=32 RM=8 RN=4 SLICES=4 STEP=32 BUFFERS=2 EXPERTS
// variant: gemm_expert_rows_64 TILE=64 RM=8 RN=8 SLICES=2 STEP=16 BUFFERS=2 EXPERT_ROWS
// variant: gemm_expert_rows_32 TILE=32 RM=8 RN=4 SLICES=4 STEP=32 BUFFERS=2 EXPERT_ROWS

#include "epilogue.glsl"

const uint TEAM = (TILE / RM) * (TILE / RN), THREADS = TEAM * SLICES;
layout(local_size_x = (TILE / RM) * (TILE / RN) * SLICES) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint A_K_NEIGHBOURS = 1;  // 1: consecutive k of a row of a are contiguous
layout(constant_id = 2) const uint B_K_NEIGHBOURS = 0;
layout(constant_id = 3) const uint A_WIDTH = 1;
layout(constant_id = 4) const uint B_WIDTH = 1;
layout(constant_id = 5) const uint M_FULL = 0;  // 1: m is a multiple of TILE, and so on; no bounds checks
layout(constant_id = 6) const uint N_FULL = 0;
layout(constant_id = 7) const uint K_FULL = 0;
layout(constant_id = 8) const uint Y_WIDTH = 1;
layout(constant_id = 9) const uint EPILOGUE = 0;
layout(constant_id = 10) const uint Y_DTYPE = 1;
layout(constant_id = 11) const uint BIAS_DTYPE = 1;
layout(constant_id = 12) const uint AUX_DTYPE = 1;
layout(constant_id = 13) const uint RESIDUAL_DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 a, b;
  EPILOGUE_PUSH
  uint m, n, k;
  uint lda, ldb;
  uint a_strides[2], b_strides[2];  // of the outer and inner batch dimension
  uint inner, batch;                // sizes: of the inner batch dimension, of both combined
  uint k_per_split;                 // a multiple of STEP
#if defined(EXPERTS) || defined(EXPERT_ROWS)
  uvec2 experts;  // i32: of each tile of rows, -1: none; or of each expert, its first step of k and the one after all
#endif
} p;

#include "epilogue_row.glsl"

const uint A_PARTS = RM / 4, B_PARTS = RN / 4;      // groups of four rows and of four columns per thread
const uint PITCH = TILE / 4 + 1;                    // vec4s from one k to the next
const uint OPERAND = STEP * PITCH;                  // vec4s of one operand in shared memory
const uint LOADS = TILE * STEP / 4 / THREADS;       // vec4s a thread fetches of each operand
const uint SHARE = STEP / SLICES;                   // steps of k that a team takes of each STEP
// rows that a thread writes to shared memory per pass, so that all threads have work
const uint PASS = 4 * SLICES > 2 * RN ? 4 * SLICES / RN : 2;
const uint OUT_ROWS = TILE / RM * PASS;             // rows per team
const uint OUT = SLICES * OUT_ROWS * TILE / 4;      // vec4s of results in shared memory per pass
const uint POOL = BUFFERS * 2 * OPERAND > OUT ? BUFFERS * 2 * OPERAND : OUT;

shared vec4 pool[POOL];

vec4 crossed(vec4 v) { return v.yxwz; }

// Position of load `i` of this thread in a tile: x is the first row (column) and y the first step of k of its four
// elements. If k is contiguous, threads cover 32 bytes of k, then rows; otherwise they run along the rows.
uvec2 spot(uint i, uint k_neighbours) {
  uint v = i * THREADS + gl_LocalInvocationID.x;
  if (k_neighbours != 0) return uvec2((v >> 1) % TILE, ((v >> 1) / TILE * 2 + (v & 1u)) * 4);
  return uvec2(v % (TILE / 4) * 4, v / (TILE / 4));
}

// Four rows (columns) from x on. Past the end the last ones are read again, which is cheaper than a branch; their
// results are not stored.
vec4 across(uvec2 address, uint line, uint width, uint full, uint x, uint end) {
  if (full != 0) return load_vector(address, line + x, 4, DTYPE, width);
  if (width == 4) return load_vector(address, line + min(x, (end - 1) / 4 * 4), 4, DTYPE, 4);
  if (width == 2) {
    return vec4(load_pair(address, line + min(x, (end - 1) / 2 * 2), DTYPE),
                load_pair(address, line + min(x + 2, (end - 1) / 2 * 2), DTYPE));
  }
  vec4 r;
  [[unroll]] for (uint c = 0; c < 4; ++c) r[c] = load_float(address, line + min(x + c, end - 1), DTYPE);
  return r;
}

// Four elements of an operand. `tail`: k may end among them; elements past the end are 0.
vec4 fetch(bool tail, uvec2 address, uint offset, uint ld, uint k_neighbours, uint width, uint full, uint x, uint end,
           uint k, uint k_end) {
  if (k_neighbours != 0) {
    uint row = full != 0 ? x : min(x, end - 1), count = !tail ? 4 : k < k_end ? k_end - k : 0;
    vec4 r = load_vector(address, offset + row * ld + k, count, DTYPE, width);
    // Memory past the end of a row may hold NaN, and 0 · NaN is NaN, so it is replaced by 0.
    if (tail && width > 1) {
      [[unroll]] for (uint c = 1; c < 4; ++c) r[c] = c < count ? r[c] : 0.0;
    }
    return r;
  }
  if (tail && k >= k_end) return vec4(0.0);
  return across(address, offset + k * ld, width, full, x, end);
}

#define FETCH(tail, k0)                                                                                              \
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {                                                                      \
    uvec2 at = spot(i, A_K_NEIGHBOURS), bt = spot(i, B_K_NEIGHBOURS);                                                \
    a_next[i] = fetch(tail, p.a, a_offset, p.lda, A_K_NEIGHBOURS, A_WIDTH, M_FULL, row0 + at.x, p.m, (k0) + at.y,    \
                      k_end);                                                                                        \
    b_next[i] = fetch(tail, p.b, b_offset, p.ldb, B_K_NEIGHBOURS, B_WIDTH, N_FULL, column0 + bt.x, p.n, (k0) + bt.y, \
                      k_end);                                                                                        \
  }

// Stores the fetched elements into shared memory, starting at vec4 `to`.
#define PUT(next, to, k_neighbours)                                                                              \
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {                                                                  \
    uvec2 at = spot(i, k_neighbours);                                                                            \
    if (k_neighbours != 0) {                                                                                     \
      [[unroll]] for (uint c = 0; c < 4; ++c) pool[(to) + (at.y + c) * PITCH + at.x / 4][at.x % 4] = next[i][c]; \
    } else {                                                                                                     \
      pool[(to) + at.y * PITCH + at.x / 4] = next[i];                                                            \
    }                                                                                                            \
  }

#define GET(a, b, k)                                                                             \
  [[unroll]] for (uint i = 0; i < A_PARTS; ++i) a[i] = pool[a_at + (k) * PITCH + i * 4];         \
  [[unroll]] for (uint j = 0; j < B_PARTS; ++j) b[j] = crossed(pool[b_at + (k) * PITCH + j * 8]);

#define MULTIPLY(a, b)                                                                                       \
  [[unroll]] for (uint i = 0; i < RM; ++i) {                                                                 \
    [[unroll]] for (uint j = 0; j < B_PARTS; ++j) sums[i][j] = fma(vec4(a[i / 4][i % 4]), b[j], sums[i][j]); \
  }

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint tiles_m = (p.m + TILE - 1) / TILE, tiles_n = (p.n + TILE - 1) / TILE, tiles = tiles_m * tiles_n;
  if (group >= tiles * p.batch * ((p.k + p.k_per_split - 1) / p.k_per_split)) return;
  uint tile = group % tiles, matrix = group / tiles % p.batch, split = group / tiles / p.batch;

  // Tiles are ordered in bands of eight rows, so that tiles in flight share operands in the cache.
  uint band = tile / (8 * tiles_n), first = band * 8, height = min(8, tiles_m - first), inside = tile - first * tiles_n;
  uint row0 = (first + inside % height) * TILE, column0 = inside / height * TILE;

  uint a_offset = matrix / p.inner * p.a_strides[0] + matrix % p.inner * p.a_strides[1];
  uint b_offset = matrix / p.inner * p.b_strides[0] + matrix % p.inner * p.b_strides[1];
  uint k_begin = split * p.k_per_split, k_end = min(p.k, k_begin + p.k_per_split);
#ifdef EXPERTS
  int expert = ETNA_UNIFORM(BufferI32(p.experts).v[row0 / TILE]);
  if (expert < 0) return;
  b_offset = uint(expert) * p.b_strides[0];
#endif
#ifdef EXPERT_ROWS
  uint own_end = uint(ETNA_UNIFORM(BufferI32(p.experts).v[2 * matrix + 1]));
  k_begin = min(own_end, k_begin + uint(ETNA_UNIFORM(BufferI32(p.experts).v[2 * matrix])));
  k_end = min(own_end, k_begin + p.k_per_split);
#endif

  // 32 threads cover 16 x 32 results, times A_PARTS and B_PARTS: four rows of threads, eight columns.
  const uint ACROSS = TILE / (8 * RN);
  uint me = gl_LocalInvocationID.x, slice = me / TEAM, part = me % TEAM / 32;
  uint block = part / ACROSS, thread_row = me % 32 / 8, column_vector = part % ACROSS * 8 * B_PARTS + me % 8;
  uint row_vector = block * 4 * A_PARTS + thread_row;

  vec4 sums[RM][B_PARTS];
  [[unroll]] for (uint i = 0; i < RM; ++i) {
    [[unroll]] for (uint j = 0; j < B_PARTS; ++j) sums[i][j] = vec4(0.0);
  }
  vec4 a_next[LOADS], b_next[LOADS];
  uint base = 0;
  FETCH(K_FULL == 0, k_begin)
  PUT(a_next, 0, A_K_NEIGHBOURS)
  PUT(b_next, OPERAND, B_K_NEIGHBOURS)
  barrier();

  for (uint k0 = k_begin;; k0 += STEP) {
    bool more = k0 + STEP < k_end;
    if (more) {
      if (K_FULL != 0 || k0 + 2 * STEP <= k_end) {
        FETCH(false, k0 + STEP)
      } else {
        FETCH(true, k0 + STEP)
      }
    }
    // Reads the operands of k + 1 while k is multiplied.
    uint a_at = base + slice * SHARE * PITCH + row_vector,
         b_at = base + OPERAND + slice * SHARE * PITCH + column_vector;
    vec4 a_even[A_PARTS], b_even[B_PARTS], a_odd[A_PARTS], b_odd[B_PARTS];
    GET(a_even, b_even, 0)
    [[unroll]] for (uint k = 0; k < SHARE; k += 2) {
      GET(a_odd, b_odd, k + 1)
      MULTIPLY(a_even, b_even)
      if (k + 2 < SHARE) {
        GET(a_even, b_even, k + 2)
      }
      MULTIPLY(a_odd, b_odd)
    }
    if (!more) break;
    if (BUFFERS == 1) barrier();
    else base = 2 * OPERAND - base;
    PUT(a_next, base, A_K_NEIGHBOURS)
    PUT(b_next, base + OPERAND, B_K_NEIGHBOURS)
    barrier();
  }

  // Each pass moves PASS rows of every thread to shared memory; then all threads write along the rows of the tile.
  uint first_row = (split * p.batch + matrix) * p.m;
  [[unroll]] for (uint pass = 0; pass < RM / PASS; ++pass) {
    barrier();
    [[unroll]] for (uint r = 0; r < PASS; ++r) {
      uint row = ((slice * TILE / RM + block * 4 + thread_row) * PASS + r) * (TILE / 4);
      [[unroll]] for (uint j = 0; j < B_PARTS; ++j) pool[row + column_vector + j * 8] = sums[pass * PASS + r][j];
    }
    barrier();
    [[unroll]] for (uint i = 0; i < OUT_ROWS * TILE / Y_WIDTH / THREADS; ++i) {
      uint at = (i * THREADS + me) * Y_WIDTH, thread = at / TILE / PASS, r = pass * PASS + at / TILE % PASS;
      uint row = row0 + (thread / 4 * 4 * A_PARTS + thread % 4 + r / 4 * 4) * 4 + r % 4, column = column0 + at % TILE;
      vec4 sum = pool[at / 4];
      [[unroll]] for (uint s = 1; s < SLICES; ++s) sum += pool[s * OUT_ROWS * TILE / 4 + at / 4];
      sum = crossed(sum);
      if (Y_WIDTH == 2 && (at & 2u) != 0) sum.xy = sum.zw;
      if (Y_WIDTH == 1) sum.x = sum[at & 3u];
      bool inside = (M_FULL != 0 || row < p.m) && (N_FULL != 0 || column < p.n);
      if (inside) apply_epilogue(sum, first_row + row, column, p.n);
    }
  }
}
