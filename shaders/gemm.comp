#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Matrix product y = a · b (+ bias), f32 sums, over a batch. Arithmetic-bound when large: a workgroup of 256 owns a tile of
// TILE x TILE results, each thread 8 x 8 (or 4 x 4) of them in registers, so that a value read from shared memory serves
// eight (four) multiplications. The next 16 steps of k are fetched into registers while the present ones are multiplied.
//
// Both operands lie in shared memory with k outermost, as vec4s of rows (columns); the pad of one vec4 keeps the transposing
// stores free of bank conflicts. Either operand may be stored with k or with its rows (columns) as neighbours.
//
// Where results are few and k is long, `splits` workgroups share a tile, each writes its sum to scratch (y is then f32) and
// gemm_reduce adds them in order.
//
// variant: gemm_128 TILE=128
// variant: gemm_64 TILE=64

#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint OUT_DTYPE = 1;
layout(constant_id = 2) const uint A_K_NEIGHBOURS = 1;  // 1: consecutive k of a row of a lie side by side
layout(constant_id = 3) const uint B_K_NEIGHBOURS = 0;
layout(constant_id = 4) const uint A_WIDTH = 1;
layout(constant_id = 5) const uint B_WIDTH = 1;
layout(constant_id = 6) const uint Y_WIDTH = 1;
layout(constant_id = 7) const uint BIAS = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 a, b, y, bias;
  uint m, n, k;
  uint lda, ldb;
  uint a_strides[2], b_strides[2];  // of the outer and inner batch dimension
  uint inner, batch;                // sizes: of the inner batch dimension, of both together
  uint tiles_m, tiles_n;
  uint splits, k_per_split;         // a multiple of STEP
} p;

const uint STEP = 16;
const uint PARTS = TILE / 64;         // groups of four rows and of four columns a thread owns
const uint VECTORS = TILE / 4;
const uint LOADS = TILE * STEP / 1024;  // vec4s a thread fetches of each operand

shared vec4 a_tile[STEP][VECTORS + 1];
shared vec4 b_tile[STEP][VECTORS + 1];

// Where load `i` of this thread lies in a tile: x is the first row (column) and y the first step of k of its four elements.
// With k as neighbours, threads go over 32 bytes of k, then rows; otherwise along the rows.
uvec2 spot(uint i, uint k_neighbours) {
  uint v = i * 256 + gl_LocalInvocationID.x;
  if (k_neighbours != 0) return uvec2((v >> 1) % TILE, ((v >> 1) / TILE * 2 + (v & 1u)) * 4);
  return uvec2(v % VECTORS * 4, v / VECTORS);
}

uint left(uint at, uint end) { return at < end ? end - at : 0; }

vec4 fetch(uvec2 address, uint offset, uint ld, uint k_neighbours, uint width, uint x, uint x_end, uint k, uint k_end) {
  if (k_neighbours != 0) return load_vector(address, offset + x * ld + k, x < x_end ? left(k, k_end) : 0, DTYPE, width);
  return load_vector(address, offset + k * ld + x, k < k_end ? left(x, x_end) : 0, DTYPE, width);
}

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint tiles = p.tiles_m * p.tiles_n;
  if (group >= tiles * p.batch * p.splits) return;
  uint tile = group % tiles, matrix = group / tiles % p.batch, split = group / tiles / p.batch;

  // Eight rows of tiles at a time, so that the tiles at work together share what they read.
  uint band = tile / (8 * p.tiles_n), first = band * 8, height = min(8, p.tiles_m - first), inside = tile - first * p.tiles_n;
  uint row0 = (first + inside % height) * TILE, column0 = inside / height * TILE;

  uint a_offset = matrix / p.inner * p.a_strides[0] + matrix % p.inner * p.a_strides[1];
  uint b_offset = matrix / p.inner * p.b_strides[0] + matrix % p.inner * p.b_strides[1];
  uint k_begin = split * p.k_per_split, k_end = min(p.k, k_begin + p.k_per_split);

  // 32 threads cover 16 x 32 results (times PARTS each way), eight such parts a tile.
  uint lane = gl_LocalInvocationID.x & 31u, part = gl_LocalInvocationID.x >> 5;
  uint row_vector = (part >> 1) * 4 * PARTS + (lane >> 3), column_vector = (part & 1u) * 8 * PARTS + (lane & 7u);

  vec4 sums[PARTS * 4][PARTS];
  [[unroll]] for (uint i = 0; i < PARTS * 4; ++i) {
    [[unroll]] for (uint j = 0; j < PARTS; ++j) sums[i][j] = vec4(0.0);
  }
  vec4 a_next[LOADS], b_next[LOADS];
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {
    uvec2 at = spot(i, A_K_NEIGHBOURS), bt = spot(i, B_K_NEIGHBOURS);
    a_next[i] = fetch(p.a, a_offset, p.lda, A_K_NEIGHBOURS, A_WIDTH, row0 + at.x, p.m, k_begin + at.y, k_end);
    b_next[i] = fetch(p.b, b_offset, p.ldb, B_K_NEIGHBOURS, B_WIDTH, column0 + bt.x, p.n, k_begin + bt.y, k_end);
  }

  for (uint k0 = k_begin; k0 < k_end; k0 += STEP) {
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
      uvec2 at = spot(i, A_K_NEIGHBOURS), bt = spot(i, B_K_NEIGHBOURS);
      if (A_K_NEIGHBOURS != 0) {
        [[unroll]] for (uint c = 0; c < 4; ++c) a_tile[at.y + c][at.x / 4][at.x % 4] = a_next[i][c];
      } else {
        a_tile[at.y][at.x / 4] = a_next[i];
      }
      if (B_K_NEIGHBOURS != 0) {
        [[unroll]] for (uint c = 0; c < 4; ++c) b_tile[bt.y + c][bt.x / 4][bt.x % 4] = b_next[i][c];
      } else {
        b_tile[bt.y][bt.x / 4] = b_next[i];
      }
    }
    barrier();
    if (k0 + STEP < k_end) {
      [[unroll]] for (uint i = 0; i < LOADS; ++i) {
        uvec2 at = spot(i, A_K_NEIGHBOURS), bt = spot(i, B_K_NEIGHBOURS);
        a_next[i] = fetch(p.a, a_offset, p.lda, A_K_NEIGHBOURS, A_WIDTH, row0 + at.x, p.m, k0 + STEP + at.y, k_end);
        b_next[i] = fetch(p.b, b_offset, p.ldb, B_K_NEIGHBOURS, B_WIDTH, column0 + bt.x, p.n, k0 + STEP + bt.y, k_end);
      }
    }
    // Unrolled by four only: enough to hide the loop, and short to compile.
    [[dont_unroll]] for (uint k4 = 0; k4 < STEP; k4 += 4) {
      [[unroll]] for (uint k = k4; k < k4 + 4; ++k) {
        vec4 a[PARTS], b[PARTS];
        [[unroll]] for (uint i = 0; i < PARTS; ++i) {
          a[i] = a_tile[k][row_vector + i * 4];
          b[i] = b_tile[k][column_vector + i * 8];
        }
        [[unroll]] for (uint i = 0; i < PARTS; ++i) {
          [[unroll]] for (uint r = 0; r < 4; ++r) {
            [[unroll]] for (uint j = 0; j < PARTS; ++j) sums[i * 4 + r][j] += a[i][r] * b[j];
          }
        }
      }
    }
    barrier();
  }

  uint y_offset = (split * p.batch + matrix) * p.m * p.n;
  [[unroll]] for (uint j = 0; j < PARTS; ++j) {
    uint column = column0 + (column_vector + j * 8) * 4, count = left(column, p.n);
    vec4 bias = vec4(0.0);
    if (BIAS != 0) bias = load_vector(p.bias, column, count, DTYPE, 1);
    [[unroll]] for (uint i = 0; i < PARTS; ++i) {
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        uint row = row0 + (row_vector + i * 4) * 4 + r;
        if (row < p.m) store_vector(p.y, y_offset + row * p.n + column, count, OUT_DTYPE, Y_WIDTH, sums[i * 4 + r][j] + bias);
      }
    }
  }
}
