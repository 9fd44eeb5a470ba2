#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
// Matrix multiplication of i8 with i32 sums on matrix units, exact. The tiling is that of lib/gemm_matrix.glsl byte for
// byte; that file's header has the measurements: 128 x 128 results per workgroup of four subgroups, 64 x 64 each; 128
// steps of k in shared memory, rows padded by 16 bytes; the next 128 steps are loaded to registers meanwhile. Like that
// kernel it is bound by the shared-memory pipe.
//
// Both operands must have k contiguous, in whole, aligned runs of 16, as in a linear layer. gemm_int8.comp handles all
// others.
//
// requires: GL_KHR_cooperative_matrix
// target: vulkan1.3
// variant: gemm_int8_coopmat

#include "vectors.glsl"
#include "units.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 128;  // four subgroups
layout(constant_id = 1) const uint FM = 16;        // matrix shape: FM x FK times FK x FN
layout(constant_id = 2) const uint FN = 16;
layout(constant_id = 3) const uint FK = 32;

#include "epilogue_int8.glsl"

const uint TILE = 128, SUB = 64, STEP = 128;
const uint ROW = STEP / 16, PITCH = ROW + 1;  // in runs of 16 elements: a row, and the distance between rows
const uint LOADS = TILE * ROW / THREADS, B_AT = TILE * PITCH;
const uint OUT_PITCH = SUB / 4 + 1;  // for a subgroup's FM rows of results
const uint OUT = 4 * FM * OUT_PITCH;

shared uvec4 pool[2 * B_AT > OUT ? 2 * B_AT : OUT];

#define SUMS coopmat<int, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>
#define A_MATRIX coopmat<int8_t, gl_ScopeSubgroup, FM, FK, gl_MatrixUseA>
#define B_MATRIX coopmat<int8_t, gl_ScopeSubgroup, FK, FN, gl_MatrixUseB>
const uint DOWN = SUB / FM, ACROSS = SUB / FN;

// Sixteen steps of k of a row (column). Past the end the last row is read again, and its results are not stored; k past
// its end is 0.
uvec4 fetch(uvec2 address, uint offset, uint ld, uint line, uint lines, uint k) {
  if (k >= p.k) return uvec4(0);
  return BufferQuads(address).v[(offset + min(line, lines - 1) * ld + k) / 16];
}

#define FETCH(k0)                                                                         \
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {                                           \
    uint v = i * THREADS + me, line = v / ROW, k = (k0) + v % ROW * 16;                   \
    a_next[i] = fetch(p.a, a_offset, p.lda, row0 + line, p.m, k);                         \
    b_next[i] = fetch(p.b, b_offset, p.ldb, column0 + line, p.n, k);                      \
  }

#define PUT                                                      \
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {                  \
    uint v = i * THREADS + me, at = v / ROW * PITCH + v % ROW;   \
    pool[at] = a_next[i];                                        \
    pool[B_AT + at] = b_next[i];                                 \
  }

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, me = gl_LocalInvocationID.x;
  uint tiles_m = (p.m + TILE - 1) / TILE, tiles_n = (p.n + TILE - 1) / TILE, tiles = tiles_m * tiles_n;
  if (group >= tiles * p.batch) return;
  uint tile = group % tiles, matrix = group / tiles;

  // Tiles are ordered in bands of eight rows, so that tiles in flight share operands in the cache.
  uint band = tile / (8 * tiles_n), first = band * 8, height = min(8, tiles_m - first), inside = tile - first * tiles_n;
  uint row0 = (first + inside % height) * TILE, column0 = inside / height * TILE;
  uint sub_row = gl_SubgroupID % 2 * SUB, sub_column = gl_SubgroupID / 2 * SUB;
  uint a_offset = matrix / p.inner * p.a_strides[0] + matrix % p.inner * p.a_strides[1];
  uint b_offset = matrix / p.inner * p.b_strides[0] + matrix % p.inner * p.b_strides[1];

  SUMS sums[DOWN * ACROSS];
  [[unroll]] for (uint i = 0; i < DOWN * ACROSS; ++i) sums[i] = SUMS(0);
  uvec4 a_next[LOADS], b_next[LOADS];
  FETCH(0)
  PUT
  barrier();
  for (uint k0 = STEP;; k0 += STEP) {
    bool more = k0 < p.k;
    if (more) {
      FETCH(k0)
    }
    [[unroll]] for (uint k = 0; k < STEP; k += FK) {
      A_MATRIX a[DOWN];
      B_MATRIX b[ACROSS];
      [[unroll]] for (uint i = 0; i < DOWN; ++i) {
        coopMatLoad(a[i], pool, (sub_row + i * FM) * PITCH + k / 16, PITCH, gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint j = 0; j < ACROSS; ++j) {
        coopMatLoad(b[j], pool, B_AT + (sub_column + j * FN) * PITCH + k / 16, PITCH,
                    gl_CooperativeMatrixLayoutColumnMajor);
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
  uint mine = gl_SubgroupID * FM * OUT_PITCH;
  [[unroll]] for (uint i = 0; i < DOWN; ++i) {
    barrier();
    [[unroll]] for (uint j = 0; j < ACROSS; ++j) {
      coopMatStore(sums[i * ACROSS + j], pool, mine + j * FN / 4, OUT_PITCH, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    [[unroll]] for (uint t = 0; t < FM * SUB / 4 / THREADS_PER_ROW; ++t) {
      uint at = (t * THREADS_PER_ROW + gl_SubgroupInvocationID) * 4, r = at / SUB, c = at % SUB;
      uint row = row0 + sub_row + i * FM + r, column = column0 + sub_column + c;
      if (row >= p.m || column >= p.n) continue;
      apply_epilogue(ivec4(pool[mine + r * OUT_PITCH + c / 4]), matrix * p.m + row, column);
    }
  }
}
