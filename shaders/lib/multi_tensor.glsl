// Many tensors in one dispatch: a table of rows, cut into chunks of which each workgroup takes one. Numbers that change
// from step to step lie in device memory, so that a recorded dispatch stays true.
#ifndef ETNA_MULTI_TENSOR_GLSL
#define ETNA_MULTI_TENSOR_GLSL

#include "vectors.glsl"

struct Row {
  uvec2 address[4];
  uint elements, first_chunk;
  uint dtype[2];
};
ETNA_BUFFER_ALIGNED(Rows, Row, 8);
ETNA_BUFFER(Scalars, float);

const uint MIXED = 255;  // in place of a dtype: each row says its own

uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// The row that a chunk belongs to, every row having at least one chunk. All threads of a workgroup of 256 look at once,
// so that it takes as long as one load.
shared uint found_row;
uint find_row(Rows rows, uint count, uint chunk) {
  for (uint r = gl_LocalInvocationID.x; r < count; r += 256) {
    if (rows.v[r].first_chunk <= chunk && (r + 1 == count || rows.v[r + 1].first_chunk > chunk)) found_row = r;
  }
  barrier();
  return found_row;
}

// Where the vectors of a chunk end, `width` being 4 where the host found every row aligned so; what is left goes
// element by element.
uint vectors_end(uint begin, uint end, uint width) { return width == 4 ? begin + (end - begin) / 4 * 4 : begin; }

#endif
