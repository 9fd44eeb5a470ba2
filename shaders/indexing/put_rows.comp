#version 460
#extension GL_GOOGLE_include_directive : require
// Writes rows to places of a table: the last row for a place wins. Bytes-bound. Elements move as bytes, so one kernel
// serves every dtype. With KEYS, the places are sorted and come with their rows of the source; without, rows for the
// same place must be equal.
// two rows may differ at the same place.
//
// variant: put_rows

#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UNIT = 4;
layout(constant_id = 1) const uint KEYS = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 y, source, places, order;
  uint count, width;
  uint row_step, step;  // of the source: 0 if it repeats one element
} p;

void main() {
  uint first = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 1024 + gl_LocalInvocationID.x;
  for (uint k = 0; k < 4; ++k) {
    uint i = first + k * 256, row = i / p.width, column = i % p.width;
    if (row >= p.count) return;
    uint place = uint(BufferI32(p.places).v[row]), from = row;
    if (KEYS != 0) {
      if (row + 1 < p.count && uint(BufferI32(p.places).v[row + 1]) == place) continue;
      from = uint(BufferI32(p.order).v[row]);
    }
    copy_unit(p.y, place * p.width + column, p.source, from * p.row_step + column * p.step, UNIT);
  }
}
