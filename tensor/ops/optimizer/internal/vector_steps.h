#pragma once

#include <cstdint>

/// Optimizer steps over flat memory, with vectors chosen at run time.
namespace etna::cpu {

/// One pass. Bytes-bound: each array is read and written once.
/// @param numbers the rule's numbers, in the order of its each() @param first true if the states do not hold anything
/// yet
using VectorStep = void(const float* numbers, bool first, float* x, const float* gradient, float* const* states,
                        std::int64_t n);

#define ETNA_OPTIMIZER(name, options, states) VectorStep name##_step;
#include <etna/shaders/optimizer_list.inc>
#undef ETNA_OPTIMIZER

}  // namespace etna::cpu
