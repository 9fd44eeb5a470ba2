#version 460
#extension GL_GOOGLE_include_directive : require
// Attention over a paged cache whose heads are wide, or shared by many heads of queries, as the rows of latent
// attention are: 576 elements for up to 128 heads. Those many products a byte make it bound by arithmetic, in f32. A
// workgroup owns 16 · ROWS rows, each a head of a query, and a chunk of positions, in tiles of KEYS. 16 threads share a
// row: queries and sums stay in their registers, in vectors 16 apart, and each vector of a key that they read from
// shared memory serves ROWS rows. Next keys load meanwhile. Where rows of keys are values, too, they are read once.
// paged_attention_merge combines chunks.
//
// variant: paged_attention_wide

#extension GL_EXT_control_flow_attributes : require
#include "math.glsl"
#include "paged.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint CACHE_DTYPE = 1;
layout(constant_id = 2) const uint SIZE = 64;     // elements of a head, a multiple of 4
layout(constant_id = 3) const uint ROWS = 1;      // of 16 threads
layout(constant_id = 4) const uint KEYS = 4;      // positions of a tile, a multiple of 4
layout(constant_id = 5) const uint Q_WIDTH = 4;   // of vector loads of queries, and stores of results
layout(constant_id = 6) const uint WIDTH = 4;     // of vector loads of keys and values
layout(constant_id = 7) const uint WHOLE = 1;     // one chunk has all positions: the result is written
layout(constant_id = 8) const uint Y_DTYPE = 1;
layout(constant_id = 9) const uint HAS_VALUES = 1;  // else the rows of keys are values

layout(push_constant, scalar) uniform Push {
  uvec2 q, keys, values, table, positions, y, partial;
  // heads: that share a head of keys; limit: as in oldest_of(); least: the fewest positions of a chunk
  uint steps, groups, width, blocks, chunks, limit, least;
  float scale, softcap;
  uint heads;
} p;

const uint LANES = 16, OWNERS = 256 / LANES;            // threads of a row, and rows of these at a time
const uint TILE = OWNERS * ROWS;                        // rows of a workgroup
const uint COLUMNS = SIZE / 4;                          // vectors of a row
const uint OWN = (COLUMNS + LANES - 1) / LANES;         // those of a thread
const uint LOADS = (KEYS * COLUMNS + 255) / 256;        // vectors of a tile that a thread loads
const uint PITCH = KEYS * LANES / 4 + LANES / 4;        // vectors between rows of `products`: rows in other banks

shared vec4 rows[KEYS * COLUMNS];     // of keys, then of values
shared vec4 products[TILE * PITCH];   // of a row and a key, by lane
shared vec4 scores[TILE * KEYS / 4];  // of a row

#define NONE uintBitsToFloat(0xff800000u)

// Loads a tile of rows; those that no query of the workgroup attends to are 0.
void load_tile(out vec4 next[LOADS], uvec2 cache, uint first, uint end, uint batch, uint row_bytes) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {
    uint at = gl_LocalInvocationID.x + i * 256, position = first + at / COLUMNS;
    next[i] = vec4(0.0);
    if (at >= KEYS * COLUMNS || position >= end) continue;
    int block = BufferI32(p.table).v[batch * p.width + position / CACHE_BLOCK];
    if (block < 0 || uint(block) >= p.blocks) continue;
    uvec2 from = block_address(cache, uint(block), p.groups, gl_WorkGroupID.y, row_bytes);
    next[i] = load_cached(from, position % CACHE_BLOCK, SIZE, at % COLUMNS * 4, CACHE_DTYPE, WIDTH);
  }
}

void store_tile(vec4 next[LOADS]) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {
    uint at = gl_LocalInvocationID.x + i * 256;
    if (at < KEYS * COLUMNS) rows[at] = next[i];
  }
}

// Whether a query at `own` attends to a position.
bool attends(int own, uint position, uint batch) {
  if (own < 0 || position > uint(own) || position < oldest_of(uint(own), p.limit)) return false;
  int block = BufferI32(p.table).v[batch * p.width + position / CACHE_BLOCK];
  return block >= 0 && uint(block) < p.blocks;
}

void main() {
  uint thread = gl_LocalInvocationID.x, lane = thread % LANES, owner = thread / LANES, batch = gl_WorkGroupID.z;
  uint chunk = gl_WorkGroupID.x % p.chunks, row0 = gl_WorkGroupID.x / p.chunks * TILE, count = p.steps * p.heads;
  uint row_bytes = cache_row_bytes(SIZE, CACHE_DTYPE), reach = p.width * CACHE_BLOCK;
  int past = ETNA_UNIFORM(BufferI32(p.positions).v[batch]);
  int newest = past + int(min(row0 + TILE, count) - 1) / int(p.heads), oldest = past + int(row0 / p.heads);
  Span span = balanced_span(past, p.steps, p.limit, reach, p.chunks, p.least);
  uint begin = max(span.base + chunk * span.size, oldest_of(uint(max(oldest, 0)), p.limit));
  uint end = min(newest < 0 ? 0 : min(uint(newest) + 1, reach), span.base + (chunk + 1) * span.size);
  if (begin >= end && WHOLE == 0) return;

  vec4 query[ROWS * OWN], sum[ROWS * OWN];
  float largest[ROWS], total[ROWS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    uint row = row0 + owner * ROWS + r, step = row / p.heads;
    uint from = (((batch * p.steps + step) * p.groups + gl_WorkGroupID.y) * p.heads + row % p.heads) * SIZE;
    [[unroll]] for (uint i = 0; i < OWN; ++i) {
      uint column = i * LANES + lane;
      query[r * OWN + i] = sum[r * OWN + i] = vec4(0.0);
      if (row < count && column < COLUMNS) query[r * OWN + i] = load_vector(p.q, from + column * 4, 4, DTYPE, Q_WIDTH);
    }
    largest[r] = NONE;
    total[r] = 0.0;
  }

  vec4 next[LOADS];
  load_tile(next, p.keys, begin, end, batch, row_bytes);
  for (uint tile = begin; tile < end; tile += KEYS) {
    barrier();
    store_tile(next);
    barrier();
    if (HAS_VALUES != 0) load_tile(next, p.values, tile, end, batch, row_bytes);
    else load_tile(next, p.keys, tile + KEYS, end, batch, row_bytes);

    float product[ROWS * KEYS];
    [[unroll]] for (uint i = 0; i < ROWS * KEYS; ++i) product[i] = 0.0;
    [[unroll]] for (uint i = 0; i < OWN; ++i) {
      uint column = i * LANES + lane;
      if (column >= COLUMNS) continue;
      [[unroll]] for (uint k = 0; k < KEYS; ++k) {
        vec4 x = rows[k * COLUMNS + column];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) product[r * KEYS + k] += dot(query[r * OWN + i], x);
      }
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      uint to = (owner * ROWS + r) * PITCH + lane / 4;
      [[unroll]] for (uint k = 0; k < KEYS; ++k) products[to + k * (LANES / 4)][lane % 4] = product[r * KEYS + k];
    }
    barrier();
    if (HAS_VALUES != 0) {
      store_tile(next);
      load_tile(next, p.keys, tile + KEYS, end, batch, row_bytes);
    }
    for (uint i = thread; i < TILE * KEYS; i += 256) {
      uint row = i / KEYS, key = i % KEYS;
      vec4 sums = vec4(0.0);
      [[unroll]] for (uint j = 0; j < LANES / 4; ++j) sums += products[row * PITCH + key * (LANES / 4) + j];
      float s = (sums.x + sums.y + sums.z + sums.w) * p.scale;
      if (p.softcap > 0.0) s = p.softcap * m_tanh(s / p.softcap);
      bool seen = row0 + row < count && tile + key < end &&
                  attends(past + int((row0 + row) / p.heads), tile + key, batch);
      scores[i / 4][i % 4] = seen ? s : NONE;
    }
    barrier();

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      uint from = (owner * ROWS + r) * (KEYS / 4);
      float most = largest[r];
      [[unroll]] for (uint k = 0; k < KEYS / 4; ++k) {
        vec4 four = scores[from + k];
        most = m_max(most, m_max(m_max(four.x, four.y), m_max(four.z, four.w)));
      }
      float factor = largest[r] == NONE ? 0.0 : exp(largest[r] - most);
      largest[r] = most;
      total[r] *= factor;
      [[unroll]] for (uint i = 0; i < OWN; ++i) sum[r * OWN + i] *= factor;
      [[unroll]] for (uint k = 0; k < KEYS; ++k) {
        float weight = most == NONE ? 0.0 : exp(scores[from + k / 4][k % 4] - most);
        product[r * KEYS + k] = weight;
        total[r] += weight;
      }
    }
    [[unroll]] for (uint i = 0; i < OWN; ++i) {
      uint column = i * LANES + lane;
      if (column >= COLUMNS) continue;
      [[unroll]] for (uint k = 0; k < KEYS; ++k) {
        vec4 x = rows[k * COLUMNS + column];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) sum[r * OWN + i] += product[r * KEYS + k] * x;
      }
    }
  }

  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    uint row = row0 + owner * ROWS + r, step = row / p.heads, head = row % p.heads;
    if (row >= count) continue;
    uint first = ((batch * p.steps + step) * p.groups + gl_WorkGroupID.y) * p.heads;
    uint part = (first * p.chunks + chunk * p.heads + head) * (SIZE + 2);
    bool any = total[r] > 0.0 || m_isnan(total[r]);
    [[unroll]] for (uint i = 0; i < OWN; ++i) {
      uint column = i * LANES + lane;
      if (column >= COLUMNS) continue;
      vec4 value = sum[r * OWN + i];
      if (WHOLE != 0)
        store_vector(p.y, (first + head) * SIZE + column * 4, 4, Y_DTYPE, Q_WIDTH, any ? value / total[r] : vec4(0.0));
      else
        store_vector(p.partial, part + column * 4, 4, F32, 2, value);
    }
    if (WHOLE == 0 && lane == 0) {
      BufferF32(p.partial).v[part + SIZE] = largest[r];
      BufferF32(p.partial).v[part + SIZE + 1] = total[r];
    }
  }
}
