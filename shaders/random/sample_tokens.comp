#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Draws a token from a row of logits. One workgroup per row makes a few passes over the row, which stays in the cache,
// so it is latency-bound: each thread loads eight numbers before it looks at the first. No sort: a limit is found digit
// by digit from histograms (radix select), by count for top_k and by probability for top_p and typical_p. Probabilities
// are added as integers in units of 2^-31, so the order of additions does not matter.
//
// variant: sample_tokens

#include "dtype.glsl"
#include "math.glsl"
#include "philox.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint COUNTS = 0;
layout(constant_id = 2) const uint BIAS = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 logits, numbers, seeds, draws, counts, bias, values, tokens;
  uint size;
} p;

// As etna::SamplingNumber.
const uint TEMPERATURE = 0, TOP_K = 1, TOP_P = 2, MIN_P = 3, TYPICAL_P = 4, REPETITION = 5, PRESENCE = 6, FREQUENCY = 7;
const uint NUMBERS = 8;
const uint BY_COUNT = 0, BY_MASS = 1, BY_DISTANCE = 2;

shared float sums[256];
shared uint places[256];
shared uint histogram[256];
shared uint chosen, rest;

#define NONE uintBitsToFloat(0xff800000u)

// The conditions that a candidate must meet to stay.
struct Limits {
  uint key;        // least key of its logit
  float weight;    // least weight relative to the largest
  float distance;  // greatest distance from the entropy
  float most, temperature, total, entropy;
};

// Larger floats have larger keys.
uint key_of(float x) {
  uint bits = floatBitsToUint(x);
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

float value_of(uvec2 row, uint i) { return BufferF32(row).v[i]; }
float weight_of(float x, Limits l) { return exp((x - l.most) / l.temperature); }
float distance_of(float w, Limits l) { return abs(-log(w / l.total) - l.entropy); }
bool kept(float x, Limits l) {
  if (key_of(x) < l.key) return false;
  float w = weight_of(x, l);
  if (!(w > 0.0) || w < l.weight) return false;
  return l.distance < 0.0 || distance_of(w, l) <= l.distance;
}

const uint AT_ONCE = 8;
// Runs body for each number x of the row from `begin`, `step` apart and before `end`; the number is element i.
#define EACH(begin, end, step, body)                                                             \
  for (uint base = begin; base < (end); base += (step) * AT_ONCE) {                              \
    float loaded[AT_ONCE];                                                                       \
    [[unroll]] for (uint n = 0; n < AT_ONCE; ++n)                                                \
        loaded[n] = base + n * (step) < (end) ? value_of(row, base + n * (step)) : NONE;         \
    [[unroll]] for (uint n = 0; n < AT_ONCE; ++n) {                                              \
      uint i = base + n * (step);                                                                \
      float x = loaded[n];                                                                       \
      if (i < (end)) body                                                                        \
    }                                                                                            \
  }

float add_all(float x) {
  uint thread = gl_LocalInvocationID.x;
  sums[thread] = x;
  barrier();
  for (uint n = 128; n > 0; n /= 2) {
    if (thread < n) sums[thread] += sums[thread + n];
    barrier();
  }
  float sum = sums[0];
  barrier();
  return sum;
}

float total_of(uvec2 row, Limits l) {
  float sum = 0.0;
  EACH(gl_LocalInvocationID.x, p.size, 256, {
    if (kept(x, l)) sum += weight_of(x, l);
  })
  return add_all(sum);
}

// The key down to which the weights of candidates, largest keys first, add up to `target`.
uint select_key(uvec2 row, Limits l, uint mode, uint target) {
  uint thread = gl_LocalInvocationID.x, prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    histogram[thread] = 0;
    barrier();
    EACH(thread, p.size, 256, {
      if (!kept(x, l)) continue;
      float w = weight_of(x, l);
      uint key = mode == BY_DISTANCE ? ~floatBitsToUint(distance_of(w, l)) : key_of(x);
      if (shift < 24 && key >> uint(shift + 8) != prefix) continue;
      atomicAdd(histogram[key >> uint(shift) & 255u], mode == BY_COUNT ? 1u : uint(w / l.total * 2147483648.0));
    })
    barrier();
    if (thread == 0) {
      uint sum = 0, digit = 255;
      for (; digit > 0; --digit) {
        if (sum + histogram[digit] >= target) break;
        sum += histogram[digit];
      }
      chosen = digit;
      rest = target - min(target, sum);
    }
    barrier();
    prefix = prefix << 8 | chosen;
    target = rest;
    barrier();
  }
  return prefix;
}

void main() {
  uint thread = gl_LocalInvocationID.x, b = gl_WorkGroupID.x;
  uint first = b * p.size, numbers = b * NUMBERS;
#define NUMBER(i) BufferF32(p.numbers).v[numbers + (i)]
  // The row's own address, so that indices stay small.
  uint low, high, carry;
  umulExtended(first, 4, high, low);
  uvec2 row;
  row.x = uaddCarry(p.values.x, low, carry);
  row.y = p.values.y + high + carry;

  float most = NONE;
  uint at = 0xffffffffu;
  for (uint base = thread; base < p.size; base += 256 * AT_ONCE) {
    float loaded[AT_ONCE];
    int counts[AT_ONCE];
    [[unroll]] for (uint n = 0; n < AT_ONCE; ++n) {
      uint i = min(base + n * 256, p.size - 1);
      loaded[n] = load_float(p.logits, first + i, DTYPE);
      if (BIAS != 0) loaded[n] += BufferF32(p.bias).v[first + i];
      counts[n] = COUNTS != 0 ? BufferI32(p.counts).v[first + i] : 0;
    }
    [[unroll]] for (uint n = 0; n < AT_ONCE; ++n) {
      uint i = base + n * 256;
      float x = loaded[n];
      if (counts[n] != 0) {
        x = x > 0.0 ? x / NUMBER(REPETITION) : x * NUMBER(REPETITION);
        int drawn = counts[n] & 0x3fffffff;
        if (drawn != 0) x -= NUMBER(PRESENCE) + NUMBER(FREQUENCY) * float(drawn);
      }
      if (m_isnan(x)) x = NONE;
      if (i >= p.size) continue;
      BufferF32(row).v[i] = x;
      if (x > most) {
        most = x;
        at = i;
      }
    }
  }
  sums[thread] = most;
  places[thread] = at;
  barrier();
  for (uint n = 128; n > 0; n /= 2) {
    if (thread < n) {
      float other = sums[thread + n];
      if (other > sums[thread] || (other == sums[thread] && places[thread + n] < places[thread])) {
        sums[thread] = other;
        places[thread] = places[thread + n];
      }
    }
    barrier();
  }
  most = sums[0];
  uint token = most == NONE ? 0u : places[0];
  memoryBarrierBuffer();
  barrier();

  float temperature = NUMBER(TEMPERATURE);
  if (ETNA_UNIFORM(most != NONE && temperature > 0.0 && !m_isinf(most))) {
    Limits l = Limits(key_of(NONE) + 1, 0.0, -1.0, most, temperature, 1.0, 0.0);
    float k = NUMBER(TOP_K);
    if (ETNA_UNIFORM(k >= 1.0 && k < float(p.size))) l.key = select_key(row, l, BY_COUNT, uint(k));
    if (ETNA_UNIFORM(NUMBER(TOP_P) < 1.0)) {
      l.total = total_of(row, l);
      uint target = max(1u, uint(max(NUMBER(TOP_P), 0.0) * 2147483648.0));
      l.key = max(l.key, select_key(row, l, BY_MASS, target));
    }
    l.weight = NUMBER(MIN_P);
    if (ETNA_UNIFORM(NUMBER(TYPICAL_P) < 1.0)) {
      l.total = total_of(row, l);
      float entropy = 0.0;
      EACH(thread, p.size, 256, {
        if (!kept(x, l)) continue;
        float q = weight_of(x, l) / l.total;
        entropy -= q * log(q);
      })
      l.entropy = add_all(entropy);
      uint target = max(1u, uint(max(NUMBER(TYPICAL_P), 0.0) * 2147483648.0));
      l.distance = uintBitsToFloat(~select_key(row, l, BY_DISTANCE, target));
    }
    // Each thread has a run of neighbours.
    uint run = (p.size + 255) / 256, begin = min(thread * run, p.size), end = min(begin + run, p.size);
    float own = 0.0;
    EACH(begin, end, 1, {
      if (kept(x, l)) own += weight_of(x, l);
    })
    sums[thread] = own;
    barrier();
    float before = 0.0, total = 0.0;
    for (uint i = 0; i < 256; ++i) {
      if (i == thread) before = total;
      total += sums[i];
    }
    uvec2 seed = uvec2(BufferI32(p.seeds).v[2 * b], BufferI32(p.seeds).v[2 * b + 1]);
    uint word = philox(uvec4(0, 0, BufferI32(p.draws).v[b], 0), seed).x;
    float aim = fraction(word | 1u) * total;
    places[thread] = 0xffffffffu;
    if (own > 0.0 && aim >= before && aim < before + own) {
      float sum = before;
      bool passed = false;
      EACH(begin, end, 1, {
        if (passed || !kept(x, l)) continue;
        sum += weight_of(x, l);
        places[thread] = i;
        passed = aim < sum;
      })
    }
    barrier();
    // Rounding may leave the target between two threads: then the most probable token stays.
    for (uint i = 0; i < 256; ++i) {
      if (places[i] != 0xffffffffu) {
        token = places[i];
        break;
      }
    }
  }
  if (thread == 0) {
    BufferI32(p.tokens).v[b] = int(token);
    if (COUNTS != 0) BufferI32(p.counts).v[first + token] += 1;
  }
}
