#version 460
#extension GL_GOOGLE_include_directive : require
// Normalization by the statistics of channels. x is [A, C, B]; a channel is A·B elements in A runs of B. Bytes-bound:
// forward reads x twice and writes once, backward reads both tensors twice and writes once.
//
// SUMS reduces channels, one chunk of a channel per workgroup; if a channel has several chunks, a second dispatch
// merges their states (FROM_STATES). Forward, a state is (count, mean, Σ (k (x - mean))², k), where k is a power of two
// that keeps the squares in f32 (lib/row_scale.glsl). Up to sixteen elements are in registers at once: their own mean
// and squares are exact, and are merged as in Chan, Golub & LeVeque (1983), so that neither a large mean nor many
// elements cost digits. Backward, a state is (Σ g, Σ g (x - mean)). If channels are adjacent in memory (B = 1), COLUMNS
// makes neighbouring threads take neighbouring channels.
// APPLY normalizes, or computes dx, element by element. UPDATE moves the running statistics.
//
// variant: batch_norm_sums SUMS
// variant: batch_norm_apply APPLY
// variant: batch_norm_update UPDATE

#include "row_threads.glsl"
#include "row_scale.glsl"
#include "vectors.glsl"

layout(constant_id = 2) const uint BACKWARD = 0;
layout(constant_id = 3) const uint X_DTYPE = 1;
layout(constant_id = 4) const uint G_DTYPE = 1;

#ifdef SUMS
layout(constant_id = 5) const uint WIDTH = 1;  // 4: runs are whole aligned groups of four
layout(constant_id = 6) const uint FROM_STATES = 0;
layout(constant_id = 7) const uint TO_STATES = 0;

ETNA_BUFFER_ALIGNED(States, vec4, 16);

layout(push_constant, scalar) uniform Push {
  uvec2 x, g;         // FROM_STATES: x holds states [chunks, C]
  uvec2 mean;         // read in backward, otherwise written
  uvec2 second;       // deviation, or Σ g and Σ g (x - mean) as [2, C]
  uvec2 states;       // TO_STATES: [chunks, C]
  uint channels, run, count;       // C, B, and A·B or the number of chunks
  uint chunk, groups, chunks;      // elements per chunk, workgroups per chunk
} p;

vec4 merge(vec4 a, vec4 b) {
  if (BACKWARD != 0) return a + b;
  float both = a.x + b.x;
  if (both == 0.0) return a;
  if (a.x == 0.0) return b;
  if (b.x == 0.0) return a;
  float d = b.y - a.y, k = min(min(a.w, b.w), squares_scale(abs(d)));
  float by_a = k / a.w, by_b = k / b.w, scaled = d * k;
  float squares = a.z * by_a * by_a + b.z * by_b * by_b + scaled * scaled * (a.x * b.x / both);
  return vec4(both, a.y + d * (b.x / both), squares, k);
}

shared vec4 state_values[256];
shared vec4 state_groups[16];
ETNA_REDUCE_ROW_OF(vec4, state_values, state_groups, merge_row, merge)

uint address_of(uint channel, uint i) { return (i / p.run * p.channels + channel) * p.run + i % p.run; }

// Four elements of one run, or four elements with a stride of THREADS_PER_ROW; those past the end are 0.
vec4 load_four(uvec2 address, uint dtype, uint channel, uint i, uint end, out vec4 there) {
  if (WIDTH == 4) {
    there = vec4(i < end ? 1.0 : 0.0);
    return load_vector(address, i < end ? address_of(channel, i) : 0, i < end ? 4 : 0, dtype, 4);
  }
  vec4 v = vec4(0.0);
  there = vec4(0.0);
  for (uint k = 0; k < 4; ++k) {
    uint at = i + k * THREADS_PER_ROW;
    if (at >= end) break;
    v[k] = load_float(address, address_of(channel, at), dtype);
    there[k] = 1.0;
  }
  return v;
}

vec4 state_of(uint channel, uint begin, uint end, uint row_thread) {
  vec4 s = vec4(0.0);
  const uint four = 4 * THREADS_PER_ROW, vectors = 4;
  float mean = BACKWARD != 0 ? BufferF32(p.mean).v[channel] : 0.0;
  for (uint first = begin + row_thread * WIDTH; first < end; first += vectors * four) {
    vec4 x[4], there[4], g[4];
    for (uint k = 0; k < vectors; ++k) {
      x[k] = load_four(p.x, X_DTYPE, channel, first + k * four, end, there[k]);
      if (BACKWARD != 0) g[k] = load_four(p.g, G_DTYPE, channel, first + k * four, end, there[k]);
    }
    if (BACKWARD != 0) {
      float sum = 0.0, products = 0.0;
      for (uint k = 0; k < vectors; ++k) {
        sum += dot(g[k], vec4(1.0));
        products += dot(g[k], (x[k] - mean) * there[k]);
      }
      s += vec4(sum, products, 0.0, 0.0);
      continue;
    }
    float count = 0.0, sum = 0.0, squares = 0.0;
    for (uint k = 0; k < vectors; ++k) {
      count += dot(there[k], vec4(1.0));
      sum += dot(x[k], vec4(kSumDown));
    }
    float own = sum / count * kSumUp;
    vec4 most = vec4(0.0);
    for (uint k = 0; k < vectors; ++k) {
      x[k] = (x[k] - own) * there[k];
      most = max(most, abs(x[k]));
    }
    float scale = squares_scale(max(max(most.x, most.y), max(most.z, most.w)));
    for (uint k = 0; k < vectors; ++k) squares += dot(x[k] * scale, x[k] * scale);
    s = merge(s, vec4(count, own, squares, scale));
  }
  return s;
}

void main() {
  uint group = workgroup_index(), chunk = group / p.groups;
  if (chunk >= p.chunks) return;
  uint row_thread = this_row_thread(), channel = group % p.groups * SLOTS + this_slot();
  bool there = channel < p.channels;
  uint begin = chunk * p.chunk, end = min(begin + p.chunk, p.count);
  vec4 s = vec4(0.0);
  if (there && FROM_STATES != 0) {
    for (uint i = begin + row_thread; i < end; i += THREADS_PER_ROW)
      s = merge(s, States(p.x).v[i * p.channels + channel]);
  } else if (there) {
    s = state_of(channel, begin, end, row_thread);
  }
  s = merge_row(s);
  if (!there || row_thread != 0) return;
  if (TO_STATES != 0) {
    States(p.states).v[chunk * p.channels + channel] = s;
  } else if (BACKWARD != 0) {
    BufferF32(p.second).v[channel] = s.x;
    BufferF32(p.second).v[p.channels + channel] = s.y;
  } else {
    BufferF32(p.mean).v[channel] = s.y;
    BufferF32(p.second).v[channel] = sqrt(s.z / s.x) / s.w;
  }
}
#endif

#ifdef APPLY
// Elements per thread: 4: four of one run, or of four channels; 1: single ones.
layout(constant_id = 5) const uint WIDTH = 1;
layout(constant_id = 6) const uint HAS = 0;  // 1: weight, 2: bias (forward) or sums (backward), 4: a deviation
layout(constant_id = 7) const uint WEIGHT_DTYPE = 1;
layout(constant_id = 8) const uint BIAS_DTYPE = 1;
layout(constant_id = 9) const uint Y_DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 x, y, g, mean;
  uvec2 spread;  // deviation, or variance
  uvec2 weight, bias, sums;
  uint n, channels, run;
  float eps, inverse_count;
} p;

// A value of four elements' channels: the value of one channel, or with COLUMNS of four.
vec4 of_channels(uvec2 address, uint channel, uint dtype) {
  if (WIDTH == 4 && COLUMNS != 0) return load_vector(address, channel, 4, dtype, 4);
  return vec4(load_float(address, channel, dtype));
}

// 1 / sqrt(variance + eps)
float reciprocal(float spread) {
  if ((HAS & 4) == 0) return 1.0 / sqrt(spread + p.eps);
  float fit = row_scale(spread, p.eps);
  spread *= fit;
  return fit / sqrt(spread * spread + p.eps * fit * fit);
}

vec4 computed(vec4 x, vec4 g, uint channel) {
  vec4 mean = of_channels(p.mean, channel, F32), spread = of_channels(p.spread, channel, F32), rstd;
  for (uint c = 0; c < 4; ++c) rstd[c] = reciprocal(spread[c]);
  vec4 scale = rstd;
  if ((HAS & 1) != 0) scale *= of_channels(p.weight, channel, WEIGHT_DTYPE);
  if (BACKWARD == 0) {
    vec4 bias = (HAS & 2) != 0 ? of_channels(p.bias, channel, BIAS_DTYPE) : vec4(0.0);
    return (x - mean) * scale + bias;
  }
  if ((HAS & 2) == 0) return g * scale;
  vec4 level = of_channels(p.sums, channel, F32) * p.inverse_count;
  // The square of rstd may underflow f32.
  precise vec4 normed = (x - mean) * rstd;
  precise vec4 along = of_channels(p.sums, p.channels + channel, F32) * p.inverse_count * rstd;
  return (g - level - normed * along) * scale;
}

void main() {
  if (WIDTH == 4) {
    uint i = (workgroup_index() * 256 + gl_LocalInvocationID.x) * 4;
    if (i >= p.n) return;
    vec4 x = load_vector(p.x, i, 4, X_DTYPE, 4), g = BACKWARD != 0 ? load_vector(p.g, i, 4, G_DTYPE, 4) : vec4(0.0);
    store_vector(p.y, i, 4, Y_DTYPE, 4, computed(x, g, i / p.run % p.channels));
    return;
  }
  for (uint k = 0; k < 4; ++k) {
    uint i = workgroup_index() * 1024 + k * 256 + gl_LocalInvocationID.x;
    if (i >= p.n) return;
    vec4 x = vec4(load_float(p.x, i, X_DTYPE)), g = vec4(BACKWARD != 0 ? load_float(p.g, i, G_DTYPE) : 0.0);
    store_float(p.y, i, Y_DTYPE, computed(x, g, i / p.run % p.channels).x);
  }
}
#endif

#ifdef UPDATE
layout(constant_id = 5) const uint MEAN_DTYPE = 1;
layout(constant_id = 6) const uint VARIANCE_DTYPE = 1;
layout(constant_id = 7) const uint COUNTS = 0;  // 1: counts batches, 2: their number also gives the factor

layout(push_constant, scalar) uniform Push {
  uvec2 running_mean, running_variance, mean, deviation, batches;
  uint channels;
  float momentum, unbiased;
} p;

// One workgroup, so that the number of batches is read before it is written.
void main() {
  uvec2 batches = uvec2(0);
  if (COUNTS != 0) {
    batches = BufferWords(p.batches).v[0];
    if (++batches.x == 0) ++batches.y;
    barrier();
    if (gl_LocalInvocationID.x == 0) BufferWords(p.batches).v[0] = batches;
  }
  float factor = COUNTS == 2 ? 1.0 / (float(batches.y) * 4294967296.0 + float(batches.x)) : p.momentum;
  for (uint c = gl_LocalInvocationID.x; c < p.channels; c += 256) {
    float mean = load_float(p.running_mean, c, MEAN_DTYPE);
    float variance = load_float(p.running_variance, c, VARIANCE_DTYPE);
    mean += (BufferF32(p.mean).v[c] - mean) * factor;
    float deviation = BufferF32(p.deviation).v[c];
    variance += (deviation * deviation * p.unbiased - variance) * factor;
    store_float(p.running_mean, c, MEAN_DTYPE, mean);
    store_float(p.running_variance, c, VARIANCE_DTYPE, variance);
  }
}
#endif
