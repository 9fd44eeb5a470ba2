#version 460
#extension GL_GOOGLE_include_directive : require
// Attention of a few new queries over a paged cache. Bytes-bound: keys and values are read once for all heads of
// queries that share them. A short sequence is bound by latency instead, so there are few barriers and no second
// dispatch. A workgroup owns the queries of one head of keys (or, if there are too few to fill the device, SPLIT
// workgroups share them) and `span` positions, in tiles of CHUNK. The scores of a tile go to shared memory; sums are
// rescaled when a later tile has a larger score. paged_attention_merge combines the chunks of long sequences;
// workgroups past the sequence's end return at once.
//
// With ROTATED, a sequence has one new row, not yet rotated: each workgroup rotates its own queries, and the workgroup
// with the newest position writes that key and value to the cache. With EMITS, the result is also quantized to bytes
// for the gemm that follows.
//
// variant: paged_attention
// variant: paged_attention_rotated ROTATED

#extension GL_EXT_control_flow_attributes : require
#include "math.glsl"
#include "paged.glsl"
#include "rounding.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint CACHE_DTYPE = 1;
layout(constant_id = 2) const uint SIZE = 64;    // elements of a head, a multiple of 4
layout(constant_id = 3) const uint HEADS = 1;    // heads of queries per workgroup; at most 16
layout(constant_id = 4) const uint Q_WIDTH = 4;  // of vector loads of queries
layout(constant_id = 5) const uint WIDTH = 4;    // of vector loads of keys and values
layout(constant_id = 6) const uint WHOLE = 1;    // one chunk holds all positions: the result is written, not a partial
                                                 // one
layout(constant_id = 7) const uint SPLIT = 1;    // workgroups that share a head of keys
layout(constant_id = 8) const uint Y_DTYPE = 1;
#ifdef ROTATED
layout(constant_id = 9) const uint INTERLEAVED = 0;
layout(constant_id = 10) const uint NORMED = 0;  // dtype of the norms' weights + 1; 0: no norms
layout(constant_id = 11) const uint EMITS = 0;  // writes quantized results to p.partial, which a whole chunk does not
                                                // need
#endif

layout(push_constant, scalar) uniform Push {
  uvec2 q, keys, values, table, positions, y, partial;
#ifdef ROTATED
  uvec2 frequencies, query_norm, key_norm;
#endif
  uint steps, groups, width, blocks, chunks, limit, span;  // limit: as in oldest_of(); span: positions per workgroup
  float scale, softcap;
#ifdef ROTATED
  uint pairs;
  float eps, magnitude;
#endif
} p;

const uint CHUNK = 128;               // positions of a tile, a multiple of CACHE_BLOCK
const uint SHARE = 8;                 // neighbouring threads that multiply one key, so that together they load its row
const uint KEYS = CHUNK * SHARE / 256;  // keys of a tile that a thread multiplies
const uint SIDES = 256 / CHUNK;       // threads per key's scores, which share the heads
const uint OWN = (HEADS + SIDES - 1) / SIDES;
const uint COLUMNS = (SIZE + 3) / 4;  // a thread sums four columns of the values
const uint KEYS_AT_ONCE = 256 / COLUMNS;     // keys read at a time
const uint VALUES = (CHUNK + KEYS_AT_ONCE - 1) / KEYS_AT_ONCE;  // values of a tile that a thread reads
// If there are enough registers, values are loaded while the scores are computed.
const bool EARLY = VALUES * 4 + HEADS * 5 <= 112;
// Heads whose sums are reduced in shared memory at once, so that 32 KiB suffice.
const uint TOGETHER = HEADS * SIZE <= 512 ? 4 : HEADS * SIZE <= 1024 ? 2 : 1;

#ifdef ROTATED
const uint NEW_KEY = HEADS * COLUMNS, NEW_VALUE = NEW_KEY + COLUMNS;
shared vec4 query[NEW_VALUE + COLUMNS];
shared float squares[256];
#else
shared vec4 query[HEADS * COLUMNS];
#endif
shared vec4 weight[HEADS * CHUNK / 4];
shared vec4 partial[256 * TOGETHER];
shared float partial_total[KEYS_AT_ONCE * TOGETHER];
shared int blocks[CHUNK / CACHE_BLOCK];
shared vec4 segments[HEADS * 4];  // the largest scores of 16 segments of a tile
shared float largest[HEADS];  // maximum of the scores so far
shared float factor[HEADS];   // factor of the sums so far after the maximum has grown

#define NONE uintBitsToFloat(0xff800000u)

#ifdef ROTATED
// Loads this workgroup's queries and the new key and value, before norm and rotation.
void load_projected(uint row, uint group, uint split) {
  uint begin = row * p.groups * (HEADS * SPLIT + 2), key = begin + p.groups * HEADS * SPLIT + group;
  uint value = key + p.groups, own = begin + (group * SPLIT + split) * HEADS;
  for (uint i = gl_LocalInvocationID.x; i < NEW_VALUE + COLUMNS; i += 256) {
    uint head = i < NEW_KEY ? own : i < NEW_VALUE ? key : value;
    uint at = i < NEW_KEY ? i : i < NEW_VALUE ? i - NEW_KEY : i - NEW_VALUE;
    query[i] = load_vector(p.q, head * SIZE + at * 4, 4, DTYPE, Q_WIDTH);
  }
}

float as_cached(float x) {
  if (CACHE_DTYPE == F16) return half_to_float(float_to_half(x));
  return CACHE_DTYPE == BF16 ? bfloat16_to_float(float_to_bfloat16(x)) : x;
}

float load_frequency(uint pair) { return pair < p.pairs ? BufferF32(p.frequencies).v[pair] : 0.0; }

// Normalizes and rotates them, and rounds the key and the value to the cache's dtype. The caller must call barrier()
// afterwards.
// @param frequency of the first pair that this thread rotates
void rotate(int position, float frequency) {
  uint thread = gl_LocalInvocationID.x;
  barrier();
  if (NORMED != 0) {
    uint head = thread / 8, lane = thread % 8;  // HEADS + 1 of 32
    float sum = 0.0;
    if (head <= HEADS) {
      for (uint i = lane; i < COLUMNS; i += 8) sum += dot(query[head * COLUMNS + i], query[head * COLUMNS + i]);
    }
    squares[thread] = sum;
    barrier();
    for (uint i = thread; i < NEW_VALUE; i += 256) {
      uvec2 norm = i < NEW_KEY ? p.query_norm : p.key_norm;
      if (norm == uvec2(0)) continue;
      float total = 0.0;
      for (uint j = 0; j < 8; ++j) total += squares[i / COLUMNS * 8 + j];
      float inverse = 1.0 / sqrt(total / float(SIZE) + p.eps);
      [[unroll]] for (uint j = 0; j < 4; ++j)
        query[i][j] *= inverse * load_float(norm, i % COLUMNS * 4 + j, NORMED - 1);
    }
    barrier();
  }
  for (uint i = thread; i < (HEADS + 1) * p.pairs; i += 256) {
    uint pair = i % p.pairs, head = i / p.pairs * SIZE;
    uint first = head + (INTERLEAVED != 0 ? 2 * pair : pair), second = first + (INTERLEAVED != 0 ? 1 : p.pairs);
    float angle = float(position) * (i == thread ? frequency : load_frequency(pair));
    float c = m_cos(angle) * p.magnitude, s = m_sin(angle) * p.magnitude;
    float u = query[first / 4][first % 4], v = query[second / 4][second % 4];
    query[first / 4][first % 4] = u * c - v * s;
    query[second / 4][second % 4] = v * c + u * s;
  }
  barrier();
  for (uint i = NEW_KEY + thread; i < NEW_VALUE + COLUMNS; i += 256)
    query[i] = vec4(as_cached(query[i].x), as_cached(query[i].y), as_cached(query[i].z), as_cached(query[i].w));
}

void cache_new_row(uint block, uint group, uint place, uint row_bytes) {
  for (uint i = gl_LocalInvocationID.x; i < 2 * SIZE; i += 256) {
    uvec2 to = block_address(i < SIZE ? p.keys : p.values, block, p.groups, group, row_bytes);
    uint at = NEW_KEY * 4 + i;
    store_float(to, place * SIZE + i % SIZE, CACHE_DTYPE, query[at / 4][at % 4]);
  }
}
#endif

#ifdef ROTATED
// Quantizes the results of this workgroup's heads, which are in `query`.
void emit_quantized(uint row) {
  uint k = p.groups * HEADS * SPLIT * SIZE, rows = gl_NumWorkGroups.z;
  for (uint i = gl_LocalInvocationID.x; i < HEADS * COLUMNS; i += 256) {
    float most = 0.0;
    [[unroll]] for (uint j = 0; j < ACTIVATION_BLOCK / 4; ++j) {
      vec4 a = abs(query[i / (ACTIVATION_BLOCK / 4) * (ACTIVATION_BLOCK / 4) + j]);
      most = m_max(most, m_max(m_max(a.x, a.y), m_max(a.z, a.w)));
    }
    ActivationScale scale = activation_scale(most);
    uint e = gl_WorkGroupID.y * HEADS * SIZE + i * 4;
    BufferI32(p.partial).v[(row * k + e) / 4] = int(quantize_four(query[i], scale));
    if (i % (ACTIVATION_BLOCK / 4) == 0) BufferF32(p.partial).v[scale_place(rows, k, row, e)] = scale.scale;
  }
}
#endif

// Four columns of the value at a position of the tile; 0 if the position is masked.
vec4 value_at(uint tile, uint k, uint begin, uint end, uint group, uint column, uint row_bytes) {
  int block = k < CHUNK ? blocks[k / CACHE_BLOCK] : -1;
  if (tile + k < begin || tile + k >= end || block < 0) return vec4(0.0);
  uvec2 at = block_address(p.values, uint(block), p.groups, group, row_bytes);
  return load_cached(at, k % CACHE_BLOCK, SIZE, column * 4, CACHE_DTYPE, WIDTH);
}

void main() {
  uint thread = gl_LocalInvocationID.x, chunk = gl_WorkGroupID.x, row = gl_WorkGroupID.z;
  uint group = gl_WorkGroupID.y / SPLIT, split = gl_WorkGroupID.y % SPLIT;
  uint batch = row / p.steps;
  int position = ETNA_UNIFORM(BufferI32(p.positions).v[batch]) + int(row % p.steps);
  uint first = chunk * p.span, row_bytes = cache_row_bytes(SIZE, CACHE_DTYPE);
  uint end = position < 0 ? 0 : min(uint(position) + 1, p.width * CACHE_BLOCK);
  uint begin = oldest_of(uint(max(position, 0)), p.limit);
  uint head = row * p.groups * HEADS * SPLIT + gl_WorkGroupID.y * HEADS;
  uint part = ((row * p.groups + group) * p.chunks + chunk) * HEADS * SPLIT + split * HEADS;
  part *= SIZE + 2;
  // Loads that do not depend on the position are in flight while the position is loaded.
  uint place = first / CACHE_BLOCK + thread;
  int ahead = thread < CHUNK / CACHE_BLOCK && place < p.width ? BufferI32(p.table).v[batch * p.width + place] : -1;
#ifdef ROTATED
  float frequency = load_frequency(thread % max(p.pairs, 1));
  load_projected(row, group, split);
#endif
  if (first >= end || first + p.span <= begin) {
    if (WHOLE != 0) {
      for (uint i = thread; i < HEADS * SIZE; i += 256) store_float(p.y, head * SIZE + i, Y_DTYPE, 0.0);
#ifdef ROTATED
      if (EMITS != 0) {
        barrier();
        for (uint i = thread; i < HEADS * COLUMNS; i += 256) query[i] = vec4(0.0);
        barrier();
        emit_quantized(row);
      }
#endif
    }
    return;
  }
#ifdef ROTATED
  rotate(position, frequency);
#else
  for (uint i = thread; i < HEADS * COLUMNS; i += 256)
    query[i] = load_vector(p.q, head * SIZE + i * 4, 4, DTYPE, Q_WIDTH);
#endif
  if (thread < HEADS) largest[thread] = NONE;
  uint column = thread % COLUMNS, lane = thread / COLUMNS, key = thread % CHUNK, side = thread / CHUNK;
  vec4 sum[HEADS];
  float total[HEADS];
  [[unroll]] for (uint h = 0; h < HEADS; ++h) sum[h] = vec4(0.0), total[h] = 0.0;

  uint last = min(end, first + p.span), cached_end = end;
#ifdef ROTATED
  cached_end = min(end, uint(position));  // the new row is in shared memory
#endif
  for (uint tile = max(first, begin / CHUNK * CHUNK); tile < last; tile += CHUNK) {
    if (thread < CHUNK / CACHE_BLOCK) {
      uint at = tile / CACHE_BLOCK + thread;
      int block = ahead;
      if (tile != first) block = at < p.width ? BufferI32(p.table).v[batch * p.width + at] : -1;
      blocks[thread] = block >= 0 && uint(block) < p.blocks ? block : -1;
    }
    barrier();

#ifdef ROTATED
    if (uint(position) - tile < CHUNK && split == 0) {
      int block = blocks[(uint(position) - tile) / CACHE_BLOCK];
      if (block >= 0) cache_new_row(uint(block), group, uint(position) % CACHE_BLOCK, row_bytes);
    }
#endif
    vec4 early[EARLY ? VALUES : 1];
    [[unroll]] for (uint i = 0; i < (EARLY ? VALUES : 0); ++i)
      early[i] = value_at(tile, lane < KEYS_AT_ONCE ? lane + i * KEYS_AT_ONCE : CHUNK, begin, cached_end, group, column,
                          row_bytes);

    // Scores: a thread multiplies every SHARE-th vector of a key's columns; the partial sums are reduced in shared
    // memory.
    float score[KEYS * HEADS];
    [[unroll]] for (uint i = 0; i < KEYS * HEADS; ++i) score[i] = 0.0;
    [[unroll]] for (uint i = 0; i < KEYS; ++i) {
      uint k = thread / SHARE + i * (256 / SHARE);
      int block = blocks[k / CACHE_BLOCK];
      bool cached = tile + k >= begin && tile + k < cached_end && block >= 0;
      uvec2 at = block_address(p.keys, uint(max(block, 0)), p.groups, group, row_bytes);
      [[unroll]] for (uint j = 0; j < COLUMNS; j += SHARE) {
        uint c = j + thread % SHARE;
        if (c >= COLUMNS) continue;
        vec4 x = vec4(0.0);
        if (cached) x = load_cached(at, k % CACHE_BLOCK, SIZE, c * 4, CACHE_DTYPE, WIDTH);
#ifdef ROTATED
        if (tile + k == uint(position)) x = query[NEW_KEY + c];
#endif
        [[unroll]] for (uint h = 0; h < HEADS; ++h) score[i * HEADS + h] += dot(x, query[h * COLUMNS + c]);
      }
    }
    bool seen = tile + key >= begin && tile + key < end && blocks[key / CACHE_BLOCK] >= 0;
    [[unroll]] for (uint first = 0; first < HEADS; first += TOGETHER) {
      if (first > 0) barrier();
      [[unroll]] for (uint j = 0; j < min(TOGETHER, HEADS - first); ++j) {
        [[unroll]] for (uint i = 0; i < KEYS; ++i)
          partial[j * 256 + i * 64 + thread / 4][thread % 4] = score[i * HEADS + first + j];
      }
      barrier();
      [[unroll]] for (uint o = 0; o < OWN; ++o) {
        uint h = o * SIDES + side;
        if (h < first || h >= min(first + TOGETHER, HEADS)) continue;
        uint at = (h - first) * 256 + key * (SHARE / 4);
        vec4 sums = partial[at] + partial[at + 1];
        float s = (sums.x + sums.y + sums.z + sums.w) * p.scale;
        if (p.softcap > 0.0) s = p.softcap * m_tanh(s / p.softcap);
        weight[(h * CHUNK + key) / 4][key % 4] = seen ? s : NONE;
      }
    }
    barrier();

    // Exponentials.
    for (uint i = thread; i < HEADS * 16; i += 256) {
      vec4 a = weight[i * 2], b = weight[i * 2 + 1];
      segments[i / 4][i % 4] =
          m_max(m_max(m_max(a.x, a.y), m_max(a.z, a.w)), m_max(m_max(b.x, b.y), m_max(b.z, b.w)));
    }
    barrier();
    float before[OWN], most[OWN];
    [[unroll]] for (uint o = 0; o < OWN; ++o) {
      uint h = min(o * SIDES + side, HEADS - 1);
      before[o] = most[o] = largest[h];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        vec4 four = segments[h * 4 + i];
        most[o] = m_max(most[o], m_max(m_max(four.x, four.y), m_max(four.z, four.w)));
      }
    }
    barrier();
    [[unroll]] for (uint o = 0; o < OWN; ++o) {
      uint h = o * SIDES + side;
      if (h >= HEADS) continue;
      float own = weight[(h * CHUNK + key) / 4][key % 4];
      weight[(h * CHUNK + key) / 4][key % 4] = most[o] == NONE ? 0.0 : exp(own - most[o]);
      if (key != 0) continue;
      largest[h] = most[o];
      factor[h] = before[o] == NONE ? 0.0 : exp(before[o] - most[o]);
    }
    barrier();

    // Values: a thread sums four columns over every KEYS_AT_ONCE-th key.
    [[unroll]] for (uint h = 0; h < HEADS; ++h) sum[h] *= factor[h], total[h] *= factor[h];
    [[unroll]] for (uint i = 0; i < VALUES; ++i) {
      uint k = lane < KEYS_AT_ONCE ? lane + i * KEYS_AT_ONCE : CHUNK;
      vec4 x = EARLY ? early[EARLY ? i : 0] : value_at(tile, k, begin, cached_end, group, column, row_bytes);
#ifdef ROTATED
      if (tile + k == uint(position) && k < CHUNK && blocks[k / CACHE_BLOCK] >= 0) x = query[NEW_VALUE + column];
#endif
      [[unroll]] for (uint h = 0; h < HEADS; ++h) {
        float w = k < CHUNK ? weight[(h * CHUNK + min(k, CHUNK - 1)) / 4][k % 4] : 0.0;
        sum[h] += w * x;
        total[h] += w;
      }
    }
    barrier();
  }
  if (WHOLE == 0 && thread < HEADS) BufferF32(p.partial).v[part + thread * (SIZE + 2) + SIZE] = largest[thread];
  [[unroll]] for (uint h = 0; h < HEADS; h += TOGETHER) {
    [[unroll]] for (uint j = 0; j < TOGETHER; ++j) {
      if (h + j >= HEADS) continue;
      partial[j * 256 + thread] = sum[min(h + j, HEADS - 1)];
      if (column == 0 && lane < KEYS_AT_ONCE) partial_total[j * KEYS_AT_ONCE + lane] = total[min(h + j, HEADS - 1)];
    }
    barrier();
    for (uint t = thread; t < TOGETHER * COLUMNS; t += 256) {
      uint j = t / COLUMNS, c = t % COLUMNS;
      if (h + j >= HEADS) continue;
      vec4 y = partial[j * 256 + c];
      float all = partial_total[j * KEYS_AT_ONCE];
      for (uint l = 1; l < KEYS_AT_ONCE; ++l) {
        y += partial[j * 256 + l * COLUMNS + c];
        all += partial_total[j * KEYS_AT_ONCE + l];
      }
      if (WHOLE != 0) y = all > 0.0 || m_isnan(all) ? y / all : vec4(0.0);
      for (uint i = 0; i < 4; ++i) {
        if (WHOLE != 0)
          store_float(p.y, (head + h + j) * SIZE + c * 4 + i, Y_DTYPE, y[i]);
        else
          BufferF32(p.partial).v[part + (h + j) * (SIZE + 2) + c * 4 + i] = y[i];
      }
#ifdef ROTATED
      if (EMITS != 0) query[(h + j) * COLUMNS + c] = y;
#endif
      if (WHOLE == 0 && c == 0) BufferF32(p.partial).v[part + (h + j) * (SIZE + 2) + SIZE + 1] = all;
    }
    barrier();
  }
#ifdef ROTATED
  if (EMITS != 0) emit_quantized(row);
#endif
}
