#version 460
#extension GL_GOOGLE_include_directive : require
// Factorizations and solvers of a batch of small matrices, n <= 64. A workgroup holds a matrix and as many right-hand
// sides as fit into 30 KiB of shared memory; further right-hand sides take further workgroups, which factorize the
// matrix again. Bound by the latency of n dependent steps, so it suits batches. A single thread searches each pivot:
// the first of the largest, on every device.
//
// COFACTOR computes the cofactors of any matrix, singular ones too, without dividing by the last pivot d: with pivots
// searched in rows and columns, P A Q = L U and U = [U₁ u; 0 d],
//   adj A = ± det U₁ · Q [U₁⁻¹ (d Y₁ - u y); y]   where [Y₁; y] = L⁻¹ P
// and it is 0 where U₁ is singular.
//
// variant: small_matrix

#include "dtype.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint MODE = 0;
layout(constant_id = 1) const uint UPPER = 0;
layout(constant_id = 2) const uint UNIT = 0;  // 1: the diagonal counts as ones

const uint LU = 0, SOLVE = 1, DET = 2, SLOGDET = 3, TRIANGULAR = 4, CHOLESKY = 5, COFACTOR = 6;

layout(push_constant, scalar) uniform Push {
  uvec2 a, b;  // b may be null: the identity
  uvec2 y, second, third;
  uint groups, n, columns, tile, tiles;
} p;

shared float s[7680];  // rows of the matrix, each followed by its right-hand sides
shared uint pivot;
shared uint order[64], swapped[64], order_of_columns[64], row_best[64];
shared float parity;

uint me = gl_LocalInvocationID.x;
uint width;

float diagonal(uint k) { return s[k * width + k]; }

// Moves the largest element of rows and columns from k on to the diagonal's column.
void swap_columns(uint k) {
  for (uint i = k + me; i < p.n; i += 256) {
    uint best = k;
    for (uint j = k + 1; j < p.n; ++j) {
      if (abs(s[i * width + j]) > abs(s[i * width + best])) best = j;
    }
    row_best[i] = best;
  }
  barrier();
  if (me == 0) {
    uint from = k;
    for (uint i = k + 1; i < p.n; ++i) {
      if (abs(s[i * width + row_best[i]]) > abs(s[from * width + row_best[from]])) from = i;
    }
    pivot = row_best[from];
    if (pivot != k) {
      parity = -parity;
      uint column = order_of_columns[k];
      order_of_columns[k] = order_of_columns[pivot];
      order_of_columns[pivot] = column;
    }
  }
  barrier();
  uint best = pivot;
  for (uint i = me; i < p.n && best != k; i += 256) {
    float kept = s[i * width + k];
    s[i * width + k] = s[i * width + best];
    s[i * width + best] = kept;
  }
  barrier();
}

// P A = L U in place, and L⁻¹ P B.
void factorize() {
  if (me == 0) parity = 1.0;
  for (uint i = me; i < p.n; i += 256) order[i] = order_of_columns[i] = i;
  barrier();
  for (uint k = 0; k < p.n; ++k) {
    if (MODE == COFACTOR) swap_columns(k);
    if (me == 0) {
      uint best = k;
      float most = abs(diagonal(k));
      for (uint i = k + 1; i < p.n; ++i) {
        float size = abs(s[i * width + k]);
        if (size > most) most = size, best = i;
      }
      pivot = best;
      swapped[k] = best;
      if (best != k) {
        parity = -parity;
        uint row = order[k];
        order[k] = order[best];
        order[best] = row;
      }
    }
    barrier();
    uint best = pivot;
    if (best != k) {
      for (uint j = me; j < width; j += 256) {
        float kept = s[k * width + j];
        s[k * width + j] = s[best * width + j];
        s[best * width + j] = kept;
      }
    }
    barrier();
    float d = diagonal(k);
    // A column of zeros remains zero: the matrix is singular, and so is U.
    for (uint i = k + 1 + me; i < p.n; i += 256) s[i * width + k] = d == 0.0 ? 0.0 : s[i * width + k] / d;
    barrier();
    uint across = width - k - 1, count = (p.n - k - 1) * across;
    for (uint at = me; at < count; at += 256) {
      uint i = k + 1 + at / across, j = k + 1 + at % across;
      s[i * width + j] -= s[i * width + k] * s[k * width + j];
    }
    barrier();
  }
}

// Solves with the upper or the lower triangle of n rows, in place of the right-hand sides.
void substitute(uint n, bool upper, bool unit) {
  uint count = width - p.n;
  for (uint step = 0; step < n; ++step) {
    uint k = upper ? n - 1 - step : step, rows = n - 1 - step, begin = upper ? 0 : k + 1;
    if (!unit) {
      float d = diagonal(k);
      for (uint j = me; j < count; j += 256) s[k * width + p.n + j] /= d;
    }
    barrier();
    for (uint at = me; at < rows * count; at += 256) {
      uint i = begin + at / count, j = p.n + at % count;
      s[i * width + j] -= s[i * width + k] * s[k * width + j];
    }
    barrier();
  }
}

// From the factors and L⁻¹ P B: [U₁⁻¹ (d Y₁ - u y); y], in the order of the columns of U. If U₁ is singular, the rest
// does not matter; all threads continue, since WGSL requires uniform barriers. @return its factor; 0 if U₁ is singular
float adjugate() {
  uint last = p.n - 1, count = width - p.n;
  float d = diagonal(last), factor = parity;
  for (uint k = 0; k < last; ++k) factor *= diagonal(k);
  barrier();
  for (uint at = me; at < last * count; at += 256) {
    uint i = at / count, j = p.n + at % count;
    s[i * width + j] = d * s[i * width + j] - s[i * width + last] * s[last * width + j];
  }
  barrier();
  substitute(last, true, false);
  return factor;
}

void cholesky() {
  for (uint k = 0; k < p.n; ++k) {
    float d = sqrt(diagonal(k));
    barrier();
    for (uint i = k + me; i < p.n; i += 256) s[i * width + k] = i == k ? d : s[i * width + k] / d;
    barrier();
    uint left = p.n - k - 1;
    for (uint at = me; at < left * left; at += 256) {
      uint i = k + 1 + at / left, j = k + 1 + at % left;
      if (j <= i) s[i * width + j] -= s[i * width + k] * s[j * width + k];
    }
    barrier();
  }
}

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (group >= p.groups) return;
  uint which = group / p.tiles, first = group % p.tiles * p.tile;
  uint count = p.columns == 0 ? 0 : min(p.tile, p.columns - first);
  width = p.n + count;
  uint square = p.n * p.n;
  for (uint at = me; at < square; at += 256) {
    s[at / p.n * width + at % p.n] = BufferF32(p.a).v[which * square + at];
  }
  bool identity = (p.b.x | p.b.y) == 0;
  for (uint at = me; at < p.n * count; at += 256) {
    uint i = at / count, j = at % count;
    float value = identity ? (i == first + j ? 1.0 : 0.0) : BufferF32(p.b).v[(which * p.n + i) * p.columns + first + j];
    s[i * width + p.n + j] = value;
  }
  barrier();
  if (MODE == CHOLESKY) {
    cholesky();
    for (uint at = me; at < square; at += 256) {
      uint i = at / p.n, j = at % p.n;
      BufferF32(p.y).v[which * square + at] = j <= i ? s[i * width + j] : 0.0;
    }
    return;
  }
  if (MODE == TRIANGULAR) {
    substitute(p.n, UPPER != 0, UNIT != 0);
  } else {
    factorize();
    if (MODE == SOLVE) substitute(p.n, true, false);
  }
  if (MODE == SOLVE || MODE == TRIANGULAR) {
    for (uint at = me; at < p.n * count; at += 256) {
      uint i = at / count, j = at % count;
      BufferF32(p.y).v[(which * p.n + i) * p.columns + first + j] = s[i * width + p.n + j];
    }
  } else if (MODE == COFACTOR) {
    float factor = adjugate();
    for (uint at = me; at < p.n * count; at += 256) {
      uint k = at / count, j = at % count;
      float value = factor == 0.0 ? 0.0 : s[k * width + p.n + j] * factor;
      BufferF32(p.y).v[(which * p.n + first + j) * p.n + order_of_columns[k]] = value;
    }
  } else if (MODE == LU) {
    for (uint at = me; at < square; at += 256) {
      BufferF32(p.y).v[which * square + at] = s[at / p.n * width + at % p.n];
    }
    for (uint i = me; i < p.n; i += 256) {
      BufferI32(p.second).v[which * p.n + i] = int(swapped[i] + 1);
      BufferWords(p.third).v[which * p.n + i] = uvec2(order[i], 0);
    }
  } else if (me == 0) {
    float product = parity, logarithm = 0.0;
    for (uint k = 0; k < p.n; ++k) {
      float d = diagonal(k);
      if (MODE == DET) product *= d;
      else {
        product = d == 0.0 ? 0.0 : d < 0.0 ? -product : product;
        // GLSL does not define log(0).
        logarithm += d == 0.0 ? uintBitsToFloat(0xff800000u) : log(abs(d));
      }
    }
    BufferF32(p.y).v[which] = product;
    if (MODE == SLOGDET) BufferF32(p.second).v[which] = logarithm;
  }
}
