#include <etna/device/internal/cpu/instruction_sets.h>

// Compiled with the same flags as everything else, so its predefined macros show which instructions the rest may use.
// Contains only a constant, no code.
namespace etna::cpu {

// A macro that is not defined expands to its own name, which begins with an underscore.
#define ETNA_TEXT_OF(macro) #macro
#define ETNA_TAKE(name, macro, ...)                             \
  sets |= InstructionSets{ETNA_TEXT_OF(macro)[0] != '_'} << at; \
  ++at;

namespace {
constexpr InstructionSets allowed() {
  InstructionSets sets = 0;
#if defined(__x86_64__)
  int at = 0;
  ETNA_INSTRUCTION_SETS(ETNA_TAKE)
#endif
  return sets;
}
}  // namespace

constinit const InstructionSets kBuiltFor = allowed();

}  // namespace etna::cpu
