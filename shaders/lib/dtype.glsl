// Loads and stores of any dtype as the compute type T of this variant. `T=float T_FLOAT`, `T=int T_INT`, `T=int64_t
// T_I64`, `T=uvec2 T_PAIR` (i64 as two u32s, for devices without 64-bit integers) or `T=double T_F64` in the variant's
// line chooses T. The dtype is a specialization constant at every use, so the compiler removes the switches.
//
// Stores to f16 round to nearest even, with the same bits on every device. SPIR-V leaves the rounding of a conversion
// to the device. Devices that guarantee that rounding (HALF_CONVERSION) convert two elements at once with their own
// instruction; all other cases, NaN included, take about a dozen integer operations per element. i64 is read as two
// u32s, so that indices and casts need no 64-bit arithmetic.
#ifndef ETNA_DTYPE_GLSL
#define ETNA_DTYPE_GLSL

#extension GL_EXT_buffer_reference_uvec2 : require
#include "buffers.glsl"

// The order of etna::DType.
const uint F64 = 0, F32 = 1, F16 = 2, BF16 = 3, I64 = 4, I32 = 5, I8 = 6, U8 = 7, BOOL = 8;

ETNA_BUFFER(BufferF32, float);
ETNA_BUFFER(BufferU16, uint16_t);
ETNA_BUFFER(BufferI32, int);
ETNA_BUFFER(BufferI8, int8_t);
ETNA_BUFFER(BufferU8, uint8_t);
ETNA_BUFFER_ALIGNED(BufferWords, uvec2, 8);

// The device's guarantee, set by the host (device/internal/vulkan/api/half_conversion.h): 0: none, 1: normal results
// are rounded to nearest even, 2: all are.
layout(constant_id = 1000) const uint HALF_CONVERSION = 0;

float half_to_float(uint bits) { return unpackHalf2x16(bits).x; }

uint float_to_half_by_integers(float value) {
  uint u = floatBitsToUint(value), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) {
    // Subnormal: makes the implicit one explicit and shifts it into place, rounding to nearest even.
    uint exponent = magnitude >> 23;
    if (exponent < 102u) return sign;
    uint mantissa = (magnitude & 0x7fffffu) | 0x800000u, shift = 126u - exponent;
    uint low = mantissa & ((1u << shift) - 1u), tie = 1u << (shift - 1u), kept = mantissa >> shift;
    return sign | (kept + ((low > tie || (low == tie && (kept & 1u) == 1u)) ? 1u : 0u));
  }
  uint rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return sign | ((rounded - 0x38000000u) >> 13);
}

uint float_to_half(float value) {
  uint magnitude = floatBitsToUint(value) & 0x7fffffffu;
  bool there = HALF_CONVERSION == 2 || (HALF_CONVERSION == 1 && magnitude >= 0x38800000u);
  if (there && magnitude < 0x477ff000u) return packHalf2x16(vec2(value, 0.0)) & 0xffffu;
  return float_to_half_by_integers(value);
}

// Two f16 in a u32, the first in the lower half.
uint floats_to_halves(vec2 values) {
  uvec2 magnitudes = floatBitsToUint(values) & 0x7fffffffu;
  bool there = HALF_CONVERSION == 2 || (HALF_CONVERSION == 1 && min(magnitudes.x, magnitudes.y) >= 0x38800000u);
  if (there && max(magnitudes.x, magnitudes.y) < 0x477ff000u) return packHalf2x16(values);
  return float_to_half_by_integers(values.x) | (float_to_half_by_integers(values.y) << 16);
}

float bfloat16_to_float(uint bits) { return uintBitsToFloat(bits << 16); }

uint float_to_bfloat16(float value) {
  uint u = floatBitsToUint(value);
  uint rounded = u + 0x7fffu + ((u >> 16) & 1u);
  return ((u & 0x7fffffffu) > 0x7f800000u ? u | 0x400000u : rounded) >> 16;
}

// Two's complement of an i64 in two u32s, so that converting a small negative number does not add 2^32 in f32.
uvec2 negated(uvec2 w) { return uvec2(0u - w.x, ~w.y + (w.x == 0u ? 1u : 0u)); }

float load_float(uvec2 address, uint i, uint dtype) {
  switch (dtype) {
    case F32: return BufferF32(address).v[i];
    case F16: return half_to_float(uint(BufferU16(address).v[i]));
    case BF16: return bfloat16_to_float(uint(BufferU16(address).v[i]));
    case I64: {
      uvec2 w = BufferWords(address).v[i];
      bool negative = int(w.y) < 0;
      if (negative) w = negated(w);
      float magnitude = float(w.y) * 4294967296.0 + float(w.x);
      return negative ? -magnitude : magnitude;
    }
    case I32: return float(BufferI32(address).v[i]);
    case I8: return float(BufferI8(address).v[i]);
    default: return float(BufferU8(address).v[i]);
  }
}

void store_float(uvec2 address, uint i, uint dtype, float value) {
  switch (dtype) {
    case F32: BufferF32(address).v[i] = value; break;
    case F16: BufferU16(address).v[i] = uint16_t(float_to_half(value)); break;
    case BF16: BufferU16(address).v[i] = uint16_t(float_to_bfloat16(value)); break;
    case I64: {
      float whole = trunc(abs(value)), high = floor(whole / 4294967296.0);
      uvec2 w = uvec2(uint(whole - high * 4294967296.0), uint(high));
      BufferWords(address).v[i] = value < 0.0 ? negated(w) : w;
      break;
    }
    case I32: BufferI32(address).v[i] = int(value); break;
    case I8: BufferI8(address).v[i] = int8_t(int(value)); break;
    case U8: BufferU8(address).v[i] = uint8_t(uint(int(value))); break;
    default: BufferU8(address).v[i] = uint8_t(value != 0.0 ? 1u : 0u); break;
  }
}

int load_int(uvec2 address, uint i, uint dtype) {
  switch (dtype) {
    case I64: return int(BufferWords(address).v[i].x);
    case I32: return BufferI32(address).v[i];
    case I8: return int(BufferI8(address).v[i]);
    case U8:
    case BOOL: return int(BufferU8(address).v[i]);
    default: return int(load_float(address, i, dtype));
  }
}

void store_int(uvec2 address, uint i, uint dtype, int value) {
  switch (dtype) {
    case I64: BufferWords(address).v[i] = uvec2(uint(value), value < 0 ? 0xffffffffu : 0u); break;
    case I32: BufferI32(address).v[i] = value; break;
    case I8: BufferI8(address).v[i] = int8_t(value); break;
    case U8: BufferU8(address).v[i] = uint8_t(uint(value)); break;
    case BOOL: BufferU8(address).v[i] = uint8_t(value != 0 ? 1u : 0u); break;
    default: store_float(address, i, dtype, float(value)); break;
  }
}

#ifdef T
#if defined(T_FLOAT)
T load_value(uvec2 address, uint i, uint dtype) { return load_float(address, i, dtype); }
void store_value(uvec2 address, uint i, uint dtype, T value) { store_float(address, i, dtype, value); }
T immediate(uvec2 words) { return uintBitsToFloat(words.x); }
#elif defined(T_INT)
T load_value(uvec2 address, uint i, uint dtype) { return load_int(address, i, dtype); }
void store_value(uvec2 address, uint i, uint dtype, T value) { store_int(address, i, dtype, value); }
T immediate(uvec2 words) { return int(words.x); }
#elif defined(T_PAIR)
T load_value(uvec2 address, uint i, uint dtype) {
  if (dtype == I64) return BufferWords(address).v[i];
  int value = load_int(address, i, dtype);
  return uvec2(uint(value), uint(value >> 31));
}
void store_value(uvec2 address, uint i, uint dtype, T value) {
  if (dtype == I64) BufferWords(address).v[i] = value;
  else if (dtype == BOOL) store_int(address, i, dtype, (value.x | value.y) != 0u ? 1 : 0);
  else store_int(address, i, dtype, int(value.x));
}
T immediate(uvec2 words) { return words; }
#elif defined(T_I64)
ETNA_BUFFER(BufferI64, int64_t);
T load_value(uvec2 address, uint i, uint dtype) {
  if (dtype == I64) return BufferI64(address).v[i];
  if (dtype <= BF16) return int64_t(load_float(address, i, dtype));
  // Not int64_t(value): Mesa 22 compares such extended values with constants in 32 bits, which is wrong.
  int value = load_int(address, i, dtype);
  return int64_t(packUint2x32(uvec2(uint(value), uint(value >> 31))));
}
void store_value(uvec2 address, uint i, uint dtype, T value) {
  if (dtype == I64) BufferI64(address).v[i] = value;
  else if (dtype == BOOL) store_int(address, i, dtype, value != 0 ? 1 : 0);
  else if (dtype <= BF16) store_float(address, i, dtype, float(value));
  else store_int(address, i, dtype, int(value));
}
T immediate(uvec2 words) { return int64_t(packUint2x32(words)); }
#elif defined(T_F64)
ETNA_BUFFER(BufferF64, double);
ETNA_BUFFER(BufferI64, int64_t);
T load_value(uvec2 address, uint i, uint dtype) {
  if (dtype == F64) return BufferF64(address).v[i];
  if (dtype == I64) return double(BufferI64(address).v[i]);
  return double(load_float(address, i, dtype));
}
void store_value(uvec2 address, uint i, uint dtype, T value) {
  if (dtype == F64) BufferF64(address).v[i] = value;
  else if (dtype == I64) BufferI64(address).v[i] = int64_t(value);
  else if (dtype == I32) BufferI32(address).v[i] = int(value);
  else store_float(address, i, dtype, float(value));
}
T immediate(uvec2 words) { return packDouble2x32(words); }
#endif
#endif

#endif
