#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The end of a transformer sublayer in one dispatch: s = residual + a · bᵀ + bias, and layer_norm (rms_norm) of s. f32
// sums. For few and short rows, as in a small model, where a dependent dispatch costs more than its arithmetic.
//
// A norm needs whole rows, so a workgroup owns ROWS of them, up to 256 columns. Eight rows: fewer rows per workgroup
// keep more multiprocessors busy, and 1024 rows occupy 128. Each workgroup reads all of b from L2; that read and the
// multiplications are the bound. For many rows two dispatches are faster (tensor/ops/matmul/gemm/gemm_norm.cpp
// decides).
//
// Each element of b is needed by one thread only, so b goes from memory straight to registers, without a barrier.
// Threads form GROUPS of four columns times SLICES of k. The slices of a group are neighbours, and each takes the next
// four or eight steps of k, so together they read whole cache lines of b. A thread has all eight rows of its columns:
// 32 sums. The rows of a are the same for all groups, so they are in shared memory, CHUNK steps of k at a time. At the
// end the slices' sums are added through shared memory, in order. Then 32 threads share a row as in norm.comp, and
// compute the moments in two passes over registers.
//
// As in add_layer_norm the sum is rounded to its dtype, stored, and normalized as stored. Here the result of the gemm
// is not rounded before the addition.
//
// variant: gemm_norm

#include "vectors.glsl"
#include "units.glsl"
#include "row_scale.glsl"
#include "row_threads.glsl"  // constants 0 and 1; 32 threads per row

layout(constant_id = 2) const uint TILE_N = 128;  // 32, 64, 128 or 256; at least n
layout(constant_id = 3) const uint DTYPE = 1;     // dtype of a and b
layout(constant_id = 4) const uint A_WIDTH = 1;
layout(constant_id = 5) const uint B_WIDTH = 1;  // up to 8
layout(constant_id = 6) const uint K_FULL = 0;   // 1: k is a multiple of STEP
layout(constant_id = 7) const uint GIVEN = 0;    // 1: bias, 2: weight of the norm, 4: its bias
layout(constant_id = 8) const uint WIDTH = 1;    // elements per load or store of everything with n columns
layout(constant_id = 9) const uint BIAS_DTYPE = 1;
layout(constant_id = 10) const uint SUM_DTYPE = 1;  // also of the residual
layout(constant_id = 11) const uint WEIGHT_DTYPE = 1;
layout(constant_id = 12) const uint SHIFT_DTYPE = 1;
layout(constant_id = 13) const uint Y_DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 a, b, bias, residual, sum, weight, shift, y;
  uint m, n, k;
  uint lda, ldb, ld_residual;
  float eps;
} p;

const uint ROWS = 8, CHUNK = 512;
const uint GROUPS = TILE_N / 4, SLICES = 256 / GROUPS, STEP = SLICES * 8;  // STEP divides CHUNK
// vec4s from one slice's sums to the next; 4 of padding against bank conflicts
const uint PITCH = ROWS * GROUPS + 4;
const uint A_VECTORS = ROWS * CHUNK / 4, SUM_VECTORS = SLICES / 2 * PITCH;
const uint LOADS = A_VECTORS / 256;
const uint ROW_VECTORS = GROUPS > 32 ? GROUPS / 32 : 1;     // vec4s of a row per thread after the multiplication

shared vec4 pool[A_VECTORS > SUM_VECTORS ? A_VECTORS : SUM_VECTORS];

vec2 combine_sum(vec2 a, vec2 b) { return a + b; }
ETNA_REDUCE_ROW(row_sum, combine_sum)
vec2 combine_first(vec2 a, vec2 b) { return vec2(a.x + b.x, max(a.y, b.y)); }
ETNA_REDUCE_ROW(row_first, combine_first)

float as_stored(float v) {
  if (SUM_DTYPE == F16) return half_to_float(float_to_half(v));
  if (SUM_DTYPE == BF16) return bfloat16_to_float(float_to_bfloat16(v));
  return v;
}

// A slice's first (h = 0) or second group of four steps of k, relative to the start of a STEP. Chosen so that cache
// lines of b are read in runs: of vec4s of f32, or of eight 16-bit elements.
uint step_of(uint slice, uint h) { return DTYPE == F32 ? (h * SLICES + slice) * 4 : slice * 8 + h * 4; }

// Position of a row's vec4 of steps 4 q ... 4 q + 3: vec4s that neighbouring slices read at the same time are
// neighbours.
uint place_of(uint q) {
  if (DTYPE == F32) return q;
  uint inside = q % (2 * SLICES);
  return q - inside + (inside & 1u) * SLICES + inside / 2;
}

// Elements k ... k + 3 of a row that starts at `line`; 0 past the end of k, whatever memory holds there.
vec4 along_k(uvec2 address, uint line, uint k, uint width) {
  if (K_FULL != 0) return load_vector(address, line + k, 4, DTYPE, width);
  uint count = k < p.k ? min(4, p.k - k) : 0;
  vec4 r = load_vector(address, line + k, count, DTYPE, width);
  [[unroll]] for (uint c = 0; c < 4; ++c) r[c] = c < count ? r[c] : 0.0;
  return r;
}

// b for this thread's columns in the STEP that starts at k0: next[2 j + h] is column j. Past the end the last column is
// read again.
#define FETCH(k0)                                                                                      \
  [[unroll]] for (uint j = 0; j < 4; ++j) {                                                            \
    uint line = min(group * 4 + j, p.n - 1) * p.ldb;                                                   \
    if (B_WIDTH == 8 && K_FULL != 0) {                                                                 \
      uvec4 words = BufferQuads(p.b).v[(line + (k0) + slice * 8) / 8];                                 \
      next[2 * j] = vec4(widen_pair(words.x, DTYPE), widen_pair(words.y, DTYPE));                      \
      next[2 * j + 1] = vec4(widen_pair(words.z, DTYPE), widen_pair(words.w, DTYPE));                  \
    } else {                                                                                           \
      [[unroll]] for (uint h = 0; h < 2; ++h)                                                          \
        next[2 * j + h] = along_k(p.b, line, (k0) + step_of(slice, h), min(B_WIDTH, 4));               \
    }                                                                                                  \
  }

void main() {
  uint me = gl_LocalInvocationID.x, slice = me % SLICES, group = me / SLICES, row0 = workgroup_index() * ROWS;
  if (row0 >= p.m) return;

  vec4 sums[ROWS], next[8];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] = vec4(0.0);
  FETCH(0)
  for (uint chunk = 0; chunk < p.k; chunk += CHUNK) {
    uint steps = min((p.k - chunk + STEP - 1) / STEP, CHUNK / STEP), vectors = steps * STEP / 4;
    vec4 rows[LOADS];
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
      uint v = i * 256 + me, row = min(row0 + v / vectors, p.m - 1);
      if (v < ROWS * vectors) rows[i] = along_k(p.a, row * p.lda, chunk + v % vectors * 4, A_WIDTH);
    }
    if (chunk > 0) barrier();
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
      uint v = i * 256 + me;
      if (v < ROWS * vectors) pool[v / vectors * (CHUNK / 4) + place_of(v % vectors)] = rows[i];
    }
    barrier();
    for (uint s = 0; s < steps; ++s) {
      vec4 b[8] = next;
      uint k_next = chunk + (s + 1) * STEP;
      if (k_next < p.k) {
        FETCH(k_next)
      }
      [[unroll]] for (uint h = 0; h < 2; ++h) {
        uint at = (2 * s + h) * SLICES + slice;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
          vec4 a = pool[r * (CHUNK / 4) + at];
          [[unroll]] for (uint c = 0; c < 4; ++c)
            sums[r] = fma(vec4(a[c]), vec4(b[h][c], b[2 + h][c], b[4 + h][c], b[6 + h][c]), sums[r]);
        }
      }
    }
  }

  // The upper half of the slices is added to the lower half; then each thread adds the sums of the lower half for its
  // share of a row.
  uint mine = slice % (SLICES / 2) * PITCH + group;
  barrier();
  if (slice >= SLICES / 2) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) pool[mine + r * GROUPS] = sums[r];
  }
  barrier();
  if (slice < SLICES / 2) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) pool[mine + r * GROUPS] += sums[r];
  }
  barrier();

  uint row_thread = this_row_thread(), row = row0 + this_slot();
  vec4 values[ROW_VECTORS];
  uint counts[ROW_VECTORS];
  vec2 total = vec2(0.0);  // Σ x, and the largest |x| (lib/row_scale.glsl)
  [[unroll]] for (uint i = 0; i < ROW_VECTORS; ++i) {
    uint vector = i * 32 + row_thread, column = vector * 4;
    uint count = row < p.m && column < p.n ? min(4, p.n - column) : 0;
    counts[i] = count, values[i] = vec4(0.0);
    if (count == 0) continue;
    vec4 t = vec4(0.0);
    [[unroll]] for (uint s = 0; s < SLICES / 2; ++s) t += pool[s * PITCH + this_slot() * GROUPS + vector];
    if ((GIVEN & 1) != 0) t += load_vector(p.bias, column, count, BIAS_DTYPE, WIDTH);
    t += load_vector(p.residual, row * p.ld_residual + column, count, SUM_DTYPE, WIDTH);
    [[unroll]] for (uint c = 0; c < 4; ++c) {
      t[c] = c < count ? as_stored(t[c]) : 0.0;
      total = vec2(total.x + t[c] * kSumDown, max(total.y, abs(t[c])));
    }
    store_vector(p.sum, row * p.n + column, count, SUM_DTYPE, WIDTH, t);
    values[i] = t;
  }
  total = row_first(total);
  float size = float(p.n), fit = row_scale(total.y, p.eps), mean = total.x / size * kSumUp;
  vec2 about = vec2(0.0);  // Σ d², Σ d: Σ d is the rounding error of the mean
  [[unroll]] for (uint i = 0; i < ROW_VECTORS; ++i) {
    [[unroll]] for (uint c = 0; c < 4; ++c) {
      float d = (values[i][c] - mean) * fit;
      if (c < counts[i]) about += vec2(d * d, d);
    }
  }
  about = row_sum(about) / size;
  float scale = 1.0 / sqrt(about.x - about.y * about.y + p.eps * fit * fit);
  [[unroll]] for (uint i = 0; i < ROW_VECTORS; ++i) {
    uint column = (i * 32 + row_thread) * 4;
    if (counts[i] == 0) continue;
    vec4 y = ((values[i] - mean) * fit - about.y) * scale;
    if ((GIVEN & 2) != 0) y *= load_vector(p.weight, column, counts[i], WEIGHT_DTYPE, WIDTH);
    if ((GIVEN & 4) != 0) y += load_vector(p.shift, column, counts[i], SHIFT_DTYPE, WIDTH);
    store_vector(p.y, row * p.n + column, counts[i], Y_DTYPE, WIDTH, y);
  }
}
