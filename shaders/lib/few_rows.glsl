// The common part of both kernels of quantized_linear for few rows: their arguments, the sums of a workgroup and the
// epilogue. With SUBGROUPS, a subgroup sums by its own instruction.
#ifndef ETNA_FEW_ROWS_GLSL
#define ETNA_FEW_ROWS_GLSL

#include "epilogue.glsl"
#include "quant_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 64;
layout(constant_id = 1) const uint ROWS = 1;    // of a weight, in a workgroup
layout(constant_id = 2) const uint X_ROWS = 1;  // 1, 2, 4 or 8
layout(constant_id = 3) const uint FORMAT_0 = 0;
layout(constant_id = 4) const uint FORMAT_1 = 0;  // FORMAT_0 if there is no such weight
layout(constant_id = 5) const uint FORMAT_2 = 0;
layout(constant_id = 6) const uint FORMAT_3 = 0;
layout(constant_id = 7) const uint ALIGNED_0 = 1;
layout(constant_id = 8) const uint ALIGNED_1 = 1;
layout(constant_id = 9) const uint ALIGNED_2 = 1;
layout(constant_id = 10) const uint ALIGNED_3 = 1;
layout(constant_id = 11) const uint DTYPE = 1;  // of x and y
layout(constant_id = 12) const uint WIDTH = 1;  // of loads of x and of the norm's weight
layout(constant_id = 13) const uint NORM_DTYPE = 99;  // 99: there is none
layout(constant_id = 14) const uint BIAS_DTYPE = 99;
layout(constant_id = 15) const uint RESIDUAL_DTYPE = 99;
layout(constant_id = 16) const uint GATE = 0;  // etna::Activation
layout(constant_id = 17) const uint PARTS = 16;  // at least the number of subgroups
layout(constant_id = 18) const uint CHUNKS = 1;  // or units of each row that a thread loads before it multiplies
layout(constant_id = 19) const uint SETS = 1;  // sets of threads (whole subgroups), each of which owns ROWS rows
layout(constant_id = 20) const uint EPS = 0;   // of the norm: the bits of an f32

layout(push_constant, scalar) uniform Push {
  uvec2 x, y, bias, norm, residual, w0, w1, w2, w3, quantized, points;
  uint x_rows, k, n0, n1, n2, n3, bytes0, bytes1, bytes2, bytes3;  // bytes of a weight's row
} p;

const bool NORM = NORM_DTYPE != 99;
const uint SET_THREADS = THREADS / SETS, GROUP_ROWS = ROWS * SETS;
const uint WEIGHTS = GATE != 0 ? 2 : 1;  // that a workgroup multiplies with
const uint SUMS = WEIGHTS * X_ROWS * ROWS, VALUES = SUMS + (NORM ? X_ROWS : 0);

float sums[VALUES];  // a thread's partial sums: with the first weight, with the second, then of squares of x
shared float parts[VALUES * PARTS];

const bool SAME_FORMATS = FORMAT_0 == FORMAT_1 && FORMAT_0 == FORMAT_2 && FORMAT_0 == FORMAT_3 &&
                          ALIGNED_0 == ALIGNED_1 && ALIGNED_0 == ALIGNED_2 && ALIGNED_0 == ALIGNED_3;

bool any_has_levels() {
  return has_levels(FORMAT_0) || has_levels(FORMAT_1) || has_levels(FORMAT_2) || has_levels(FORMAT_3);
}
uvec2 weight_at(uint i) { return i == 0 ? p.w0 : i == 1 ? p.w1 : i == 2 ? p.w2 : p.w3; }

// A thread's set, and its index in it.
uint set_index() { return gl_LocalInvocationID.x / SET_THREADS; }
uint set_thread() { return gl_LocalInvocationID.x % SET_THREADS; }

// Which rows of which weight a set owns.
struct Part {
  uint weight, row, n;  // n: rows of the weight
  uint columns, from;   // of y, and the first of the weight
};

// @return false for a workgroup without rows
bool find_part(out Part part) {
  uint rows[4] = uint[4](p.n0, p.n1, p.n2, p.n3), group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  part.columns = GATE != 0 ? p.n0 : p.n0 + p.n1 + p.n2 + p.n3;
  part.from = 0;
  [[unroll]] for (uint i = 0; i < (GATE != 0 ? 1 : 4); ++i) {
    uint groups = (rows[i] + GROUP_ROWS - 1) / GROUP_ROWS;
    if (group < groups) {
      part.weight = i;
      part.row = group * GROUP_ROWS + set_index() * ROWS;
      part.n = rows[i];
      return true;
    }
    group -= groups;
    part.from += rows[i];
  }
  return false;
}

// The addends of a result, loaded before the sums are complete.
struct Addends {
  float bias, second_bias, residual;
};

// A thread's result: row m of x, row r of the weight.
void place_of(Part part, uint v, out uint m, out uint r) {
  m = v / ROWS;
  r = part.row + v % ROWS;
}

Addends load_addends(Part part, uint v) {
  Addends a = Addends(0.0, 0.0, 0.0);
  uint m, r;
  place_of(part, v, m, r);
  if (v >= X_ROWS * ROWS || m >= p.x_rows || r >= part.n) return a;
  if (BIAS_DTYPE != 99) a.bias = load_float(p.bias, part.from + r, BIAS_DTYPE);
  if (BIAS_DTYPE != 99 && GATE != 0) a.second_bias = load_float(p.bias, p.n0 + r, BIAS_DTYPE);
  if (RESIDUAL_DTYPE != 99) a.residual = load_float(p.residual, m * part.columns + part.from + r, RESIDUAL_DTYPE);
  return a;
}

// Writes all partial sums to shared memory, in thread order.
uint share_parts() {
  uint thread = gl_LocalInvocationID.x;
#ifdef SUBGROUPS
  [[unroll]] for (uint v = 0; v < VALUES; ++v) {
    float sum = subgroupAdd(sums[v]);
    if (subgroupElect()) parts[v * PARTS + gl_SubgroupID] = sum;
  }
  barrier();
  return gl_NumSubgroups / SETS;
#else
  [[unroll]] for (uint v = 0; v < VALUES; ++v) parts[v * PARTS + thread] = sums[v];
  barrier();
  // In two steps, the first of which reduces every eight to one.
  for (uint i = thread; i < VALUES * (THREADS / 8); i += THREADS) {
    uint at = i / (THREADS / 8) * PARTS + i % (THREADS / 8) * 8;
    float sum = parts[at];
    for (uint j = 1; j < 8; ++j) sum += parts[at + j];
    parts[at] = sum;
  }
  barrier();
  return THREADS / 8;
#endif
}

float total_of(uint v, uint count) {
#ifdef SUBGROUPS
  const uint step = 1;
#else
  const uint step = 8;
#endif
  uint first = v * PARTS + set_index() * count;
  float sum = parts[first];
  for (uint j = 1; j < count; ++j) sum += parts[first + j * step];
  return sum;
}

// @return the result; 0 if the thread has none
float store_result(Part part, uint v, Addends a, uint count) {
  uint m, r;
  place_of(part, v, m, r);
  if (m >= p.x_rows || r >= part.n) return 0.0;
  float factor = NORM ? 1.0 / sqrt(total_of(SUMS + (NORM ? m : 0), count) / float(p.k) + uintBitsToFloat(EPS)) : 1.0;
  float y = total_of(v, count);
  if (NORM) y *= factor;
  y += a.bias;
  if (GATE != 0) {
    float b = total_of(X_ROWS * ROWS * (WEIGHTS - 1) + v, count);
    if (NORM) b *= factor;
    y = activated(y, GATE) * (b + a.second_bias);
  }
  y += a.residual;
  store_float(p.y, m * part.columns + part.from + r, DTYPE, y);
  return y;
}

// Reduces `sums` over the threads and writes y. `first` are the addends of this thread's own result.
// @return that result
float finish(Part part, Addends first) {
  uint count = share_parts(), own = set_thread();
  float result = 0.0;
  if (own < X_ROWS * ROWS) result = store_result(part, own, first, count);
  for (uint v = own + SET_THREADS; v < X_ROWS * ROWS; v += SET_THREADS)
    store_result(part, v, load_addends(part, v), count);
  return result;
}

#endif
