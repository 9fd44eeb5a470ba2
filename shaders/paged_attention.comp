#version 460
#extension GL_GOOGLE_include_directive : require
// Attention of a few new queries over a paged cache. Bytes-bound: keys and values are read once, for all heads of
// queries that share them; but a short sequence is bound by its latency, so there are few barriers and no second
// dispatch. A workgroup owns a head of keys and `span` positions, in tiles of CHUNK: the scores of a tile go to shared
// memory, and sums are rescaled where a later tile has a larger one. Parts of long sequences are merged by
// paged_attention_merge; those past the sequence's end leave at once.
//
// variant: paged_attention

#extension GL_EXT_control_flow_attributes : require
#include "math.glsl"
#include "paged.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint CACHE_DTYPE = 1;
layout(constant_id = 2) const uint SIZE = 64;    // elements of a head, a multiple of 4
layout(constant_id = 3) const uint HEADS = 1;    // of queries, for one of keys; at most 16
layout(constant_id = 4) const uint Q_WIDTH = 4;  // of vector loads of queries
layout(constant_id = 5) const uint WIDTH = 4;    // of keys and values
layout(constant_id = 6) const uint WHOLE = 1;    // one chunk holds all: the result is written, not a part of it

layout(push_constant, scalar) uniform Push {
  uvec2 q, keys, values, table, positions, y, parts;
  uint steps, groups, width, blocks, chunks, window, span;  // span: positions of a workgroup
  float scale, softcap;
} p;

const uint CHUNK = 128;               // positions of a tile, a multiple of CACHE_BLOCK
const uint SIDES = 256 / CHUNK;       // threads of a key, which share the heads
const uint OWN = (HEADS + SIDES - 1) / SIDES;
const uint COLUMNS = (SIZE + 3) / 4;  // a thread sums four columns of the values
const uint LANES = 256 / COLUMNS;     // keys at a time
// Heads whose sums meet in shared memory at once, which has to do with 32 KiB.
const uint TOGETHER = HEADS * SIZE <= 512 ? 4 : HEADS * SIZE <= 1024 ? 2 : 1;

shared vec4 query[HEADS * COLUMNS];
shared float weight[HEADS * CHUNK];
shared vec4 partial[256 * TOGETHER];
shared float partial_total[LANES * TOGETHER];
shared int blocks[CHUNK / CACHE_BLOCK];
shared float largest[HEADS];  // of the scores so far
shared float factor[HEADS];   // of the sums so far, since the largest has grown

const float NONE = uintBitsToFloat(0xff800000u);

void main() {
  uint thread = gl_LocalInvocationID.x, chunk = gl_WorkGroupID.x, group = gl_WorkGroupID.y, row = gl_WorkGroupID.z;
  uint batch = row / p.steps;
  int position = BufferI32(p.positions).v[batch] + int(row % p.steps);
  uint first = chunk * p.span, row_bytes = cache_row_bytes(SIZE, CACHE_DTYPE);
  uint end = position < 0 ? 0 : min(uint(position) + 1, p.width * CACHE_BLOCK);
  uint begin = p.window > 0 && end > 0 && uint(position) + 1 > p.window ? uint(position) + 1 - p.window : 0;
  uint head = row * p.groups * HEADS + group * HEADS;
  uint part = (head * p.chunks + chunk * HEADS) * (SIZE + 2);
  if (first >= end || first + p.span <= begin) {
    if (WHOLE != 0) {
      for (uint i = thread; i < HEADS * SIZE; i += 256) store_float(p.y, head * SIZE + i, DTYPE, 0.0);
    }
    return;
  }
  for (uint i = thread; i < HEADS * COLUMNS; i += 256)
    query[i] = load_vector(p.q, head * SIZE + i * 4, 4, DTYPE, Q_WIDTH) * p.scale;
  if (thread < HEADS) largest[thread] = NONE;
  uint column = thread % COLUMNS, lane = thread / COLUMNS, key = thread % CHUNK, side = thread / CHUNK;
  vec4 sum[HEADS];
  float total[HEADS];
  [[unroll]] for (uint h = 0; h < HEADS; ++h) sum[h] = vec4(0.0), total[h] = 0.0;

  uint last = min(end, first + p.span);
  for (uint tile = max(first, begin / CHUNK * CHUNK); tile < last; tile += CHUNK) {
    if (thread < CHUNK / CACHE_BLOCK) {
      uint at = tile / CACHE_BLOCK + thread;
      int block = at < p.width ? BufferI32(p.table).v[batch * p.width + at] : -1;
      blocks[thread] = block >= 0 && uint(block) < p.blocks ? block : -1;
    }
    barrier();

    // Scores: of each key, two threads with every other head.
    bool seen = tile + key >= begin && tile + key < end && blocks[key / CACHE_BLOCK] >= 0;
    float score[OWN];
    [[unroll]] for (uint o = 0; o < OWN; ++o) score[o] = 0.0;
    if (seen) {
      uvec2 at = block_address(p.keys, uint(blocks[key / CACHE_BLOCK]), p.groups, group, row_bytes);
      [[unroll]] for (uint i = 0; i < COLUMNS; ++i) {
        vec4 x = load_cached(at, key % CACHE_BLOCK, SIZE, i * 4, CACHE_DTYPE, WIDTH);
        [[unroll]] for (uint o = 0; o < OWN; ++o)
          score[o] += dot(x, query[min(o * SIDES + side, HEADS - 1) * COLUMNS + i]);
      }
    }
    [[unroll]] for (uint o = 0; o < OWN; ++o) {
      uint h = o * SIDES + side;
      float s = p.softcap > 0.0 ? p.softcap * m_tanh(score[o] / p.softcap) : score[o];
      if (h < HEADS) weight[h * CHUNK + key] = seen ? s : NONE;
    }
    barrier();

    // Exponentials. Each thread reads all scores of its heads, which takes less than to meet with other threads.
    float before[OWN], most[OWN];
    [[unroll]] for (uint o = 0; o < OWN; ++o) {
      uint h = min(o * SIDES + side, HEADS - 1);
      before[o] = most[o] = largest[h];
      for (uint i = 0; i < CHUNK; ++i) most[o] = m_max(most[o], weight[h * CHUNK + i]);
    }
    barrier();
    [[unroll]] for (uint o = 0; o < OWN; ++o) {
      uint h = o * SIDES + side;
      if (h >= HEADS) continue;
      weight[h * CHUNK + key] = most[o] == NONE ? 0.0 : exp(weight[h * CHUNK + key] - most[o]);
      if (key != 0) continue;
      largest[h] = most[o];
      factor[h] = before[o] == NONE ? 0.0 : exp(before[o] - most[o]);
    }
    barrier();

    // Values: a thread sums four columns over every LANES-th key.
    [[unroll]] for (uint h = 0; h < HEADS; ++h) sum[h] *= factor[h], total[h] *= factor[h];
    if (lane < LANES) {
      for (uint k = lane; k < CHUNK; k += LANES) {
        int block = blocks[k / CACHE_BLOCK];
        if (tile + k < begin || tile + k >= end || block < 0) continue;
        uvec2 at = block_address(p.values, uint(block), p.groups, group, row_bytes);
        vec4 x = load_cached(at, k % CACHE_BLOCK, SIZE, column * 4, CACHE_DTYPE, WIDTH);
        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
          sum[h] += weight[h * CHUNK + k] * x;
          total[h] += weight[h * CHUNK + k];
        }
      }
    }
    barrier();
  }
  if (WHOLE == 0 && thread < HEADS) BufferF32(p.parts).v[part + thread * (SIZE + 2) + SIZE] = largest[thread];
  [[unroll]] for (uint h = 0; h < HEADS; h += TOGETHER) {
    [[unroll]] for (uint j = 0; j < TOGETHER; ++j) {
      if (h + j >= HEADS) continue;
      partial[j * 256 + thread] = sum[min(h + j, HEADS - 1)];
      if (column == 0 && lane < LANES) partial_total[j * LANES + lane] = total[min(h + j, HEADS - 1)];
    }
    barrier();
    for (uint t = thread; t < TOGETHER * COLUMNS; t += 256) {
      uint j = t / COLUMNS, c = t % COLUMNS;
      if (h + j >= HEADS) continue;
      vec4 y = partial[j * 256 + c];
      float all = partial_total[j * LANES];
      for (uint l = 1; l < LANES; ++l) {
        y += partial[j * 256 + l * COLUMNS + c];
        all += partial_total[j * LANES + l];
      }
      for (uint i = 0; i < 4; ++i) {
        if (WHOLE != 0)
          store_float(p.y, (head + h + j) * SIZE + c * 4 + i, DTYPE, all > 0.0 || m_isnan(all) ? y[i] / all : 0.0);
        else
          BufferF32(p.parts).v[part + (h + j) * (SIZE + 2) + c * 4 + i] = y[i];
      }
      if (WHOLE == 0 && c == 0) BufferF32(p.parts).v[part + (h + j) * (SIZE + 2) + SIZE + 1] = all;
    }
    barrier();
  }
}
