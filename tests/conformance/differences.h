#pragma once

#include <string>

#include <conformance/samples.h>

namespace etna::conformance {

/// Compares a sample's gradients with central differences in f64 on the CPU and reports gtest failures. Checks every
/// element if there are few, random directions if there are many.
/// @return the orders that were checked: "", "1st" or "1st, 2nd"
std::string check_differences(const Sample& sample);

}  // namespace etna::conformance
