#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// A depthwise convolution over the last K steps of each channel, which may begin from the steps of earlier calls.
// Bytes-bound: x is read once and written once. A thread owns a channel in a chunk of 16 steps and keeps the last K in
// registers; neighbouring threads have neighbouring channels. K is at most 16, so only the first chunk reads the state,
// and its threads put the last steps into it, each at its position modulo K.
//
// variant: causal_conv1d

#include "index.glsl"

const uint CHUNK = 16;
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint DTYPE = 1;  // of x and y
layout(constant_id = 1) const uint K = 4;
layout(constant_id = 2) const uint SILU = 0;
layout(constant_id = 3) const uint BIAS = 0;
layout(constant_id = 4) const uint STATE = 0;  // whether there is one
layout(constant_id = 5) const uint COUNTS = 0;
layout(constant_id = 6) const uint UPDATES = 0;  // whether the state becomes that behind the last step

layout(push_constant, scalar) uniform Push {
  uvec2 x, weight, bias, state, rows, positions, counts, index_errors, y;
  uint batch, steps, channels, pitch, states;  // pitch: elements between the steps of x
} p;

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationID.x;
  uint chunks = (p.steps + CHUNK - 1) / CHUNK;
  if (i >= p.batch * chunks * p.channels) return;
  uint channel = i % p.channels, chunk = i / p.channels % chunks, sequence = i / (p.channels * chunks);
  uint first = chunk * CHUNK, last = min(first + CHUNK, p.steps), counted = p.steps;
  int position = 0;
  uvec2 place = uvec2(0);
  if (STATE != 0) {  // a step of one row waits for memory: nothing is loaded later than it could be
    place = load_index_u32s(p.rows, sequence, I32);
    position = BufferI32(p.positions).v[sequence];
    if (COUNTS != 0) counted = uint(clamp(BufferI32(p.counts).v[sequence], 0, int(p.steps)));
    if (position < 0) counted = 0;
  }
  bool keeps = STATE != 0 && chunk == 0 && counted > 0;
  uint at = 0;
  if (keeps) {
    uvec2 errors = channel == 0 ? p.index_errors : uvec2(0);
    at = checked_index(place, sequence, p.states, errors) * K * p.channels + channel;
  }
  float before[K], inputs[K], weights[K];  // before: steps of earlier calls; inputs: the last K
  [[unroll]] for (uint k = 0; k < K; ++k) {
    weights[k] = BufferF32(p.weight).v[channel * K + k];
    int past = position + int(k) - int(K - 1);
    bool has = keeps && k + 1 < K && past >= 0;
    before[k] = has ? BufferF32(p.state).v[at + uint(past) % K * p.channels] : 0.0;
  }
  uint row = sequence * p.steps;
  [[unroll]] for (uint k = 0; k + 1 < K; ++k) {
    int step = int(first + k) - int(K - 1);
    inputs[k + 1] = before[k];
    if (step >= 0) inputs[k + 1] = load_float(p.x, (row + uint(step)) * p.pitch + channel, DTYPE);
  }
  float bias = BIAS != 0 ? BufferF32(p.bias).v[channel] : 0.0;
  for (uint step = first; step < last; ++step) {
    [[unroll]] for (uint k = 0; k + 1 < K; ++k) inputs[k] = inputs[k + 1];
    inputs[K - 1] = load_float(p.x, (row + step) * p.pitch + channel, DTYPE);
    float sum = bias;
    [[unroll]] for (uint k = 0; k < K; ++k) sum += weights[k] * inputs[k];
    if (SILU != 0) sum = sum / (1.0 + exp(-sum));
    store_float(p.y, (row + step) * p.channels + channel, DTYPE, step < counted ? sum : 0.0);
  }
  if (UPDATES == 0 || !keeps) return;
  bool whole = counted == last;  // then the new state is in registers: a step of one row loads nothing twice
  [[unroll]] for (uint k = 0; k < K; ++k) {
    int step = int(counted + k) - int(K);
    if (step < 0) continue;
    float value = inputs[k];
    if (!whole) value = load_float(p.x, (row + uint(step)) * p.pitch + channel, DTYPE);
    BufferF32(p.state).v[at + uint(position + step) % K * p.channels] = value;
  }
}
