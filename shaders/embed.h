#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// ETNA_EMBED(name, "file"): the file's bytes as `name()`. The assembler includes them, so the compiler need not parse
// them.
#if defined(__APPLE__)
#define ETNA_EMBED_SECTION ".const_data\n"
#elif defined(_WIN32)
#define ETNA_EMBED_SECTION ".section .rdata,\"dr\"\n"
#else
#define ETNA_EMBED_SECTION ".section .rodata,\"a\",%progbits\n"
#endif
#define ETNA_EMBED(NAME, FILE)                                                                                     \
  asm(ETNA_EMBED_SECTION ".balign 64\netna_begin_" #NAME ":\n.incbin \"" FILE "\"\netna_end_" #NAME ":\n.text\n"); \
  extern const std::byte NAME##_begin[] asm("etna_begin_" #NAME), NAME##_end[] asm("etna_end_" #NAME);             \
  inline std::span<const std::byte> NAME() { return {NAME##_begin, NAME##_end}; }

namespace etna::shaders {

/// SPIR-V as u32s. @param bytes aligned to 4
inline std::span<const std::uint32_t> words(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint32_t*>(bytes.data()), bytes.size() / sizeof(std::uint32_t)};
}

}  // namespace etna::shaders
