#version 460
#extension GL_GOOGLE_include_directive : require
// Sums of the columns of a matrix: bias gradients. Bytes-bound: each element is read once, four neighbours per load, in
// every dtype. A team of 32 threads reads 128 columns of a row, 256 or 512 contiguous bytes. Eight teams take every
// eighth row of the workgroup's chunk, and are reduced in order at the end. Each thread has four rows in flight.
//
// If there are few columns and many rows, the rows are split into chunks, and a second dispatch of the same kernel adds
// the chunks' sums. The split depends only on the shape and the device, so the bits do not vary.
//
// Lost: reduce_float's columns, 8 columns by 32 threads per workgroup. In 16 bits it reads half a sector per row: 5
// times the time.
//
// variant: column_sums

#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint X_DTYPE = 1;
layout(constant_id = 1) const uint Y_DTYPE = 1;
layout(constant_id = 2) const uint WIDTH = 1;  // elements per load

layout(push_constant, scalar) uniform Push {
  uvec2 x, y;     // y: [chunks, columns]
  uint rows, columns, stride;
  uint chunk_length;  // rows per chunk
  uint groups;    // workgroups across the columns
  uint chunks;
} p;

const uint ACROSS = 32, TEAMS = 8, IN_FLIGHT = 4;

shared vec4 sums[256];

vec4 load(uint row, uint column, uint count) {
  return load_vector(p.x, row * p.stride + column, count, X_DTYPE, WIDTH);
}

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (group >= p.groups * p.chunks) return;
  uint me = gl_LocalInvocationID.x, team = me / ACROSS, chunk = group / p.groups;
  uint column = (group % p.groups * ACROSS + me % ACROSS) * 4,
       count = column < p.columns ? min(4, p.columns - column) : 0;
  uint row = chunk * p.chunk_length + team, end = min((chunk + 1) * p.chunk_length, p.rows);
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
  for (uint c = 0; c < count; ++c) store_float(p.y, chunk * p.columns + column + c, Y_DTYPE, sum[c]);
}
