#version 460
#extension GL_GOOGLE_include_directive : require
// The experts of a row by a router's logits: scores, the best groups, the best experts, and their factors. A row of
// some hundred logits is no work; the kernel is there because the ops it stands for are seven dispatches. An expert's
// place is the number of experts ahead of it, so that equal scores have an order and no thread waits for another's
// choice.
//
// variant: choose_experts

#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "dtype.glsl"
#include "math.glsl"

const uint THREADS = 128, MOST_EXPERTS = 1024, MOST_CHOSEN = 128;
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint DTYPE = 1;  // of logits and factors
layout(constant_id = 1) const uint BIAS_DTYPE = 99;  // 99: there is none
layout(constant_id = 2) const uint SIGMOID = 0;
layout(constant_id = 3) const uint BY_BEST = 0;
layout(constant_id = 4) const uint NORMALIZED = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 logits, bias, expert, factor;
  uint rows, experts, chosen, groups, chosen_groups;
  float scale;
} p;

shared float scores[MOST_EXPERTS], ranked[MOST_EXPERTS], of_group[MOST_EXPERTS], best[MOST_CHOSEN];
shared float parts[THREADS];

// Of a sort from the largest on, in which NaN comes first.
bool is_ahead(float a, uint i, float b, uint j) {
  bool a_nan = m_isnan(a), b_nan = m_isnan(b);
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a != b) return a > b;
  return i < j;
}

// The maximum of all threads' values, or their sum, added in the same order every time.
float reduced(float value, bool largest) {
  value = largest ? subgroupMax(value) : subgroupAdd(value);
  barrier();
  if (subgroupElect()) parts[gl_SubgroupID] = value;
  barrier();
  float all = parts[0];
  for (uint i = 1; i < gl_NumSubgroups; ++i) all = largest ? m_max(all, parts[i]) : all + parts[i];
  return all;
}

float group_score(uint group, uint size) {
  float first = ranked[group * size], second = 0.0;
  uint at = 0;
  for (uint i = 1; i < size; ++i)
    if (is_ahead(ranked[group * size + i], i, first, at)) first = ranked[group * size + i], at = i;
  if (BY_BEST != 0) return first;
  uint next = at == 0 ? 1 : 0;
  second = ranked[group * size + next];
  for (uint i = next + 1; i < size; ++i)
    if (i != at && is_ahead(ranked[group * size + i], i, second, next)) second = ranked[group * size + i], next = i;
  return first + second;
}

void main() {
  uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, thread = gl_LocalInvocationID.x;
  if (row >= p.rows) return;
  float largest = uintBitsToFloat(0xff800000u), sum = 0.0;
  for (uint e = thread; e < p.experts; e += THREADS) {
    float logit = load_float(p.logits, row * p.experts + e, DTYPE);
    scores[e] = logit;
    largest = m_max(largest, logit);
  }
  if (SIGMOID == 0) {
    largest = reduced(largest, true);
    for (uint e = thread; e < p.experts; e += THREADS) {
      scores[e] = exp(scores[e] - largest);
      sum += scores[e];
    }
    sum = reduced(sum, false);
  }
  for (uint e = thread; e < p.experts; e += THREADS) {
    scores[e] = SIGMOID != 0 ? 1.0 / (1.0 + exp(-scores[e])) : scores[e] / sum;
    ranked[e] = scores[e] + (BIAS_DTYPE != 99 ? load_float(p.bias, e, BIAS_DTYPE) : 0.0);
  }
  // Behind the last, eight at a time are compared: none of these is ahead of an expert.
  if (thread < 8 && p.experts + thread < MOST_EXPERTS) ranked[p.experts + thread] = uintBitsToFloat(0xff800000u);
  barrier();
  if (p.groups > 1) {
    uint size = p.experts / p.groups;
    for (uint g = thread; g < p.groups; g += THREADS) of_group[g] = group_score(g, size);
    barrier();
    for (uint e = thread; e < p.experts; e += THREADS) {
      uint g = e / size, ahead = 0;
      for (uint other = 0; other < p.groups; ++other) ahead += is_ahead(of_group[other], other, of_group[g], g) ? 1 : 0;
      ranked[e] *= ahead < p.chosen_groups ? 1.0 : 0.0;
    }
    barrier();
  }
  for (uint e = thread; e < p.experts; e += THREADS) {
    uint ahead = 0;
    float own = ranked[e];
    for (uint other = 0; other < p.experts; other += 8) {
      [[unroll]] for (uint i = 0; i < 8; ++i) ahead += is_ahead(ranked[other + i], other + i, own, e) ? 1 : 0;
    }
    if (ahead >= p.chosen) continue;
    best[ahead] = scores[e];
    BufferI32(p.expert).v[row * p.chosen + ahead] = int(e);
  }
  barrier();
  for (uint c = thread; c < p.chosen; c += THREADS) {
    float value = best[c];
    if (NORMALIZED != 0) {
      float all = 0.0;
      for (uint i = 0; i < p.chosen; ++i) all += best[i];
      value /= all + 1e-20;
    }
    store_float(p.factor, row * p.chosen + c, DTYPE, value * p.scale);
  }
}
