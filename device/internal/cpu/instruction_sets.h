#pragma once

#include <cstddef>
#include <cstdint>

/// Compares the instruction sets the compiler may use with those of the processor. A build tuned for one processor
/// (ETNA_NATIVE=ON) would die of an illegal instruction on another. A constructor of the library checks first, reports
/// what is missing and exits with code 3.
namespace etna::cpu {

/// The sets a compiler uses by itself: X(name, predefined macro, CPUID leaf, subleaf, register (0 … 3: eax … edx), bit,
/// bits of XCR0 by which the operating system says that it saves the registers).
#define ETNA_INSTRUCTION_SETS(X)                                       \
  X("SSE3", __SSE3__, 1, 0, 2, 0, 0)                                   \
  X("SSSE3", __SSSE3__, 1, 0, 2, 9, 0)                                 \
  X("SSE4.1", __SSE4_1__, 1, 0, 2, 19, 0)                              \
  X("SSE4.2", __SSE4_2__, 1, 0, 2, 20, 0)                              \
  X("POPCNT", __POPCNT__, 1, 0, 2, 23, 0)                              \
  X("CMPXCHG16B", __GCC_HAVE_SYNC_COMPARE_AND_SWAP_16, 1, 0, 2, 13, 0) \
  X("MOVBE", __MOVBE__, 1, 0, 2, 22, 0)                                \
  X("AVX", __AVX__, 1, 0, 2, 28, 0x6)                                  \
  X("FMA", __FMA__, 1, 0, 2, 12, 0x6)                                  \
  X("F16C", __F16C__, 1, 0, 2, 29, 0x6)                                \
  X("AVX2", __AVX2__, 7, 0, 1, 5, 0x6)                                 \
  X("BMI1", __BMI__, 7, 0, 1, 3, 0)                                    \
  X("BMI2", __BMI2__, 7, 0, 1, 8, 0)                                   \
  X("ADX", __ADX__, 7, 0, 1, 19, 0)                                    \
  X("LZCNT", __LZCNT__, 0x80000001, 0, 2, 5, 0)                        \
  X("SSE4A", __SSE4A__, 0x80000001, 0, 2, 6, 0)                        \
  X("XOP", __XOP__, 0x80000001, 0, 2, 11, 0x6)                         \
  X("FMA4", __FMA4__, 0x80000001, 0, 2, 16, 0x6)                       \
  X("TBM", __TBM__, 0x80000001, 0, 2, 21, 0)                           \
  X("GFNI", __GFNI__, 7, 0, 2, 8, 0)                                   \
  X("AVX512F", __AVX512F__, 7, 0, 1, 16, 0xe6)                         \
  X("AVX512DQ", __AVX512DQ__, 7, 0, 1, 17, 0xe6)                       \
  X("AVX512IFMA", __AVX512IFMA__, 7, 0, 1, 21, 0xe6)                   \
  X("AVX512ER", __AVX512ER__, 7, 0, 1, 27, 0xe6)                       \
  X("AVX512CD", __AVX512CD__, 7, 0, 1, 28, 0xe6)                       \
  X("AVX512BW", __AVX512BW__, 7, 0, 1, 30, 0xe6)                       \
  X("AVX512VL", __AVX512VL__, 7, 0, 1, 31, 0xe6)                       \
  X("AVX512VBMI", __AVX512VBMI__, 7, 0, 2, 1, 0xe6)                    \
  X("AVX512VBMI2", __AVX512VBMI2__, 7, 0, 2, 6, 0xe6)                  \
  X("AVX512VNNI", __AVX512VNNI__, 7, 0, 2, 11, 0xe6)                   \
  X("AVX512BITALG", __AVX512BITALG__, 7, 0, 2, 12, 0xe6)               \
  X("AVX512VPOPCNTDQ", __AVX512VPOPCNTDQ__, 7, 0, 2, 14, 0xe6)         \
  X("AVX512VP2INTERSECT", __AVX512VP2INTERSECT__, 7, 0, 3, 8, 0xe6)    \
  X("AVX512FP16", __AVX512FP16__, 7, 0, 3, 23, 0xe6)                   \
  X("AVX512BF16", __AVX512BF16__, 7, 1, 0, 5, 0xe6)                    \
  X("AVX-VNNI", __AVXVNNI__, 7, 1, 0, 4, 0x6)                          \
  X("AVX-IFMA", __AVXIFMA__, 7, 1, 0, 23, 0x6)                         \
  X("AVX-VNNI-INT8", __AVXVNNIINT8__, 7, 1, 3, 4, 0x6)                 \
  X("AVX-NE-CONVERT", __AVXNECONVERT__, 7, 1, 3, 5, 0x6)               \
  X("AVX-VNNI-INT16", __AVXVNNIINT16__, 7, 1, 3, 10, 0x6)              \
  X("AMX-BF16", __AMX_BF16__, 7, 0, 3, 22, 0x60000)                    \
  X("AMX-TILE", __AMX_TILE__, 7, 0, 3, 24, 0x60000)                    \
  X("AMX-INT8", __AMX_INT8__, 7, 0, 3, 25, 0x60000)                    \
  X("AMX-FP16", __AMX_FP16__, 7, 1, 0, 21, 0x60000)                    \
  X("APX", __APX_F__, 7, 1, 3, 21, 0x80000)

/// One bit per line above, starting with the lowest.
using InstructionSets = std::uint64_t;

/// The sets the compiler may use; 0 except on x86-64.
extern const InstructionSets kBuiltFor;

/// The sets that this processor has and the operating system supports.
InstructionSets instruction_sets();

/// Names the sets in `needed` that `present` lacks, in one sentence that ends with a line break; empty where none is
/// missing.
/// @param text receives the sentence, truncated to `room` bytes @returns its length
std::size_t explain_missing(InstructionSets needed, InstructionSets present, char* text, std::size_t room);

}  // namespace etna::cpu
