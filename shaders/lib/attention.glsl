// Shared by the plain attention kernels: gemms of 64 x 64 by a workgroup of 128. Thread (ty, tx) owns rows 4 ty ... 4
// ty + 3, and columns 4 tx ... 4 tx + 3 and those 32 further on, so three vec4s from shared memory serve 32
// multiplications. Operands, weights included, are in shared memory with the summed dimension outermost. They pass
// through in chunks, each loaded into registers while the previous one is used. 22 KiB of shared memory. Heads wider
// than 64 HEAD_TILES columns take several passes.
//
// Tried on an H200, f32, causal, in µs: 16384 rows of 2048 columns in heads of 64, sequences of 1024 (then 8192 rows of
// 512, sequences of 256); forward, dq, dk and dv:
//   as here                                                            2754 (141)   3715 (175)   4844 (225)
//   steps of a sum unrolled by four only                               2997 (151)   3869 (183)   5253 (243)
//   128 rows, a thread 8 x 8                                           3623 (194)   5068 (264)   7199 (372)
//   256 threads, 4 x 4 each, softmax through shared memory             4267 (193)   6126 (273)   7642 (335)
// Crossing columns as in gemm.comp changes nothing.
#ifndef ETNA_ATTENTION_GLSL
#define ETNA_ATTENTION_GLSL

#extension GL_EXT_control_flow_attributes : require
#include "math.glsl"
#ifdef PAGED
layout(constant_id = 7) const uint SHARED = 1;
#include "paged_span.glsl"
#else
#include "vectors.glsl"
#endif

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint WIDTH = 1;  // elements per load of a row of q, k, v
layout(constant_id = 2) const uint MASK_DTYPE = 99;
layout(constant_id = 3) const uint UNROLLED = 16;  // steps of a sum: 4 ... 16
#ifdef PAGED
layout(constant_id = 4) const uint CACHE_DTYPE = 1;  // with Q8 it is Q8_0: see attention_matrix_paged.glsl
layout(constant_id = 5) const uint CACHE_WIDTH = 1;
layout(constant_id = 6) const uint WHOLE = 1;  // one chunk holds all positions: the result is written, not a part
#else
layout(constant_id = 4) const uint WINDOW = 0;   // as attention_limits.glsl tells
layout(constant_id = 5) const uint SOFTCAP = 0;
#endif
const uint NO_MASK = 99;

const uint THREADS = 128, TILE = 64;
const uint PITCH = TILE / 4 + 1;  // vec4s
const uint DEPTH = 16;         // chunk of the head size, in scores
const uint KEYS = 16 / HEAD_TILES;  // chunk of the right operand's rows, in weighted sums
const uint LOADS = 2;          // vec4s of an operand's chunk per thread

// A tile of weights or of their gradients: column c, rows 4 r ... at c * PITCH + r. While scores are computed, it holds
// their operands.
shared vec4 weights[TILE * PITCH];
shared vec4 chunk[KEYS * HEAD_TILES * 16];
const uint RIGHT = DEPTH * PITCH;  // offset of the right operand

// Unpacks the push constants' `shape`. (WebGPU must be able to prove that control flow depends on arguments only.)
#ifdef ETNA_WEBGPU
#define heads_per_group (p.shape & 0xffffu)
#define head_size (p.shape >> 16 & 0x3fffu)
#define packed ((p.shape >> 30 & 1u) != 0)
#define causal (p.shape >> 31 != 0)
void unpack(uint shape) {}
#else
uint head_size, heads_per_group;
bool causal, packed;
void unpack(uint shape) {
  heads_per_group = shape & 0xffffu;
  head_size = (shape >> 16) & 0x3fffu;
  packed = (shape >> 30 & 1u) != 0;
  causal = shape >> 31 != 0;
}
#endif

float minus_infinity() { return -uintBitsToFloat(0x7f800000u); }
uint ty() { return gl_LocalInvocationID.x >> 3; }
uint tx() { return gl_LocalInvocationID.x & 7u; }
// A thread's r-th row, and its h-th group of four columns of each 64.
uint row_of(uint r) { return ty() * 4 + r; }
uint column_of(uint h) { return h * 32 + tx() * 4; }

// Rows of a matrix: `count` rows, `stride` elements apart, the first at `base`.
struct Rows {
  uvec2 address;
  uint base, stride, count;
};

// One head of a contiguous tensor [B, H, T, D], or of a slice of a packed one: [B, T, H, D] with `width` heads in
// total.
Rows head_rows(uvec2 address, uint b, uint head, uint heads, uint count, bool in_packed, uint width) {
  return in_packed ? Rows(address, (b * count * width + head) * head_size, width * head_size, count)
                   : Rows(address, (b * heads + head) * count * head_size, head_size, count);
}

// The element that a row begins at. In a paged cache's prompts, the heads that share keys are neighbouring rows.
uint row_start(Rows m, uint row) {
#ifdef PAGED
  return m.base + row / SHARED * m.stride + row % SHARED * head_size;
#else
  return m.base + row * m.stride;
#endif
}

vec4 load_row(Rows m, uint row, uint at) {
  return load_vector(m.address, row_start(m, row) + at, row < m.count && at < head_size ? head_size - at : 0, DTYPE,
                     WIDTH);
}

#ifdef PAGED
// Rows of one block of a paged cache; `first` is the position of the block's first row.
struct CachedRows {
  uvec2 block;
  uint first, end;
};
#define KEY_ROWS CachedRows
vec4 load_row(CachedRows m, uint row, uint at) {
  if (row >= m.end || at >= head_size) return vec4(0.0);
#ifdef Q8
  return load_cached(m.block, row - m.first, head_size, at, U8, 1);
#else
  return load_vector(m.block, (row - m.first) * head_size + at, head_size - at, CACHE_DTYPE, CACHE_WIDTH);
#endif
}
#else
#define KEY_ROWS Rows
#endif

// Position of a thread's i-th vector in a chunk of DEPTH columns: neighbouring threads load 32 bytes of a row and store
// to 32 banks.
uvec2 place(uint i) {
  uint v = i * THREADS + gl_LocalInvocationID.x, pair = v >> 1;
  return uvec2(pair % TILE, (pair / TILE * 2 + (v & 1u)) * 4);  // row, column
}

void load_columns(out vec4 values[LOADS], Rows m, uint row0, uint at) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) values[i] = load_row(m, row0 + place(i).x, at + place(i).y);
}
#ifdef PAGED
void load_columns(out vec4 values[LOADS], CachedRows m, uint row0, uint at) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) values[i] = load_row(m, row0 + place(i).x, at + place(i).y);
}
#endif
void keep_columns(vec4 values[LOADS], uint base) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {
    uvec2 at = place(i);
    [[unroll]] for (uint c = 0; c < 4; ++c) weights[base + (at.y + c) * PITCH + at.x / 4][at.x % 4] = values[i][c];
  }
}

// tile[r][h] += x[x0 + row_of(r)] · y[y0 + column_of(h) ...], over the head size. Uses `weights` as scratch; it is free
// on return.
void add_scores(inout vec4 tile[4][2], Rows x, uint x0, KEY_ROWS y, uint y0) {
  vec4 from_x[LOADS], from_y[LOADS];
  load_columns(from_x, x, x0, 0);
  load_columns(from_y, y, y0, 0);
  [[dont_unroll]] for (uint d = 0; d < head_size; d += DEPTH) {
    barrier();
    keep_columns(from_x, 0);
    keep_columns(from_y, RIGHT);
    barrier();
    if (d + DEPTH < head_size) {
      load_columns(from_x, x, x0, d + DEPTH);
      load_columns(from_y, y, y0, d + DEPTH);
    }
    [[dont_unroll]] for (uint first = 0; first < DEPTH; first += UNROLLED) {
      [[unroll]] for (uint k = first; k < first + UNROLLED; ++k) {
        vec4 a = weights[k * PITCH + ty()];
        [[unroll]] for (uint h = 0; h < 2; ++h) {
          vec4 b = weights[RIGHT + k * PITCH + h * 8 + tx()];
          [[unroll]] for (uint r = 0; r < 4; ++r) tile[r][h] = fma(vec4(a[r]), b, tile[r][h]);
        }
      }
    }
  }
  barrier();
}

// Stores a tile into `weights`. The caller must ensure that no thread still reads the previous tile; add_weighted() has
// the barrier that follows.
void keep_tile(vec4 tile[4][2]) {
  [[unroll]] for (uint h = 0; h < 2; ++h) {
    [[unroll]] for (uint c = 0; c < 4; ++c)
      weights[(column_of(h) + c) * PITCH + ty()] = vec4(tile[0][h][c], tile[1][h][c], tile[2][h][c], tile[3][h][c]);
  }
}

// A thread's share of KEYS rows of z starting at `first`, columns starting at `at`.
void load_keys(out vec4 next[LOADS], KEY_ROWS z, uint first, uint at) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {
    uint v = i * THREADS + gl_LocalInvocationID.x;
    next[i] = load_row(z, first + v / (16 * HEAD_TILES), at + v % (16 * HEAD_TILES) * 4);
  }
}

// sums[n][r][h] += Σ_j weights[j][row_of(r)] · z[z0 + j], columns at + 64 n + column_of(h) ... of z. `next` holds
// load_keys(z, z0, at), which the caller has issued early.
void add_weighted(inout vec4 sums[HEAD_TILES][4][2], vec4 next[LOADS], KEY_ROWS z, uint z0, uint at) {
  [[dont_unroll]] for (uint first = 0; first < TILE; first += KEYS) {
    barrier();
    [[unroll]] for (uint i = 0; i < LOADS; ++i) chunk[i * THREADS + gl_LocalInvocationID.x] = next[i];
    barrier();
    if (first + KEYS < TILE) load_keys(next, z, z0 + first + KEYS, at);
    [[dont_unroll]] for (uint j0 = 0; j0 < KEYS; j0 += UNROLLED / HEAD_TILES) {
      [[unroll]] for (uint j = j0; j < j0 + UNROLLED / HEAD_TILES; ++j) {
        vec4 w = weights[(first + j) * PITCH + ty()];
        [[unroll]] for (uint n = 0; n < HEAD_TILES; ++n) {
          [[unroll]] for (uint h = 0; h < 2; ++h) {
            vec4 value = chunk[j * 16 * HEAD_TILES + n * 16 + h * 8 + tx()];
            [[unroll]] for (uint r = 0; r < 4; ++r) sums[n][r][h] = fma(vec4(w[r]), value, sums[n][r][h]);
          }
        }
      }
    }
  }
}

void clear(out vec4 tile[4][2]) {
  [[unroll]] for (uint r = 0; r < 4; ++r) tile[r][0] = tile[r][1] = vec4(0.0);
}
void clear(out vec4 sums[HEAD_TILES][4][2]) {
  [[unroll]] for (uint n = 0; n < HEAD_TILES; ++n) clear(sums[n]);
}

// Writes rows from row0 and columns from `at` on, 64 columns at a time through `weights`, so that neighbouring threads
// write neighbouring elements and the rounding code is compiled once.
void store_rows(Rows m, uint row0, uint at, vec4 sums[HEAD_TILES][4][2]) {
  [[unroll]] for (uint n = 0; n < HEAD_TILES; ++n) {
    barrier();
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      [[unroll]] for (uint h = 0; h < 2; ++h) weights[row_of(r) * PITCH + column_of(h) / 4] = sums[n][r][h];
    }
    barrier();
    [[dont_unroll]] for (uint v = gl_LocalInvocationID.x; v < TILE * 16; v += THREADS) {
      uint row = row0 + v / 16, column = at + n * 64 + v % 16 * 4;
      if (row < m.count && column < head_size) {
        vec4 value = weights[v / 16 * PITCH + v % 16];
        uint to = row_start(m, row) + column;
#ifdef PAGED
        if (WHOLE == 0) {
          to = partial_at(row, head_size) + column;
          store_vector(p.partial, to, head_size - column, F32, head_size % 4 == 0 ? 2 : 1, value);
          continue;
        }
#endif
        if (head_size % 4 == 0) store_vector(m.address, to, 4, DTYPE, 4, value);
        else store_vector(m.address, to, head_size - column, DTYPE, 1, value);
      }
    }
  }
}

#ifndef PAGED
ETNA_BUFFER(BufferU32, uint);
// Whether the kernel before has computed all, because all numbers split into bf16 parts.
bool all_split(uvec2 unsplit) { return (BufferU32(unsplit).v[0] | BufferU32(unsplit).v[1]) == 0; }
#endif

#ifdef PAGED
float masked(float product, int position, uint key) {
  if (!attends_from(position, key)) return minus_infinity();
  float score = product * p.scale;
  return p.softcap > 0.0 ? p.softcap * m_tanh(score / p.softcap) : score;
}
#endif

#ifndef PAGED
#include "attention_limits.glsl"

// The score as input of the softmax: scaled, -inf if the query does not attend to the key. Windows and documents are
// the caller's.
float masked(float product, float scale, uvec2 mask, uint mask_base, uvec2 mask_strides, uint query, uint key,
             uint queries, uint keys) {
  if (query >= queries || key >= keys || (causal && key > query)) return minus_infinity();
  float score = capped(product * scale);
  if (!HAS_MASK) return score;
  float m = load_float(mask, mask_base + query * mask_strides.x + key * mask_strides.y, MASK_DTYPE);
  return MASK_DTYPE == BOOL ? (m != 0.0 ? score : minus_infinity()) : score + m;
}
#endif

#endif
