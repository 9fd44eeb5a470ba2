// Copies of 1, 2, 4, 8 or 16 bytes, for kernels that move elements without interpreting them. UNIT is a specialization
// constant.
#ifndef ETNA_UNITS_GLSL
#define ETNA_UNITS_GLSL

#include "dtype.glsl"

ETNA_BUFFER_ALIGNED(BufferQuads, uvec4, 16);

void copy_unit(uvec2 target, uint to, uvec2 source, uint from, uint unit) {
  switch (unit) {
    case 16: BufferQuads(target).v[to] = BufferQuads(source).v[from]; break;
    case 8: BufferWords(target).v[to] = BufferWords(source).v[from]; break;
    case 4: BufferI32(target).v[to] = BufferI32(source).v[from]; break;
    case 2: BufferU16(target).v[to] = BufferU16(source).v[from]; break;
    default: BufferU8(target).v[to] = BufferU8(source).v[from]; break;
  }
}

#endif
