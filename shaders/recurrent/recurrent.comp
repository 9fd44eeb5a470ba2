#version 460
#extension GL_GOOGLE_include_directive : require
// The elementwise part of one step of a recurrent network: gates, cell and new state from the input part (one gemm for
// all steps) and the recurrent part (one gemm per step), or the gradients of both. A step moves well below a megabyte,
// so it is bound by the latency of a dependent dispatch: everything except the gemm is one dispatch. A thread owns one
// unit of one row. Sequences that have ended (LENGTHS) keep their state; their gradients pass through.
//
// variant: recurrent_forward
// variant: recurrent_backward BACKWARD

#include "dtype.glsl"
#include "math.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint MODE = 2;      // 0: tanh, 1: relu, 2: lstm, 3: gru
layout(constant_id = 1) const uint DTYPE = 1;     // of gates, states and saved values; sums and cells are f32
layout(constant_id = 2) const uint LENGTHS = 99;  // their dtype; 99: none

#ifdef BACKWARD
// Bits of `given`: backward has already processed a later step (gemm_result, carry and cell_carry hold its gradients);
// and the gradients of outputs that arrived.
const uint LATER = 1, STATES = 2, CELLS = 4, SAVED = 8;
layout(push_constant, scalar) uniform Push {
  uvec2 states_grad, cells_grad, saved_grad, gemm_result, carry, cell_carry;
  uvec2 saved, state;  // gru: the state before the step; tanh and relu: after it
  uvec2 cell, cell_before, lengths;
  uvec2 gates_grad, recurrent_grad;
  uint count, units, step, given;
} p;
#else
layout(push_constant, scalar) uniform Push {
  uvec2 gates, gemm_result, state_before, cell_before, lengths;
  uvec2 state, cell, saved;  // saved: null if no gradient is wanted
  uvec2 aligned;             // the state again, in rows of `pitch`; pitch 0: none
  uint count, units, step, keeps, pitch;
} p;

void store_state(uint row, uint unit, float h) {
  store_float(p.state, row * p.units + unit, DTYPE, h);
  if (p.pitch != 0) store_float(p.aligned, row * p.pitch + unit, DTYPE, h);
}
#endif

bool counts(uint row) {
  if (LENGTHS == 99) return true;
  return int(p.step) < load_int(p.lengths, row, LENGTHS);
}

#ifdef BACKWARD

// The gradient of a saved value, which exists only in second derivatives.
float extra(uint first, uint block) {
  return (p.given & SAVED) != 0 ? load_float(p.saved_grad, first + block * p.units, DTYPE) : 0.0;
}

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i >= p.count) return;
  uint row = i / p.units, unit = i % p.units, four = row * 4 * p.units + unit;
  bool here = counts(row);
  float dh = 0.0, dc = 0.0;
  if ((p.given & LATER) != 0) {
    dh = BufferF32(p.gemm_result).v[i] + BufferF32(p.carry).v[i];
    if (MODE == 2) dc = BufferF32(p.cell_carry).v[i];
  }
  if ((p.given & STATES) != 0) dh += load_float(p.states_grad, i, DTYPE);
  if ((p.given & CELLS) != 0) dc += BufferF32(p.cells_grad).v[i];

  if (MODE < 2) {
    float h = load_float(p.state, i, DTYPE);
    float d = MODE == 0 ? dh * (1.0 - h * h) : h > 0.0 ? dh : 0.0;
    store_float(p.gates_grad, i, DTYPE, here ? d : 0.0);
    BufferF32(p.carry).v[i] = here ? 0.0 : dh;
    return;
  }
  if (MODE == 3) {
    float r = load_float(p.saved, four, DTYPE), z = load_float(p.saved, four + p.units, DTYPE);
    float n = load_float(p.saved, four + 2 * p.units, DTYPE), q = load_float(p.saved, four + 3 * p.units, DTYPE);
    float h = load_float(p.state, i, DTYPE);
    float dn = (dh * (1.0 - z) + extra(four, 2)) * (1.0 - n * n);
    float dz = (dh * (h - n) + extra(four, 1)) * z * (1.0 - z);
    float dr = (dn * q + extra(four, 0)) * r * (1.0 - r);
    float dq = dn * r + extra(four, 3);
    uint three = row * 3 * p.units + unit;
    if (!here) dr = dz = dn = dq = 0.0;
    store_float(p.gates_grad, three, DTYPE, dr);
    store_float(p.gates_grad, three + p.units, DTYPE, dz);
    store_float(p.gates_grad, three + 2 * p.units, DTYPE, dn);
    store_float(p.recurrent_grad, three, DTYPE, dr);
    store_float(p.recurrent_grad, three + p.units, DTYPE, dz);
    store_float(p.recurrent_grad, three + 2 * p.units, DTYPE, dq);
    BufferF32(p.carry).v[i] = here ? dh * z : dh;
    return;
  }
  float ig = load_float(p.saved, four, DTYPE), f = load_float(p.saved, four + p.units, DTYPE);
  float g = load_float(p.saved, four + 2 * p.units, DTYPE), o = load_float(p.saved, four + 3 * p.units, DTYPE);
  float y = m_tanh(BufferF32(p.cell).v[i]), before = BufferF32(p.cell_before).v[i];
  float cell = dc + dh * o * (1.0 - y * y);
  float di = (cell * g + extra(four, 0)) * ig * (1.0 - ig);
  float df = (cell * before + extra(four, 1)) * f * (1.0 - f);
  float dg = (cell * ig + extra(four, 2)) * (1.0 - g * g);
  float d_o = (dh * y + extra(four, 3)) * o * (1.0 - o);
  store_float(p.gates_grad, four, DTYPE, here ? di : 0.0);
  store_float(p.gates_grad, four + p.units, DTYPE, here ? df : 0.0);
  store_float(p.gates_grad, four + 2 * p.units, DTYPE, here ? dg : 0.0);
  store_float(p.gates_grad, four + 3 * p.units, DTYPE, here ? d_o : 0.0);
  BufferF32(p.carry).v[i] = here ? 0.0 : dh;
  BufferF32(p.cell_carry).v[i] = here ? cell * f : dc;
}

#else

const uint BLOCKS = MODE == 2 ? 4 : MODE == 3 ? 3 : 1;

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i >= p.count) return;
  uint row = i / p.units, unit = i % p.units, first = row * BLOCKS * p.units + unit, four = row * 4 * p.units + unit;
  bool here = counts(row);
  float a[4], b[4];
  for (uint k = 0; k < BLOCKS; ++k) {
    a[k] = load_float(p.gates, first + k * p.units, DTYPE);
    b[k] = BufferF32(p.gemm_result).v[first + k * p.units];
  }
  float h, kept[4];
  if (MODE < 2) {
    h = MODE == 0 ? m_tanh(a[0] + b[0]) : m_max(a[0] + b[0], 0.0);
    if (!here) h = load_float(p.state_before, i, DTYPE);
    store_state(row, unit, h);
    return;
  }
  if (MODE == 3) {
    float r = m_sigmoid(a[0] + b[0]), z = m_sigmoid(a[1] + b[1]), n = m_tanh(a[2] + r * b[2]);
    float before = load_float(p.state_before, i, DTYPE);
    h = here ? n + z * (before - n) : before;
    kept[0] = r, kept[1] = z, kept[2] = n, kept[3] = b[2];
  } else {
    float ig = m_sigmoid(a[0] + b[0]), f = m_sigmoid(a[1] + b[1]), g = m_tanh(a[2] + b[2]);
    float o = m_sigmoid(a[3] + b[3]), before = BufferF32(p.cell_before).v[i], c = f * before + ig * g;
    BufferF32(p.cell).v[i] = here ? c : before;
    h = o * m_tanh(c);
    if (!here) h = load_float(p.state_before, i, DTYPE);
    kept[0] = ig, kept[1] = f, kept[2] = g, kept[3] = o;
  }
  store_state(row, unit, h);
  if (p.keeps == 0) return;
  for (uint k = 0; k < 4; ++k) store_float(p.saved, four + k * p.units, DTYPE, here ? kept[k] : 0.0);
}

#endif
