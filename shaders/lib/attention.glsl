// What the attention kernels share: products of 64 x 64 tiles by a workgroup of 256, thread (ty, tx) owning rows 4 ty ... 4 ty + 3
// and columns 4 tx ... 4 tx + 3. PARTS (1, 2 or 4) is the number of 64 columns that cover the head size. Shared memory: 25.5 KiB
// whatever the head size, as operands pass through in chunks.
#ifndef ETNA_ATTENTION_GLSL
#define ETNA_ATTENTION_GLSL

#extension GL_EXT_control_flow_attributes : require
#include "math.glsl"
#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint WIDTH = 1;  // elements of a row of q, k, v that may be loaded at once
layout(constant_id = 2) const uint MASK_DTYPE = 99;
const uint NO_MASK = 99;

const uint TILE = 64, PITCH = 17;
const uint CHUNK = 16;                            // of the head size, in scores
const uint KEYS = PARTS == 4 ? 8 : 16;            // rows of the right operand at a time, in weighted sums
const uint LOADS = KEYS * PARTS * 16 / 256;

shared vec4 weights[TILE * PITCH];  // a tile of scores or of their gradients: row r, columns 4 c ... at r * PITCH + c
shared vec4 chunk[2 * CHUNK * PITCH];

// From the push constants' `shape`.
uint head_size, heads_per_group;
bool causal;
void unpack(uint shape) {
  heads_per_group = shape & 0xffffu;
  head_size = (shape >> 16) & 0x7fffu;
  causal = shape >> 31 != 0;
}

float minus_infinity() { return -uintBitsToFloat(0x7f800000u); }
uint ty() { return gl_LocalInvocationID.x >> 4; }
uint tx() { return gl_LocalInvocationID.x & 15u; }

// Rows of a matrix: `count` of them, `stride` elements apart from `base` on.
struct Rows {
  uvec2 address;
  uint base, stride, count;
};

vec4 load_row(Rows m, uint row, uint at) {
  return load_vector(m.address, m.base + row * m.stride + at, row < m.count && at < head_size ? head_size - at : 0, DTYPE, WIDTH);
}

// tile[r][c] += x[x0 + 4 ty + r] · y[y0 + 4 tx + c], over the head size.
void add_scores(inout vec4 tile[4], Rows x, uint x0, Rows y, uint y0) {
  uint v = gl_LocalInvocationID.x >> 1, row = v % TILE, at = (v / TILE * 2 + (gl_LocalInvocationID.x & 1u)) * 4;
  for (uint d = 0; d < head_size; d += CHUNK) {
    vec4 from_x = load_row(x, x0 + row, d + at), from_y = load_row(y, y0 + row, d + at);
    barrier();
    [[unroll]] for (uint c = 0; c < 4; ++c) {
      chunk[(at + c) * PITCH + row / 4][row % 4] = from_x[c];
      chunk[(CHUNK + at + c) * PITCH + row / 4][row % 4] = from_y[c];
    }
    barrier();
    [[dont_unroll]] for (uint k4 = 0; k4 < CHUNK; k4 += 4) {
      [[unroll]] for (uint k = k4; k < k4 + 4; ++k) {
        vec4 a = chunk[k * PITCH + ty()], b = chunk[(CHUNK + k) * PITCH + tx()];
        [[unroll]] for (uint r = 0; r < 4; ++r) tile[r] += a[r] * b;
      }
    }
  }
}

// Puts a tile into `weights`. The caller has seen to it that nobody reads the one before; add_weighted() waits for all.
void keep_tile(vec4 tile[4]) {
  [[unroll]] for (uint r = 0; r < 4; ++r) weights[(ty() * 4 + r) * PITCH + tx()] = tile[r];
}

// sums[n][r] += Σ_j weights[4 ty + r][j] · z[z0 + j], columns 64 n + 4 tx ... of z.
void add_weighted(inout vec4 sums[PARTS][4], Rows z, uint z0) {
  [[dont_unroll]] for (uint first = 0; first < TILE; first += KEYS) {
    vec4 next[LOADS];
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
      uint v = i * 256 + gl_LocalInvocationID.x;
      next[i] = load_row(z, z0 + first + v / (16 * PARTS), v % (16 * PARTS) * 4);
    }
    barrier();
    [[unroll]] for (uint i = 0; i < LOADS; ++i) chunk[i * 256 + gl_LocalInvocationID.x] = next[i];
    barrier();
    [[dont_unroll]] for (uint j = 0; j < KEYS; j += 4) {
      vec4 w[4];
      [[unroll]] for (uint r = 0; r < 4; ++r) w[r] = weights[(ty() * 4 + r) * PITCH + (first + j) / 4];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        [[unroll]] for (uint n = 0; n < PARTS; ++n) {
          vec4 value = chunk[(j + i) * 16 * PARTS + n * 16 + tx()];
          [[unroll]] for (uint r = 0; r < 4; ++r) sums[n][r] += w[r][i] * value;
        }
      }
    }
  }
}

void clear(out vec4 sums[PARTS][4]) {
  [[unroll]] for (uint n = 0; n < PARTS; ++n) {
    [[unroll]] for (uint r = 0; r < 4; ++r) sums[n][r] = vec4(0.0);
  }
}

// Writes rows row0 + 4 ty ... of a contiguous matrix that starts at `base`, 64 columns at a time by way of `weights`, so that
// neighbouring threads write neighbouring elements and the code that rounds is there once.
void store_rows(uvec2 address, uint base, uint row0, uint count, vec4 sums[PARTS][4]) {
  [[unroll]] for (uint n = 0; n < PARTS; ++n) {
    barrier();
    keep_tile(sums[n]);
    barrier();
    [[dont_unroll]] for (uint v = gl_LocalInvocationID.x; v < TILE * 16; v += 256) {
      uint row = row0 + v / 16, at = n * 64 + v % 16 * 4;
      if (row < count && at < head_size) {
        vec4 value = weights[v / 16 * PITCH + v % 16];
        if (head_size % 4 == 0) store_vector(address, base + row * head_size + at, 4, DTYPE, 4, value);
        else store_vector(address, base + row * head_size + at, head_size - at, DTYPE, 1, value);
      }
    }
  }
}

// The score as softmax sees it: scaled, -inf where query and key do not meet.
float masked(float product, float scale, uvec2 mask, uint mask_base, uvec2 mask_strides, uint query, uint key, uint queries, uint keys) {
  if (query >= queries || key >= keys || (causal && key > query)) return minus_infinity();
  float score = product * scale;
  if (MASK_DTYPE == NO_MASK) return score;
  float m = load_float(mask, mask_base + query * mask_strides.x + key * mask_strides.y, MASK_DTYPE);
  return MASK_DTYPE == BOOL ? (m != 0.0 ? score : minus_infinity()) : score + m;
}

#endif
