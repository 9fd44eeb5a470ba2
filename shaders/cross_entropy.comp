#version 460
#extension GL_GOOGLE_include_directive : require
// Softmax cross-entropy of class indices. Bytes-bound: forward reads the logits once, backward reads them and writes the gradient.
//
// A workgroup of 256 owns a row. Forward: each thread keeps a running maximum and the sum of exponentials below it, eight
// elements at a time so that the sum is rescaled once for eight; the threads' pairs are merged in shared memory. REDUCE adds the
// rows' losses up, in one workgroup, always in the same order.
//
// A target outside [0, classes) that is not ignore_index makes the loss and the gradient of its row NaN.
//
// variant: cross_entropy FORWARD
// variant: cross_entropy_reduce REDUCE
// variant: cross_entropy_backward BACKWARD

#include "dtype.glsl"
#include "math.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint TARGET_DTYPE = 4;
layout(constant_id = 2) const uint REDUCTION = 1;  // none, mean, sum
layout(constant_id = 3) const uint SMOOTHED = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 logits, target;
  uvec2 losses;        // [rows]: of each row; its NaN or not
  uvec2 logsumexp;     // [rows]
  uvec2 loss, count;   // [], [1]
  uvec2 gradient;      // of the loss: [rows] or []
  uvec2 dlogits;
  uvec2 ignore_index;  // low and high word
  uint rows, classes;
  uint stride;         // between rows of logits
  float smoothing;
} p;

float not_a_number() { return uintBitsToFloat(0x7fc00000u); }
const uint IGNORED = 0, COUNTED = 1, WRONG = 2;

uvec2 target_words(uint row) {
  if (TARGET_DTYPE == I64) return BufferWords(p.target).v[row];
  uint low = uint(load_int(p.target, row, TARGET_DTYPE));
  return uvec2(low, int(low) < 0 ? 0xffffffffu : 0u);
}
uint kind_of(uvec2 words) {
  if (words == p.ignore_index) return IGNORED;
  return words.y == 0 && words.x < p.classes ? COUNTED : WRONG;
}

#ifdef FORWARD
shared float largest_of[256];
shared float sum_of[256];
shared float total_of[256];

// exp(m - onto), where both may be -inf.
float rescale(float m, float onto) { return m == onto ? 1.0 : exp(m - onto); }

void main() {
  uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, id = gl_LocalInvocationID.x;
  if (row >= p.rows) return;
  uint base = row * p.stride;
  float minus_infinity = -uintBitsToFloat(0x7f800000u);
  float largest = minus_infinity, sum = 0.0, total = 0.0;
  for (uint first = id; first < p.classes; first += 256 * 8) {
    float x[8];
    float chunk = minus_infinity;
    for (uint j = 0; j < 8; ++j) {
      uint i = first + j * 256;
      x[j] = i < p.classes ? load_float(p.logits, base + i, DTYPE) : minus_infinity;
      if (SMOOTHED != 0 && i < p.classes) total += x[j];
      chunk = m_max(chunk, x[j]);
    }
    float onto = m_max(largest, chunk);
    float part = 0.0;
    for (uint j = 0; j < 8; ++j) part += x[j] == minus_infinity ? 0.0 : exp(x[j] - onto);
    sum = sum * rescale(largest, onto) + part;
    largest = onto;
  }
  largest_of[id] = largest;
  sum_of[id] = sum;
  total_of[id] = total;
  barrier();
  for (uint half_size = 128; half_size > 0; half_size >>= 1) {
    if (id < half_size) {
      float other = largest_of[id + half_size], onto = m_max(largest_of[id], other);
      sum_of[id] = sum_of[id] * rescale(largest_of[id], onto) + sum_of[id + half_size] * rescale(other, onto);
      largest_of[id] = onto;
      total_of[id] += total_of[id + half_size];
    }
    barrier();
  }
  if (id != 0) return;
  float logsumexp = largest_of[0] + log(sum_of[0]);
  BufferF32(p.logsumexp).v[row] = logsumexp;
  uvec2 words = target_words(row);
  uint kind = kind_of(words);
  float loss = kind == IGNORED ? 0.0 : not_a_number();
  if (kind == COUNTED) {
    loss = logsumexp - load_float(p.logits, base + words.x, DTYPE);
    if (SMOOTHED != 0) loss = (1.0 - p.smoothing) * loss + p.smoothing * (logsumexp - total_of[0] / float(p.classes));
  }
  BufferF32(p.losses).v[row] = loss;
}
#endif

#ifdef REDUCE
shared float loss_of[256];
shared uint count_of[256];

void main() {
  uint id = gl_LocalInvocationID.x;
  float loss = 0.0;
  uint count = 0;
  for (uint row = id; row < p.rows; row += 256) {
    if (kind_of(target_words(row)) != IGNORED) {
      ++count;
      if (REDUCTION != 0) loss += BufferF32(p.losses).v[row];
    }
  }
  loss_of[id] = loss;
  count_of[id] = count;
  barrier();
  for (uint half_size = 128; half_size > 0; half_size >>= 1) {
    if (id < half_size) {
      loss_of[id] += loss_of[id + half_size];
      count_of[id] += count_of[id + half_size];
    }
    barrier();
  }
  if (id != 0) return;
  BufferF32(p.count).v[0] = float(count_of[0]);
  if (REDUCTION == 1) BufferF32(p.loss).v[0] = count_of[0] == 0 ? not_a_number() : loss_of[0] / float(count_of[0]);
  if (REDUCTION == 2) BufferF32(p.loss).v[0] = loss_of[0];
}
#endif

#ifdef BACKWARD
void main() {
  uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, id = gl_LocalInvocationID.x;
  if (row >= p.rows) return;
  uint from = row * p.stride, to = row * p.classes;
  uvec2 words = target_words(row);
  uint kind = kind_of(words);
  float factor = BufferF32(p.gradient).v[REDUCTION == 0 ? row : 0];
  if (REDUCTION == 1) factor /= BufferF32(p.count).v[0];
  if (kind != COUNTED) factor = kind == IGNORED ? 0.0 : not_a_number();
  float logsumexp = BufferF32(p.logsumexp).v[row], rest = p.smoothing / float(p.classes);
  for (uint first = id; first < p.classes; first += 256 * 4) {
    float x[4];
    for (uint j = 0; j < 4; ++j) {
      uint i = first + j * 256;
      x[j] = i < p.classes ? load_float(p.logits, from + i, DTYPE) : 0.0;
    }
    for (uint j = 0; j < 4; ++j) {
      uint i = first + j * 256;
      if (i >= p.classes) break;
      float wanted = rest + (i == words.x ? 1.0 - p.smoothing : 0.0);
      store_float(p.dlogits, to + i, DTYPE, kind == IGNORED ? 0.0 : (exp(x[j] - logsumexp) - wanted) * factor);
    }
  }
}
#endif
