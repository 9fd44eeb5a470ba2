#pragma once

#include <vector>

#include <conformance/samples.h>

namespace etna::conformance {

/// The device of the walk's GPU half: $ETNA_DEVICE, or vulkan:0; the CPU if there is no GPU.
/// @throws DeviceError if a GPU is named, or ETNA_TEST_VULKAN=1 requires one, and there is none
Device gpu_under_test();

/// The functions composed of ops, as definitions without kernels.
const std::vector<OpDef>& composed_ops();

/// Every claim about one op on its samples, as gtest failures.
void walk(const OpDef& op);

}  // namespace etna::conformance
