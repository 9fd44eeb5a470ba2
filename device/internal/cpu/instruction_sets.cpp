#include <etna/device/internal/cpu/instruction_sets.h>

#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
// This runs before everything else and reports that the rest cannot run. It is compiled for every x86-64
// (device/CMakeLists.txt). It calls no function template or inline function of a library: the linker keeps one copy of
// those, and that copy may come from a file compiled for a newer processor.
#if defined(__SSE3__)
#error "instruction_sets.cpp must be compiled with -march=x86-64"
#endif
#endif

namespace etna::cpu {
namespace {

struct Row {
  const char* name;
  unsigned leaf, subleaf, reg, bit, kept_by_system;
};
constexpr Row kRows[] = {
#define ETNA_ROW(name, macro, ...) {name, __VA_ARGS__},
    ETNA_INSTRUCTION_SETS(ETNA_ROW)
#undef ETNA_ROW
};
static_assert(sizeof(kRows) / sizeof(kRows[0]) <= 64, "one bit each");

struct Text {
  char* to;
  std::size_t room, length;

  void add(const char* what) {
    for (; *what != 0 && length < room; ++what) to[length++] = *what;
  }
};

}  // namespace

InstructionSets instruction_sets() {
  InstructionSets found = 0;
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  std::uint64_t kept = 0;
  constexpr unsigned kXgetbv = 1u << 27;  // the operating system enabled XGETBV
  if (__get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kXgetbv) != 0) {
    asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    kept = a | static_cast<std::uint64_t>(d) << 32;
  }
  InstructionSets bit = 1;
  for (const Row& row : kRows) {
    unsigned registers[4] = {};
    // For subleaves that do not exist, a processor repeats existing ones or returns garbage.
    bool known = __get_cpuid_count(row.leaf, 0, &registers[0], &registers[1], &registers[2], &registers[3]) != 0;
    if (known && row.subleaf > 0) {
      known = registers[0] >= row.subleaf;
      if (known) __cpuid_count(row.leaf, row.subleaf, registers[0], registers[1], registers[2], registers[3]);
    }
    if (known && (registers[row.reg] >> row.bit & 1u) != 0 && (kept & row.kept_by_system) == row.kept_by_system)
      found |= bit;
    bit <<= 1;
  }
#endif
  return found;
}

std::size_t explain_missing(InstructionSets needed, InstructionSets present, char* text, std::size_t room) {
  InstructionSets missing = needed & ~present;
  if (missing == 0) return 0;
  Text out{text, room, 0};
  out.add("etna: this build was made for another processor: it uses ");
  bool first = true;
  for (const Row& row : kRows) {
    if ((missing & 1u) != 0) {
      if (!first) out.add(", ");
      out.add(row.name);
      first = false;
    }
    missing >>= 1;
  }
  if (missing != 0) out.add(first ? "unknown instructions" : " and unknown instructions");
  out.add(
      ", which this processor or its operating system lacks; configure anew in a fresh folder, or with "
      "-DETNA_NATIVE=OFF for a build that runs on every x86-64\n");
  return out.length;
}

}  // namespace etna::cpu

#if defined(__x86_64__)
/// Runs before the static initializers of the library and of programs that use it. Linking a static library requests it
/// by name.
extern "C" __attribute__((constructor(101), used, visibility("default"))) void etna_check_processor() {
  char text[2048];
  std::size_t length =
      etna::cpu::explain_missing(etna::cpu::kBuiltFor, etna::cpu::instruction_sets(), text, sizeof text);
  for (std::size_t at = 0; at < length;) {
    ssize_t written = write(STDERR_FILENO, text + at, length - at);
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
  if (length > 0) _exit(3);
}
#endif
