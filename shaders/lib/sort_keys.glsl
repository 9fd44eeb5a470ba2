// Unsigned keys whose order is the order of sort(): NaN is the largest and all NaN are equal; so are 0 and -0.
#ifndef ETNA_SORT_KEYS_GLSL
#define ETNA_SORT_KEYS_GLSL

#include "dtype.glsl"

// Not a dtype: i32 keys of another kernel, never negative, used unchanged.
const uint PLAIN = 9;

// `bits` of a float of `width` bits whose infinity is `infinity`.
uint float_key(uint bits, uint sign, uint infinity) {
  if ((bits & (sign - 1u)) > infinity) return sign | (sign - 1u);
  if (bits == sign) bits = 0u;
  return (bits & sign) != 0u ? ~bits & (sign | (sign - 1u)) : bits | sign;
}

// The largest key of a dtype. Keys of i64 have two u32s of 32 bits each.
uint largest_key(uint dtype) {
  if (dtype == F16 || dtype == BF16) return 0xffffu;
  return dtype >= I8 && dtype <= BOOL ? 0xffu : 0xffffffffu;
}

// @param word u32 of an i64: 0 is the lower one
uint key_of(uvec2 address, uint i, uint dtype, uint word) {
  switch (dtype) {
    case F32: return float_key(uint(BufferI32(address).v[i]), 0x80000000u, 0x7f800000u);
    case F16: return float_key(uint(BufferU16(address).v[i]), 0x8000u, 0x7c00u);
    case BF16: return float_key(uint(BufferU16(address).v[i]), 0x8000u, 0x7f80u);
    case I64: {
      uvec2 words = BufferWords(address).v[i];
      return word == 0 ? words.x : words.y ^ 0x80000000u;
    }
    case I32: return uint(BufferI32(address).v[i]) ^ 0x80000000u;
    case I8: return uint(BufferU8(address).v[i]) ^ 0x80u;
    case PLAIN: return uint(BufferI32(address).v[i]);
    default: return uint(BufferU8(address).v[i]);
  }
}

// The bits of the value with a key of one u32; false if several values share the key, as NaN and both zeros do.
bool value_of_key(uint key, uint dtype, out uint bits) {
  bits = key;
  switch (dtype) {
    case I32: bits = key ^ 0x80000000u; return true;
    case I8: bits = key ^ 0x80u; return true;
    case U8:
    case BOOL: return true;
  }
  uint sign = dtype == F32 ? 0x80000000u : 0x8000u;
  bits = (key & sign) != 0u ? key ^ sign : ~key & (sign | (sign - 1u));
  return key != sign && key != (sign | (sign - 1u));
}

// Stores the value with a key of one u32 as element i of `values`. @return false if the key does not tell its bits
bool store_value_of_key(uvec2 values, uint i, uint key, uint dtype, bool descending) {
  uint bits;
  if (!value_of_key(descending ? largest_key(dtype) - key : key, dtype, bits)) return false;
  switch (dtype) {
    case F32:
    case I32: BufferI32(values).v[i] = int(bits); break;
    case F16:
    case BF16: BufferU16(values).v[i] = uint16_t(bits); break;
    default: BufferU8(values).v[i] = uint8_t(bits); break;
  }
  return true;
}

// key_of(), inverted to sort values in descending order by ascending keys.
uint key_in_order(uvec2 address, uint i, uint dtype, uint word, bool descending) {
  uint key = key_of(address, i, dtype, word);
  return descending ? largest_key(dtype) - key : key;
}

#endif
