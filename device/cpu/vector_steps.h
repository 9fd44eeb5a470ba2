#pragma once

#include <cstdint>

/// Optimizers' steps over flat memory, by vectors chosen at run time.
namespace etna::cpu {

/// One pass: reads and writes each array once, which bounds it.
/// @param numbers those of the rule, in the order of its each() @param first whether the states hold nothing yet
using VectorStep = void(const float* numbers, bool first, float* x, const float* gradient, float* const* states,
                        std::int64_t n);

#define ETNA_OPTIMIZER(name, options, states) VectorStep name##_step;
#include <etna/tensor/ops/optimizer/rules.def>
#undef ETNA_OPTIMIZER

}  // namespace etna::cpu
