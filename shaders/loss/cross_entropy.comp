#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Softmax cross-entropy of class indices. Bytes-bound: forward reads the logits once; backward reads them and writes
// the gradient.
//
// A workgroup of 256 owns one of CHUNKS chunks of a row, so a thousand rows make about four thousand workgroups, and a
// partial last wave is short. A row may start at any element: its head, up to the next multiple of 128 bytes, and its
// tail take one element per thread, the rest four vectors per thread at a time. Forward keeps a running maximum and the
// sum of exponentials relative to it, rescaled once per 16 elements. REDUCE combines the chunks of each row and adds
// the losses of the rows, in one workgroup, always in the same order. Backward processes the rows from last to first:
// forward read the last ones last, so they are in the cache.
//
// A target outside [0, classes) that is not ignore_index makes the loss and the gradient of its row NaN; forward
// reports it.
//
// variant: cross_entropy FORWARD
// variant: cross_entropy_reduce REDUCE
// variant: cross_entropy_backward BACKWARD

#include "index.glsl"
#include "math.glsl"
#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint TARGET_DTYPE = 4;
layout(constant_id = 2) const uint REDUCTION = 1;  // 0: none, 1: mean, 2: sum
layout(constant_id = 3) const uint SMOOTHED = 0;
layout(constant_id = 4) const uint WIDTH = 1;  // 4 if the vectors after a row's head are aligned
layout(constant_id = 5) const uint CHUNKS = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 logits, target;
  uvec2 losses;        // [rows]: loss of each row; may be NaN
  uvec2 logsumexp;     // [rows]
  uvec2 loss, count;   // [], [1]
  uvec2 gradient;      // of the loss: [rows] or []
  uvec2 dlogits;
  uvec2 states;        // [CHUNKS, rows, 4]: state of each chunk, if there are several
  uvec2 index_errors;
  uvec2 ignore_index;  // low and high word
  uint rows, classes;
  uint stride;         // between rows of logits
  float smoothing;
} p;

float not_a_number() { return uintBitsToFloat(0x7fc00000u); }
float minus_infinity() { return -uintBitsToFloat(0x7f800000u); }
const uint IGNORED = 0, COUNTED = 1, WRONG = 2;
const uint AT_ONCE = 4;  // vectors per thread

uvec2 target_u32s(uint row) { return load_index_u32s(p.target, row, TARGET_DTYPE); }
uint kind_of(uvec2 target) {
  if (target == p.ignore_index) return IGNORED;
  return index_inside(target, p.classes) ? COUNTED : WRONG;
}

// A row of `classes` elements that starts at element `base` of `address`. Vector v starts at element head + 4 v of the
// row; the `edges` other elements are the head and the tail. Vectors [begin, end) belong to this workgroup.
struct RowChunk {
  uint head, edges, begin, end;
};
RowChunk row_chunk(uvec2 address, uint base, uint chunk) {
  RowChunk c;
  c.head = min((0u - (address.x / (DTYPE == F32 ? 4 : 2) + base)) % 32, p.classes);
  uint vectors = (p.classes - c.head) / 4, each = ((vectors + CHUNKS - 1) / CHUNKS + 7) / 8 * 8;
  c.edges = chunk == 0 ? p.classes - 4 * vectors : 0;
  c.begin = chunk * each;
  c.end = min(c.begin + each, vectors);
  return c;
}
// The element that thread id < `edges` takes. Chunk 0 takes all edges.
uint edge(RowChunk c, uint id) { return id < c.head ? id : p.classes - c.edges + id; }

// exp(m - onto), where both may be -inf.
float rescale(float m, float onto) { return m == onto ? 1.0 : exp(m - onto); }
// The state of some elements of a row: maximum, sum of exponentials relative to it, sum of logits, the target's logit.
// A NaN logit survives in the sums even if max() dropped it.
vec4 combine(vec4 a, vec4 b) {
  float onto = max(a.x, b.x);
  return vec4(onto, a.y * rescale(a.x, onto) + b.y * rescale(b.x, onto), a.z + b.z, a.w + b.w);
}

// Writes a row's results. @return its loss
float finish(uint row, vec4 state, uint kind) {
  float logsumexp = state.x + log(state.y), loss = kind == IGNORED ? 0.0 : not_a_number();
  if (kind == COUNTED) {
    loss = logsumexp - state.w;
    if (SMOOTHED != 0) loss = (1.0 - p.smoothing) * loss + p.smoothing * (logsumexp - state.z / float(p.classes));
  }
  BufferF32(p.logsumexp).v[row] = logsumexp;
  BufferF32(p.losses).v[row] = loss;
  return loss;
}

#ifdef FORWARD
shared vec4 states[256];

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, id = gl_LocalInvocationID.x;
  uint row = group / CHUNKS, chunk = group % CHUNKS;
  if (row >= p.rows) return;
  uint base = row * p.stride;
  RowChunk c = row_chunk(p.logits, base, chunk);
  vec4 state = vec4(minus_infinity(), 0.0, 0.0, 0.0);
  if (id < c.edges) {
    float x = load_float(p.logits, base + edge(c, id), DTYPE);
    state = vec4(x, x == minus_infinity() ? 0.0 : m_isnan(x) ? x : 1.0, x, 0.0);
  }
  for (uint first = c.begin + id; first < c.end; first += 256 * AT_ONCE) {
    vec4 x[AT_ONCE];
    [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
      uint v = first + j * 256;
      x[j] = v < c.end ? load_vector(p.logits, base + c.head + v * 4, 4, DTYPE, WIDTH) : vec4(minus_infinity());
    }
    float onto = state.x, part_sum = 0.0;
    [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
      onto = max(onto, max(max(x[j].x, x[j].y), max(x[j].z, x[j].w)));
      if (SMOOTHED != 0 && first + j * 256 < c.end) state.z += (x[j].x + x[j].y) + (x[j].z + x[j].w);
    }
    [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
      [[unroll]] for (uint k = 0; k < 4; ++k) part_sum += x[j][k] == minus_infinity() ? 0.0 : exp(x[j][k] - onto);
    }
    state.y = state.y * rescale(state.x, onto) + part_sum;
    state.x = onto;
  }
  states[id] = state;
  barrier();
  for (uint half_size = 128; half_size > 0; half_size >>= 1) {
    if (id < half_size) states[id] = combine(states[id], states[id + half_size]);
    barrier();
  }
  if (id != 0) return;
  state = states[0];
  if (chunk == 0) {
    uvec2 target = target_u32s(row);
    uint kind = kind_of(target);
    if (kind == WRONG) report_index(p.index_errors, row, target, p.classes);
    if (kind == COUNTED) state.w = load_float(p.logits, base + target.x, DTYPE);
    if (CHUNKS == 1) finish(row, state, kind);
  }
  if (CHUNKS > 1) BufferVec4(p.states).v[chunk * p.rows + row] = state;
}
#endif

#ifdef REDUCE
shared float loss_of[256];
shared uint count_of[256];

void main() {
  uint id = gl_LocalInvocationID.x;
  float sum = 0.0;
  uint count = 0;
  for (uint row = id; row < p.rows; row += 256) {
    uint kind = kind_of(target_u32s(row));
    float loss = 0.0;
    if (CHUNKS > 1) {
      vec4 state = BufferVec4(p.states).v[row];
      for (uint chunk = 1; chunk < CHUNKS; ++chunk)
        state = combine(state, BufferVec4(p.states).v[chunk * p.rows + row]);
      loss = finish(row, state, kind);
    } else if (REDUCTION != 0) {
      loss = BufferF32(p.losses).v[row];
    }
    if (kind == IGNORED) continue;
    ++count;
    sum += loss;
  }
  loss_of[id] = sum;
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
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, id = gl_LocalInvocationID.x;
  if (group >= p.rows * CHUNKS) return;
  uint row = p.rows - 1 - group / CHUNKS, from = row * p.stride, to = row * p.classes;
  RowChunk c = row_chunk(p.dlogits, to, group % CHUNKS);
  uvec2 target = target_u32s(row);
  uint kind = kind_of(target);
  float factor = BufferF32(p.gradient).v[REDUCTION == 0 ? row : 0];
  if (REDUCTION == 1) factor /= BufferF32(p.count).v[0];
  if (kind != COUNTED) factor = kind == IGNORED ? 0.0 : not_a_number();
  float logsumexp = BufferF32(p.logsumexp).v[row],
        rest = p.smoothing / float(p.classes), wanted = rest + (1.0 - p.smoothing);
  if (id < c.edges) {
    uint i = edge(c, id);
    float x = load_float(p.logits, from + i, DTYPE);
    store_float(p.dlogits, to + i, DTYPE,
                kind == IGNORED ? 0.0 : (exp(x - logsumexp) - (i == target.x ? wanted : rest)) * factor);
  }
  for (uint first = c.begin + id; first < c.end; first += 256 * AT_ONCE) {
    vec4 x[AT_ONCE];
    [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
      uint v = first + j * 256;
      if (v < c.end) x[j] = load_vector(p.logits, from + c.head + v * 4, 4, DTYPE, WIDTH);
    }
    [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
      uint v = first + j * 256;
      if (v >= c.end) break;
      uvec4 i = uvec4(0, 1, 2, 3) + (c.head + v * 4);
      vec4 g = (exp(x[j] - logsumexp) - mix(vec4(rest), vec4(wanted), equal(i, uvec4(target.x)))) * factor;
      store_vector(p.dlogits, to + c.head + v * 4, 4, DTYPE, WIDTH, kind == IGNORED ? vec4(0.0) : g);
    }
  }
}
#endif
