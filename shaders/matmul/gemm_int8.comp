#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Matrix multiplication of i8 with i32 sums, exact, over a batch; stored as is, or scaled by row and by column.
// Arithmetic-bound when large.
//
// A workgroup of 256 threads owns TILE x TILE results, each thread R x R of them in groups of four rows and four
// columns. Shared memory holds 64 steps of k of both operands as u32s of four steps; a uvec4 is four rows (columns), so
// two uvec4s serve sixteen dot products of four elements. An operand whose rows (columns) are contiguous in memory is
// transposed in registers, four by four bytes at a time. The next 64 steps are loaded to registers meanwhile. PACKED
// kernels use the device's instruction for such dot products (SPIR-V's OpSDot); the others unpack the u32s.
//
// variant: gemm_int8_128 TILE=128 R=8
// variant: gemm_int8_64 TILE=64 R=4
// variant: gemm_int8_packed_128 TILE=128 R=8 PACKED
// variant: gemm_int8_packed_64 TILE=64 R=4 PACKED

#ifdef PACKED
#extension GL_EXT_spirv_intrinsics : require
// OpSDot of two u32s of four i8; `format` is SPIR-V's PackedVectorFormat4x8Bit, 0.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packed_dot(int a, int b, spirv_literal int format);
#endif

#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint A_K_NEIGHBOURS = 1;  // 1: consecutive k of a row of a are contiguous
layout(constant_id = 1) const uint B_K_NEIGHBOURS = 0;
layout(constant_id = 2) const uint A_WIDTH = 1;  // 4: whole u32s may be loaded
layout(constant_id = 3) const uint B_WIDTH = 1;

#include "epilogue_int8.glsl"

const uint STEP = 64, K_U32S = STEP / 4, PITCH = TILE / 4 + 1;  // uvec4s from one u32 of k to the next
// blocks that a thread fetches of each operand; its groups of four rows
const uint LOADS = TILE / 4 * K_U32S / 256, GROUPS = R / 4;
const uint B_AT = K_U32S * PITCH;

shared uvec4 pool[2 * K_U32S * PITCH];

// Bytes i ... i + 3; those past the first `count` are 0.
uint load_u32(uvec2 address, uint i, uint count, uint width) {
  if (width == 4) {
    if (count == 0) return 0;
    uint word = BufferPair(address).v[i / 4];
    return count < 4 ? bitfieldExtract(word, 0, int(8 * count)) : word;
  }
  uint word = 0;
  [[unroll]] for (uint c = 0; c < 4; ++c) {
    if (c < count) word |= uint(BufferU8(address).v[i + c]) << (8 * c);
  }
  return word;
}

// Transposes 4 x 4 bytes: byte c of u32 r becomes byte r of u32 c.
uvec4 transposed(uvec4 w) {
  const uint EVEN = 0x00ff00ffu, LOW = 0xffffu;
  uvec2 even = (w.xz & EVEN) | (w.yw & EVEN) << 8, odd = (w.xz >> 8 & EVEN) | (w.yw & ~EVEN);
  return uvec4((even.x & LOW) | even.y << 16, (odd.x & LOW) | odd.y << 16, even.x >> 16 | (even.y & ~LOW),
               odd.x >> 16 | (odd.y & ~LOW));
}

// Steps k ... k + 3 of four rows (columns) from `line` on, one u32 each. Past the end the last row is read again, or 0;
// its results are not stored.
uvec4 fetch(uvec2 address, uint offset, uint ld, uint k_neighbours, uint width, uint line, uint lines, uint k) {
  uvec4 u32s = uvec4(0);
  if (k_neighbours != 0) {
    uint count = k < p.k ? min(4, p.k - k) : 0;
    [[unroll]] for (uint l = 0; l < 4; ++l)
      u32s[l] = load_u32(address, offset + min(line + l, lines - 1) * ld + k, count, width);
    return u32s;
  }
  uint count = line < lines ? min(4, lines - line) : 0;
  [[unroll]] for (uint c = 0; c < 4; ++c) {
    if (k + c < p.k) u32s[c] = load_u32(address, offset + (k + c) * ld + line, count, width);
  }
  return transposed(u32s);
}

// Position of block i of this thread: x in groups of four rows (columns), y in groups of four k. Neighbouring threads
// take neighbours in memory.
uvec2 spot(uint i, uint k_neighbours) {
  uint v = i * 256 + gl_LocalInvocationID.x;
  return k_neighbours != 0 ? uvec2(v / K_U32S, v % K_U32S) : uvec2(v % (TILE / 4), v / (TILE / 4));
}

#define FETCH(k0)                                                                                               \
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {                                                                 \
    uvec2 at = spot(i, A_K_NEIGHBOURS) * 4, bt = spot(i, B_K_NEIGHBOURS) * 4;                                   \
    a_next[i] = fetch(p.a, a_offset, p.lda, A_K_NEIGHBOURS, A_WIDTH, row0 + at.x, p.m, (k0) + at.y);            \
    b_next[i] = fetch(p.b, b_offset, p.ldb, B_K_NEIGHBOURS, B_WIDTH, column0 + bt.x, p.n, (k0) + bt.y);         \
  }

#define PUT                                                                   \
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {                               \
    uvec2 at = spot(i, A_K_NEIGHBOURS), bt = spot(i, B_K_NEIGHBOURS);         \
    pool[at.y * PITCH + at.x] = a_next[i];                                    \
    pool[B_AT + bt.y * PITCH + bt.x] = b_next[i];                             \
  }

int four_products(uint a, uint b) {
#ifdef PACKED
  return packed_dot(int(a), int(b), 0);
#else
  int sum = 0;
  [[unroll]] for (int c = 0; c < 4; ++c) sum += bitfieldExtract(int(a), 8 * c, 8) * bitfieldExtract(int(b), 8 * c, 8);
  return sum;
#endif
}

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, me = gl_LocalInvocationID.x;
  uint tiles_m = (p.m + TILE - 1) / TILE, tiles_n = (p.n + TILE - 1) / TILE, tiles = tiles_m * tiles_n;
  if (group >= tiles * p.batch) return;
  uint tile = group % tiles, matrix = group / tiles;

  // Tiles are ordered in bands of eight rows, so that tiles in flight share operands in the cache.
  uint band = tile / (8 * tiles_n), first = band * 8, height = min(8, tiles_m - first), inside = tile - first * tiles_n;
  uint row0 = (first + inside % height) * TILE, column0 = inside / height * TILE;
  uint a_offset = matrix / p.inner * p.a_strides[0] + matrix % p.inner * p.a_strides[1];
  uint b_offset = matrix / p.inner * p.b_strides[0] + matrix % p.inner * p.b_strides[1];

  ivec4 sums[R][GROUPS];
  [[unroll]] for (uint i = 0; i < R; ++i) {
    [[unroll]] for (uint j = 0; j < GROUPS; ++j) sums[i][j] = ivec4(0);
  }
  uint down = me / 16, across = me % 16;
  uvec4 a_next[LOADS], b_next[LOADS];
  FETCH(0)
  for (uint k0 = 0;; k0 += STEP) {
    PUT
    barrier();
    bool more = k0 + STEP < p.k;
    if (more) {
      FETCH(k0 + STEP)
    }
    for (uint w = 0; w < K_U32S; ++w) {
      uvec4 a[GROUPS], b[GROUPS];
      [[unroll]] for (uint i = 0; i < GROUPS; ++i) {
        a[i] = pool[w * PITCH + i * 16 + down];
        b[i] = pool[B_AT + w * PITCH + i * 16 + across];
      }
      [[unroll]] for (uint i = 0; i < R; ++i) {
        [[unroll]] for (uint j = 0; j < GROUPS; ++j) {
          [[unroll]] for (uint c = 0; c < 4; ++c) sums[i][j][c] += four_products(a[i / 4][i % 4], b[j][c]);
        }
      }
    }
    if (!more) break;
    barrier();
  }

  [[unroll]] for (uint i = 0; i < R; ++i) {
    uint row = row0 + (i / 4 * 16 + down) * 4 + i % 4;
    [[unroll]] for (uint j = 0; j < GROUPS; ++j) {
      uint column = column0 + (j * 16 + across) * 4;
      if (row < p.m && column < p.n) apply_epilogue(sums[i][j], matrix * p.m + row, column);
    }
  }
}
