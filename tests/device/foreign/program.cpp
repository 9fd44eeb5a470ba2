#include <cstdio>

#include <etna/device/cpu/instruction_sets.h>

// A program whose build may use instructions that no processor has: it ends before any of this.
namespace etna::cpu {
constinit const InstructionSets kBuiltFor = InstructionSets{1} << 63;
}

namespace {
const int initialized = std::puts("initializer");
}

int main() { return std::puts("main") + initialized > 0 ? 0 : 1; }
