// Many tensors in one dispatch: a table of rows, divided into chunks, one per workgroup. Numbers that change from step
// to step are in device memory, so that a recorded dispatch can be replayed.
#ifndef ETNA_MULTI_TENSOR_GLSL
#define ETNA_MULTI_TENSOR_GLSL

#include "vectors.glsl"

struct Row {
  uvec2 address[5];
  uint elements, first_chunk;
  uint dtype[2];
};
ETNA_BUFFER_ALIGNED(Rows, Row, 8);
ETNA_BUFFER(Scalars, float);

const uint MIXED = 255;  // instead of a dtype: rows have different dtypes

uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// Finds the row that a chunk belongs to; every row has at least one chunk. All threads of a workgroup of 256 search in
// parallel, so that it takes the latency of one load.
// parallel, so that it takes the latency of one load.
shared uint found_row;
uint find_row(Rows rows, uint count, uint chunk) {
  for (uint r = gl_LocalInvocationID.x; r < count; r += 256) {
    if (rows.v[r].first_chunk <= chunk && (r + 1 == count || rows.v[r + 1].first_chunk > chunk)) found_row = r;
  }
  barrier();
  return found_row;
}

// The end of a chunk's vectors. `width` is 4 if the host found every row aligned; the remaining elements are processed
// one by one.
uint vectors_end(uint begin, uint end, uint width) { return width == 4 ? begin + (end - begin) / 4 * 4 : begin; }

#endif
