// Which positions of a paged cache a workgroup attends to, for the kernels that read many queries of a prompt. A row is
// a head of a query: those that share keys are neighbours, so that a tile of keys serves all of them. Workgroups are
// numbered by tiles of rows, in each by chunks of equally many positions, which the position of the first query tells:
// a captured step has the same chunks for each length. paged_attention_merge combines them. SHARED, the heads that
// share keys, is a constant, so that divisions by it are shifts or products.
#ifndef ETNA_PAGED_SPAN_GLSL
#define ETNA_PAGED_SPAN_GLSL

#include "paged.glsl"
#ifndef SAME_FOR_ALL
#define SAME_FOR_ALL(value) ETNA_UNIFORM(value)
#endif

layout(push_constant, scalar) uniform Push {
  uvec2 q, keys, values, table, positions, y, partial;
  // limit: as in oldest_of(); span: the fewest positions of a chunk
  uint steps, groups, width, blocks, chunks, limit, span;
  float scale, softcap;
  uint shape;  // heads per group, head size << 16
} p;

uint first_key, end_key;
int past;    // position of the first query
int coming;  // block of the tile that is loaded next

uint chunk_of() { return gl_WorkGroupID.x % p.chunks; }
// The first row of a workgroup that owns `tile` rows. Those with most keys begin first.
uint first_row_of(uint tile) { return (gl_NumWorkGroups.x / p.chunks - 1 - gl_WorkGroupID.x / p.chunks) * tile; }
uint rows() { return p.steps * SHARED; }
int position_of(uint row) { return past + int(row / SHARED); }

int block_at(uint key) {
  uint i = key / CACHE_BLOCK;
  int block = i < p.width ? BufferI32(p.table).v[gl_WorkGroupID.z * p.width + i] : -1;
  return block >= 0 && uint(block) < p.blocks ? block : -1;
}

// Finds the chunk's keys that rows `first` to `last` attend to, from the begin of a block on. False if there are none.
bool find_span(uint first, uint last) {
  past = SAME_FOR_ALL(BufferI32(p.positions).v[gl_WorkGroupID.z]);
  int newest = position_of(min(last, rows() - 1)), oldest = position_of(first);
  uint reach = p.width * CACHE_BLOCK, end = newest < 0 ? 0 : min(uint(newest) + 1, reach);
  uint begin = oldest_of(uint(max(oldest, 0)), p.limit);
  Span span = balanced_span(past, p.steps, p.limit, reach, p.chunks, p.span);
  first_key = max(begin / CACHE_BLOCK * CACHE_BLOCK, span.base + chunk_of() * span.size);
  end_key = min(end, span.base + (chunk_of() + 1) * span.size);
  return first_key < end_key;
}

bool attends_from(int position, uint key) {
  return key < end_key && int(key) <= position && (p.limit == 0 || key >= oldest_of(uint(position), p.limit));
}

// Where the partial result of a row is: its values, their logsumexp, and 1 as the sum that paged_attention_merge reads.
uint partial_at(uint row, uint size) {
  uint step = gl_WorkGroupID.z * p.steps + row / SHARED, head = (step * p.groups + gl_WorkGroupID.y) * SHARED;
  return (head * p.chunks + chunk_of() * SHARED + row % SHARED) * (size + 2);
}

void write_partial_sum(uint row, uint size, float logsumexp) {
  uint at = partial_at(row, size) + size;
  BufferF32(p.partial).v[at] = logsumexp;
  BufferF32(p.partial).v[at + 1] = 1.0;
}

#endif
