#version 460
#extension GL_GOOGLE_include_directive : require
// Sums of the columns of a matrix: bias gradients. Bytes-bound: each element is read once, four neighbours a load,
// whatever the dtype. 32 threads side by side take 128 columns of a row, 256 or 512 bytes in one run; eight such teams
// take every eighth row of the workgroup's piece and are joined in order at its end. Each thread has four rows in
// flight.
//
// Few columns of many rows are cut into pieces, whose sums a second dispatch of the same kernel adds up; the cut
// depends on the shape and the device only, so the bits do not vary.
//
// Lost: reduce_float's columns, 8 columns by 32 lanes a workgroup, which in 16 bits read half a sector a row: 5 times
// the time.
//
// variant: column_sums

#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint X_DTYPE = 1;
layout(constant_id = 1) const uint Y_DTYPE = 1;
layout(constant_id = 2) const uint WIDTH = 1;  // elements that a load may take

layout(push_constant, scalar) uniform Push {
  uvec2 x, y;     // y: [pieces, columns]
  uint rows, columns, stride;
  uint piece;     // rows
  uint groups;    // of columns
  uint pieces;
} p;

const uint ACROSS = 32, TEAMS = 8, IN_FLIGHT = 4;

shared vec4 sums[256];

vec4 load(uint row, uint column, uint count) {
  return load_vector(p.x, row * p.stride + column, count, X_DTYPE, WIDTH);
}

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (group >= p.groups * p.pieces) return;
  uint me = gl_LocalInvocationID.x, team = me / ACROSS, piece = group / p.groups;
  uint column = (group % p.groups * ACROSS + me % ACROSS) * 4,
       count = column < p.columns ? min(4, p.columns - column) : 0;
  uint row = piece * p.piece + team, end = min((piece + 1) * p.piece, p.rows);
  vec4 sum = vec4(0.0);
  if (count > 0) {
    for (; row + (IN_FLIGHT - 1) * TEAMS < end; row += IN_FLIGHT * TEAMS) {
      vec4 a = load(row, column, count), b = load(row + TEAMS, column, count);
      vec4 c = load(row + 2 * TEAMS, column, count), d = load(row + 3 * TEAMS, column, count);
      sum += (a + b) + (c + d);
    }
    for (; row < end; row += TEAMS) sum += load(row, column, count);
  }
  sums[me] = sum;
  barrier();
  if (team != 0) return;
  for (uint t = 1; t < TEAMS; ++t) sum += sums[t * ACROSS + me];
  for (uint c = 0; c < count; ++c) store_float(p.y, piece * p.columns + column + c, Y_DTYPE, sum[c]);
}
