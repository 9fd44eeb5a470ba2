#version 460
#extension GL_GOOGLE_include_directive : require
// Complex Fourier transforms of up to 2048 elements. A workgroup holds as many whole lines as fit into 2048 elements of
// shared memory, so it reads and writes each element once. Powers of two take Stockham's radix-2 steps, which need no
// bit reversal: results of a step stay in registers between two barriers. Other sizes sum n terms per element, with the
// n roots of unity in shared memory.
//
// A longer line of n1 · n2 elements takes two dispatches (Bailey 1990): transforms of n1 elements with stride n2, times
// roots of unity of the whole line; then transforms of n2 elements, whose results have stride n1.
//
// variant: fft

#include "dtype.glsl"
#include "math.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint X_DTYPE = 1;
layout(constant_id = 1) const uint Y_DTYPE = 1;
layout(constant_id = 2) const uint DIRECT = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 x, y;
  uint lines, n, inner;  // a line's elements are `inner` complex numbers apart
  uint each;             // lines per workgroup
  uint whole, columns;   // first of two dispatches: n1 · n2, and the number of lines with the same index of n2;
                         // otherwise 0
  uint apart;            // second of two dispatches: n1; otherwise 1
  float sign, scale;     // of the exponent; of the result
} p;

const uint MOST = 2048;
const float PI = 3.14159265358979;

shared vec2 s[MOST];
shared vec2 roots[DIRECT != 0 ? MOST : 1];

vec2 multiply(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
vec2 unit(float angle) { return vec2(m_cos(angle), m_sin(angle)); }

// Element i of a line, as an index of complex numbers.
uint place(uint line, uint i) { return (line / p.inner * p.n + i) * p.inner + line % p.inner; }
// exp(±2πi k / n). The angle is reduced to the nearer half turn, so that it keeps its bits.
vec2 root(uint k, uint n) {
  int turn = k * 2 > n ? int(k) - int(n) : int(k);
  return unit(p.sign * 2.0 * PI * float(turn) / float(n));
}
void put(uint line, uint i, vec2 value) {
  if (p.whole != 0) value = multiply(value, root(i * (line % p.inner / p.columns), p.whole));
  uint at = place(line, i);
  if (p.apart > 1) {
    uint row = line / p.inner;
    at = ((row / p.apart * p.n + i) * p.apart + row % p.apart) * p.inner + line % p.inner;
  }
  store_float(p.y, at * 2, Y_DTYPE, value.x * p.scale);
  store_float(p.y, at * 2 + 1, Y_DTYPE, value.y * p.scale);
}

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, me = gl_LocalInvocationID.x;
  uint first = group * p.each;
  if (first >= p.lines) return;
  uint count = min(p.each, p.lines - first), all = count * p.n;
  // Neighbouring threads take neighbours in memory: elements of a line, or lines.
  bool across = p.inner > 1;
  for (uint at = me; at < all; at += 256) {
    uint line = across ? at % count : at / p.n, i = across ? at / count : at % p.n;
    uint from = place(first + line, i) * 2;
    s[line * p.n + i] = vec2(load_float(p.x, from, X_DTYPE), load_float(p.x, from + 1, X_DTYPE));
  }
  if (DIRECT != 0) {
    for (uint i = me; i < p.n; i += 256) roots[i] = root(i, p.n);
    barrier();
    for (uint at = me; at < all; at += 256) {
      uint line = across ? at % count : at / p.n, i = across ? at / count : at % p.n;
      vec2 total = vec2(0.0);
      uint turn = 0;
      for (uint k = 0; k < p.n; ++k) {
        total += multiply(s[line * p.n + k], roots[turn]);
        turn += i;
        if (turn >= p.n) turn -= p.n;
      }
      put(first + line, i, total);
    }
    return;
  }
  barrier();
  uint half_n = p.n / 2, pairs = count * half_n;
  for (uint size = 1; size < p.n; size *= 2) {
    vec2 a[4], b[4];
    for (uint c = 0; c < 4; ++c) {
      uint q = c * 256 + me;
      if (q >= pairs) break;
      uint line = q / half_n, j = q % half_n, k = j & (size - 1);
      a[c] = s[line * p.n + j];
      b[c] = multiply(s[line * p.n + j + half_n], unit(p.sign * PI * float(k) / float(size)));
    }
    barrier();
    for (uint c = 0; c < 4; ++c) {
      uint q = c * 256 + me;
      if (q >= pairs) break;
      uint line = q / half_n, j = q % half_n, k = j & (size - 1), to = line * p.n + (j - k) * 2 + k;
      s[to] = a[c] + b[c];
      s[to + size] = a[c] - b[c];
    }
    barrier();
  }
  for (uint at = me; at < all; at += 256) {
    uint line = across ? at % count : at / p.n, i = across ? at / count : at % p.n;
    put(first + line, i, s[line * p.n + i]);
  }
}
