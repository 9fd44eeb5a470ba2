#version 460
#extension GL_GOOGLE_include_directive : require
// Small uploads: copies u32 values from mapped host memory to device memory. A copy command would do the same, but
// compute work before and after it would wait while the device switches between transfer and compute. A dispatch needs
// no such switch.
//
// variant: copy_words

#extension GL_EXT_buffer_reference_uvec2 : require
#include "buffers.glsl"

ETNA_BUFFER(Words, uint);

layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
  uvec2 from, to;
  uint n;
} p;

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < p.n) Words(p.to).v[i] = Words(p.from).v[i];
}
