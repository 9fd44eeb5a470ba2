#pragma once

#include <vector>

#include <conformance/samples.h>

namespace etna::conformance {

/// Where the walk's GPU half runs: $ETNA_DEVICE, or vulkan:0; the CPU where there is no GPU to walk on.
/// @throws DeviceError where a GPU is named, or ETNA_TEST_VULKAN=1 wants one, and none is there
Device gpu_under_test();

/// Every claim about one op, as gtest failures.
void walk(const OpDef& op, const std::vector<Sample>& samples);

}  // namespace etna::conformance
