// Many tensors walked as one: a table of rows, cut into pieces that a workgroup takes one of. Numbers that change from step to
// step are read from the device too, so that a recorded dispatch stays true.
#ifndef ETNA_MULTI_TENSOR_GLSL
#define ETNA_MULTI_TENSOR_GLSL

#include "dtype.glsl"

struct Row {
  uvec2 address[4];
  uint elements, first_piece;
  uint dtype[2];
};
ETNA_BUFFER_ALIGNED(Rows, Row, 8);
ETNA_BUFFER(Scalars, float);

const uint MIXED = 255;  // in place of a dtype: each row says its own

uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// The last row that starts at or before a piece. Every row has at least one piece.
uint find_row(Rows rows, uint count, uint piece) {
  uint low = 0, high = count;
  while (high - low > 1) {
    uint middle = (low + high) / 2;
    if (rows.v[middle].first_piece <= piece) low = middle;
    else high = middle;
  }
  return low;
}

#endif
