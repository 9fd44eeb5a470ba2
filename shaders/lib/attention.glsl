// What the attention kernels share: products of 64 x 64 tiles by a workgroup of 256, thread (ty, tx) owning rows 4 ty ... 4 ty + 3
// and columns 4 tx ... 4 tx + 3. PARTS (1, 2 or 4) is the number of 64 columns that cover the head size. Shared memory: 25 KiB
// whatever the head size, as operands pass through in chunks, each loaded into registers while the one before is worked on: for
// short sequences the time goes into waiting for loads.
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
const uint DEPTH = 32;          // of the head size, in scores, at a time
const uint KEYS = 32 / PARTS;   // rows of the right operand at a time, in weighted sums
const uint LOADS = 2;           // vectors of an operand's chunk a thread

// A tile of scores or of their gradients: row r, columns 4 c ... at r * PITCH + c. While scores are made, their operands.
shared vec4 weights[TILE * PITCH];
shared vec4 chunk[KEYS * PARTS * 16];

// From the push constants' `shape`.
uint head_size, heads_per_group;
bool causal, packed;
void unpack(uint shape) {
  heads_per_group = shape & 0xffffu;
  head_size = (shape >> 16) & 0x3fffu;
  packed = (shape >> 30 & 1u) != 0;
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

// One head of a tensor without gaps: [B, H, T, D], or [B, T, H, D] where it is part of a packed one of `width` heads in all.
Rows head_rows(uvec2 address, uint b, uint head, uint heads, uint count, bool in_packed, uint width) {
  return in_packed ? Rows(address, (b * count * width + head) * head_size, width * head_size, count)
                   : Rows(address, (b * heads + head) * count * head_size, head_size, count);
}

vec4 load_row(Rows m, uint row, uint at) {
  return load_vector(m.address, m.base + row * m.stride + at, row < m.count && at < head_size ? head_size - at : 0, DTYPE, WIDTH);
}

// Where in a chunk of DEPTH columns a thread's i-th vector lies: neighbouring threads load 32 bytes of a row and store to 32 banks.
uvec2 place(uint i) {
  uint v = i * 256 + gl_LocalInvocationID.x, pair = v >> 1;
  return uvec2(pair % TILE, (pair / TILE * 2 + (v & 1u)) * 4);  // row, column
}

void load_columns(out vec4 values[LOADS], Rows m, uint row0, uint at) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) values[i] = load_row(m, row0 + place(i).x, at + place(i).y);
}

// tile[r][c] += x[x0 + 4 ty + r] · y[y0 + 4 tx + c], over the head size. Takes `weights`, and leaves it free.
void add_scores(inout vec4 tile[4], Rows x, uint x0, Rows y, uint y0) {
  vec4 from_x[LOADS], from_y[LOADS];
  load_columns(from_x, x, x0, 0);
  load_columns(from_y, y, y0, 0);
  for (uint d = 0; d < head_size; d += DEPTH) {
    barrier();
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
      uint row = place(i).x, at = place(i).y;
      [[unroll]] for (uint c = 0; c < 4; ++c) {
        weights[(at + c) * PITCH + row / 4][row % 4] = from_x[i][c];
        weights[(DEPTH + at + c) * PITCH + row / 4][row % 4] = from_y[i][c];
      }
    }
    barrier();
    if (d + DEPTH < head_size) {
      load_columns(from_x, x, x0, d + DEPTH);
      load_columns(from_y, y, y0, d + DEPTH);
    }
    uint depth = min(DEPTH, head_size - d);
    [[dont_unroll]] for (uint k4 = 0; k4 < depth; k4 += 4) {
      [[unroll]] for (uint k = k4; k < k4 + 4; ++k) {
        vec4 a = weights[k * PITCH + ty()], b = weights[(DEPTH + k) * PITCH + tx()];
        [[unroll]] for (uint r = 0; r < 4; ++r) tile[r] += a[r] * b;
      }
    }
  }
  barrier();
}

// Puts a tile into `weights`. The caller has seen to it that nobody reads the one before; add_weighted() waits for all.
void keep_tile(vec4 tile[4]) {
  [[unroll]] for (uint r = 0; r < 4; ++r) weights[(ty() * 4 + r) * PITCH + tx()] = tile[r];
}

// A thread's part of the KEYS rows of z from `first` on.
void load_keys(out vec4 next[LOADS], Rows z, uint first) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {
    uint v = i * 256 + gl_LocalInvocationID.x;
    next[i] = load_row(z, first + v / (16 * PARTS), v % (16 * PARTS) * 4);
  }
}

// sums[n][r] += Σ_j weights[4 ty + r][j] · z[z0 + j], columns 64 n + 4 tx ... of z. `next` holds load_keys(z, z0), for which the
// caller found an early moment.
void add_weighted(inout vec4 sums[PARTS][4], vec4 next[LOADS], Rows z, uint z0) {
  [[dont_unroll]] for (uint first = 0; first < TILE; first += KEYS) {
    barrier();
    [[unroll]] for (uint i = 0; i < LOADS; ++i) chunk[i * 256 + gl_LocalInvocationID.x] = next[i];
    barrier();
    if (first + KEYS < TILE) load_keys(next, z, z0 + first + KEYS);
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

// Writes rows row0 + 4 ty ... of a matrix, 64 columns at a time by way of `weights`, so that neighbouring threads write
// neighbouring elements and the code that rounds is there once.
void store_rows(Rows m, uint row0, vec4 sums[PARTS][4]) {
  [[unroll]] for (uint n = 0; n < PARTS; ++n) {
    barrier();
    keep_tile(sums[n]);
    barrier();
    [[dont_unroll]] for (uint v = gl_LocalInvocationID.x; v < TILE * 16; v += 256) {
      uint row = row0 + v / 16, at = n * 64 + v % 16 * 4;
      if (row < m.count && at < head_size) {
        vec4 value = weights[v / 16 * PITCH + v % 16];
        if (head_size % 4 == 0) store_vector(m.address, m.base + row * m.stride + at, 4, DTYPE, 4, value);
        else store_vector(m.address, m.base + row * m.stride + at, head_size - at, DTYPE, 1, value);
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
