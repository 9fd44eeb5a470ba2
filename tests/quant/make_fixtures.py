#!/usr/bin/env python3
"""Writes ggml_fixtures.h: blocks of random bytes with the floats that ggml decodes from them, and the squared errors of
ggml's own quantizers on the values of test_values(). Needs numpy and ggml's library (Debian: libggml0).

usage: make_fixtures.py > ggml_fixtures.h; tools/format ggml_fixtures.h
"""
import ctypes

import numpy as np

ggml = ctypes.CDLL("libggml-base.so.0")
ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int] + 2 * [ctypes.c_void_p] + 3 * [ctypes.c_int64] + [ctypes.c_void_p]

# name: (number of the type, elements, bytes, where f16 numbers lie)
FORMATS = {
    "Q8_0": (8, 32, 34, [0]), "Q4_0": (2, 32, 18, [0]), "Q4_1": (3, 32, 20, [0, 2]), "Q5_0": (6, 32, 22, [0]),
    "Q5_1": (7, 32, 24, [0, 2]), "Q2_K": (10, 256, 84, [80, 82]), "Q3_K": (11, 256, 110, [108]),
    "Q4_K": (12, 256, 144, [0, 2]), "Q5_K": (13, 256, 176, [0, 2]), "Q6_K": (14, 256, 210, [208]),
    "IQ4_NL": (20, 32, 18, [0]), "IQ4_XS": (23, 256, 136, [0]), "MXFP4": (39, 32, 17, []),
    "TQ1_0": (34, 256, 54, [52]), "TQ2_0": (35, 256, 66, [64]),
}
COLUMNS, ROWS = 512, 16


def decode(name, data, count):
    out = np.empty(count, np.float32)
    function = getattr(ggml, "dequantize_row_" + name.lower().replace("_k", "_K"))
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    function(data.ctypes.data, out.ctypes.data, count)
    return out


def encode(name, values, importance=None):
    number, elements, size, _ = FORMATS[name]
    out = np.zeros(values.size // elements * size, np.uint8)
    weights = None if importance is None else importance.ctypes.data
    ggml.ggml_quantize_chunk(number, values.ctypes.data, out.ctypes.data, 0, ROWS, COLUMNS, weights)
    return decode(name, out, values.size)


def test_values():
    """The values of test_values() in quantize_test.cpp: sums of four uniform numbers, each row wider than the last."""
    state, values = 12345, np.empty(ROWS * COLUMNS, np.float32)
    for i in range(values.size):
        total = 0
        for _ in range(4):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            total += (state >> 40) - 2**23
        values[i] = np.float32(total * 2.0**-23) * np.float32(0.01 * (1 + i // COLUMNS))
    return values


def importance():
    return np.array([1 + c * 7 % 13 for c in range(COLUMNS)], np.float32)


def wrapped(text):
    return "\n".join(f'     "{text[i:i + 112]}"' for i in range(0, len(text), 112))


random = np.random.default_rng(1)
print("#pragma once\n\n// Made by make_fixtures.py with ggml's library.\nnamespace etna::quant {\n")
print("struct GgmlFixture {")
print("  const char* format;\n  const char* block;   ///< in hex")
print("  const char* values;  ///< the bits of each float, in hex\n};\n")
print("inline constexpr GgmlFixture kGgmlFixtures[] = {")
for name, (_, elements, size, halves) in FORMATS.items():
    block = random.integers(0, 256, size, dtype=np.uint8)
    for at in halves:
        block[at:at + 2] = np.array([random.normal() * 0.1], np.float16).view(np.uint8)
    bits = decode(name, block, elements).view(np.uint32)
    print(f'    {{"{name}",\n{wrapped(block.tobytes().hex())},\n{wrapped("".join(f"{b:08x}" for b in bits))}}},')
print("};\n\n/// Squared errors of ggml's quantizers, summed over test_values(): plain, and weighted by importance().")
print("struct GgmlError {\n  const char* format;\n  double plain, weighted;\n};\n")
print("inline constexpr GgmlError kGgmlErrors[] = {")
values, weights = test_values(), np.tile(importance(), ROWS).astype(np.float64)
for name in FORMATS:
    plain = np.sum((encode(name, values).astype(np.float64) - values) ** 2)
    weighted = np.sum(weights * (encode(name, values, importance()).astype(np.float64) - values) ** 2)
    print(f'    {{"{name}", {plain:.6g}, {weighted:.6g}}},')
print("};\n\n}  // namespace etna::quant")
