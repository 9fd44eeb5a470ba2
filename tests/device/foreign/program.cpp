#include <cstdio>

#include <etna/device/internal/cpu/instruction_sets.h>

// A program whose build may use instructions that no processor has. It must exit before it runs any of them.
namespace etna::cpu {
constinit const InstructionSets kBuiltFor = InstructionSets{1} << 63;
}

namespace {
const int initialized = std::puts("initializer");
}

int main() { return std::puts("main") + initialized > 0 ? 0 : 1; }
