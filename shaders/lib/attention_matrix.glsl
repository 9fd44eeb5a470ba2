// Shared by the attention kernels on matrix units. A workgroup owns SUBGROUPS * SPAN rows, a subgroup SPAN of them. It
// iterates over tiles of COLUMNS rows of two other matrices, which are in shared memory while the next two tiles are
// loaded to registers. Each 16 x 16 block that a subgroup reads serves ROWS multiplications; left operands stay in
// registers.
//
// f16 or bf16 (BFLOAT) operands, f32 sums. KHR_cooperative_matrix does not specify which thread holds which element, so
// any value that depends on rows and columns goes through shared memory. COOPMAT2 (NV_cooperative_matrix2) converts
// sums into operands in registers.
#ifndef ETNA_ATTENTION_MATRIX_GLSL
#define ETNA_ATTENTION_MATRIX_GLSL

#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require
#ifdef BFLOAT
#extension GL_EXT_bfloat16 : require
#endif
#ifdef COOPMAT2
#extension GL_NV_cooperative_matrix2 : require
#endif
#include "vectors.glsl"
#ifdef PAGED
layout(constant_id = 9) const uint SHARED = 1;
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 128;
layout(constant_id = 1) const uint SUBGROUPS = 4;
layout(constant_id = 2) const uint ROWS = 1;      // blocks of M rows per subgroup
layout(constant_id = 3) const uint BLOCKS = 4;    // blocks of 16 columns that cover the head
layout(constant_id = 4) const uint COLUMNS = 64;  // rows of a tile of the other matrices
layout(constant_id = 5) const uint M = 16;        // rows of a left operand: 16, or 8 on some devices
layout(constant_id = 6) const uint MASK_DTYPE = 99;
const uint NO_MASK = 99;

const uint SPAN = ROWS * M, TILE = SUBGROUPS * SPAN, STEPS = COLUMNS / 16, RESULTS = ROWS * BLOCKS;
// uvec4s per row, and from one row to the next: odd, so that rows fall in different banks
const uint VECTORS = BLOCKS * 2, PITCH = VECTORS + 1;
const uint OPERAND = COLUMNS * PITCH;
const uint LOADS = (COLUMNS * VECTORS + THREADS - 1) / THREADS;
const uint OUT_PITCH = 17, OUT = M * OUT_PITCH;        // results to be written: M rows of 64 f32
const float LOG2E = 1.4426950408889634;

#ifdef BFLOAT
#define ELEMENT bfloat16_t
const uint DTYPE = BF16;
#else
#define ELEMENT float16_t
const uint DTYPE = F16;
#endif
#define Left coopmat<ELEMENT, gl_ScopeSubgroup, M, 16, gl_MatrixUseA>
#define Right coopmat<ELEMENT, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, M, 16, gl_MatrixUseAccumulator>
#define ROW_MAJOR gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor

ETNA_BUFFER_ALIGNED(BufferVectors, uvec4, 16);

// Two tiles; before and after the loop, operands and results of the subgroups.
const uint POOL_TILES = 2 * OPERAND, POOL_FIRST = SUBGROUPS * M * PITCH, POOL_LAST = SUBGROUPS * OUT;
const uint POOL_EDGE = POOL_FIRST > POOL_LAST ? POOL_FIRST : POOL_LAST,
           POOL = POOL_TILES > POOL_EDGE ? POOL_TILES : POOL_EDGE;
shared uvec4 pool[POOL];

// Unpacks the push constants' `shape`.
uint head_size, heads_per_group;
bool causal, packed;
void unpack(uint shape) {
  heads_per_group = shape & 0xffffu;
  head_size = (shape >> 16) & 0x3fffu;
  packed = (shape >> 30 & 1u) != 0;
  causal = shape >> 31 != 0;
}

float minus_infinity() { return -uintBitsToFloat(0x7f800000u); }
float not_a_number() { return uintBitsToFloat(0x7fc00000u); }

// Rows of a matrix: `count` rows, `stride` elements apart, the first at `base`. All begin at a multiple of 16 bytes.
struct Rows {
  uvec2 address;
  uint base, stride, count;
};

Rows rows_of(uvec2 address, uint strides[3], uint b, uint head, uint count) {
  return Rows(address, b * strides[0] + head * strides[1], strides[2], count);
}

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

// Eight elements of a row; 0 past the end, so that they add nothing.
uvec4 load_vectors(Rows m, uint row, uint i) {
  return row < m.count && i * 8 < head_size ? BufferVectors(m.address).v[row_start(m, row) / 8 + i] : uvec4(0);
}

// A thread's share of the tile that starts at row0.
void load_tile(out uvec4 next[LOADS], Rows m, uint row0) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {
    uint at = i * THREADS + gl_LocalInvocationID.x;
    if (COLUMNS * VECTORS % THREADS == 0 || at < COLUMNS * VECTORS)
      next[i] = load_vectors(m, row0 + at / VECTORS, at % VECTORS);
  }
}

void keep_tile(uvec4 next[LOADS], uint base) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {
    uint at = i * THREADS + gl_LocalInvocationID.x;
    if (COLUMNS * VECTORS % THREADS == 0 || at < COLUMNS * VECTORS)
      pool[base + at / VECTORS * PITCH + at % VECTORS] = next[i];
  }
}

// Block `d` of 16 columns of rows 16 n ... of a stored tile: transposed (a row becomes a column of the result) or as it
// is.
Right across(uint base, uint n, uint d) {
  Right x;
  coopMatLoad(x, pool, base + n * 16 * PITCH + d * 2, PITCH, COLUMN_MAJOR);
  return x;
}
Right along(uint base, uint n, uint d) {
  Right x;
  coopMatLoad(x, pool, base + n * 16 * PITCH + d * 2, PITCH, ROW_MAJOR);
  return x;
}

// This subgroup's rows of the workgroup's tile that starts at row0.
void load_left(out Left x[RESULTS], Rows m, uint row0) {
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    barrier();
    for (uint at = gl_LocalInvocationID.x; at < SUBGROUPS * M * VECTORS; at += THREADS) {
      uint row = at / VECTORS;
      pool[row * PITCH + at % VECTORS] = load_vectors(m, row0 + row / M * SPAN + r * M + row % M, at % VECTORS);
    }
    barrier();
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d)
      coopMatLoad(x[r * BLOCKS + d], pool, gl_SubgroupID * M * PITCH + d * 2, PITCH, ROW_MAJOR);
  }
}

void clear(out Sums x[RESULTS]) {
  [[unroll]] for (uint i = 0; i < RESULTS; ++i) x[i] = Sums(0.0);
}

// Orders shared-memory accesses between the threads of a subgroup.
void synchronize() {
  subgroupMemoryBarrierShared();
  subgroupBarrier();
}

// Writes a subgroup's rows from row0 on, times `factor`, rounded once; rows broken.x ... broken.y - 1 become NaN.
// Overwrites the pool: no thread may still need its content.
void store_rows(Sums x[RESULTS], float factor, uvec2 broken, Rows m, uint row0) {
  uint base = gl_SubgroupID * OUT;
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    [[unroll]] for (uint d0 = 0; d0 < BLOCKS; d0 += 4) {
      synchronize();
      [[unroll]] for (uint d = d0; d < (d0 + 4 < BLOCKS ? d0 + 4 : BLOCKS); ++d)
        coopMatStore(x[r * BLOCKS + d], pool, base + (d - d0) * 4, OUT_PITCH, ROW_MAJOR);
      synchronize();
      for (uint i = gl_SubgroupInvocationID; i < M * 8; i += gl_SubgroupSize) {
        uint row = row0 + r * M + i / 8, at = d0 * 16 + i % 8 * 8;
        if (row >= m.count || at >= head_size) continue;
        uint from = base + i / 8 * OUT_PITCH + i % 8 * 2;
        float f = row >= broken.x && row < broken.y ? not_a_number() : factor;
        vec4 a = uintBitsToFloat(pool[from]) * f, b = uintBitsToFloat(pool[from + 1]) * f;
        BufferVectors(m.address).v[(row_start(m, row) + at) / 8] =
            uvec4(narrow_pair(a.xy, DTYPE), narrow_pair(a.zw, DTYPE),
                  narrow_pair(b.xy, DTYPE), narrow_pair(b.zw, DTYPE));
      }
    }
  }
}

// Rounds two numbers to elements of an operand, to nearest, in bf16 with ties away from 0. NaN may become 0 in bf16:
// kernels detect NaN in their row statistics instead.
uint operand_pair(vec2 x) {
#ifdef BFLOAT
  uvec2 u = floatBitsToUint(x) + 0x8000u;
  return (u.x >> 16) | (u.y & 0xffff0000u);
#else
  return packHalf2x16(x);
#endif
}

#ifdef COOPMAT2
// Converts sums to an operand without leaving registers. Drivers may truncate to bf16 (NVIDIA's does), so bf16 is
// rounded here.
Left operand(Sums x) {
#ifdef BFLOAT
  coopmat<bfloat16_t, gl_ScopeSubgroup, M, 16, gl_MatrixUseAccumulator> y;
  [[unroll]] for (int i = 0; i < x.length(); ++i)
    y[i] = uintBitsToBFloat16EXT(uint16_t((floatBitsToUint(x[i]) + 0x8000u) >> 16));
  return Left(y);
#else
  return Left(x);
#endif
}
#endif

#endif
