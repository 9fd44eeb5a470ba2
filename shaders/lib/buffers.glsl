// Buffers accessed by device address. Shaders declare buffers only through these macros, so that a variant that binds
// buffers instead remains possible.
//
//   #extension GL_GOOGLE_include_directive : require
//   #include "buffers.glsl"
//   ETNA_BUFFER(Floats, float)             a scalar type (or a macro that names one); its elements are b.v[i]
//   ETNA_BUFFER_ALIGNED(Vec4s, vec4, 16)   wide loads, if the host has checked that the address is so aligned
//   layout(push_constant, scalar) uniform Push { Floats x; Floats y; uint n; } p;      p.y.v[i] = p.x.v[i];
//
// In the push constants a buffer takes eight bytes, aligned to eight, which hold its address. Elements are packed as in
// C. Every device loads and stores 8- and 16-bit types; arithmetic on them needs Capabilities::float16 and the like, so
// convert to float, int or uint first.
#ifndef ETNA_BUFFERS_GLSL
#define ETNA_BUFFERS_GLSL

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

#define ETNA_ALIGN_float 4
#define ETNA_ALIGN_int 4
#define ETNA_ALIGN_uint 4
#define ETNA_ALIGN_double 8
#define ETNA_ALIGN_int64_t 8
#define ETNA_ALIGN_uint64_t 8
#define ETNA_ALIGN_float16_t 2
#define ETNA_ALIGN_int16_t 2
#define ETNA_ALIGN_uint16_t 2
#define ETNA_ALIGN_int8_t 1
#define ETNA_ALIGN_uint8_t 1

#define ETNA_JOIN_(a, b) a##b
#define ETNA_JOIN(a, b) ETNA_JOIN_(a, b)

#define ETNA_BUFFER_ALIGNED(name, type, alignment) \
  layout(buffer_reference, scalar, buffer_reference_align = alignment) buffer name { type v[]; }
#define ETNA_BUFFER(name, type) ETNA_BUFFER_ALIGNED(name, type, ETNA_JOIN(ETNA_ALIGN_, type))

// A bool or uint that comes from memory and is the same for all threads of a workgroup, so that barriers may depend on
// it. WebGPU requires a proof (docs/webgpu.md); there all threads must reach it.
#ifdef ETNA_WEBGPU
#define ETNA_UNIFORM(value) heap_uniform(value)
#else
#define ETNA_UNIFORM(value) (value)
#endif

#endif
