#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/internal/graph/fusion_plan.h>

namespace etna::vulkan::fusion {

using graph::fusion::Kernel;

/// A kernel as GLSL. Addresses, sizes, strides and scalars are u32 values that the kernel reads at run time, so kernels
/// of the same structure share a text.
struct KernelText {
  std::string source;
  Arguments arguments;                    ///< those values, in the order the text declares them
  bool in_table = false;                  ///< they exceed the push constants, which hold the address of a table instead
  std::uint32_t elements_a_group = 1024;  ///< of an elementwise kernel
};

/// @param pushed bytes of push constants that the reduction itself uses
/// @param units compute units of the device
KernelText kernel_text(const Kernel& kernel, std::size_t pushed, std::uint32_t units);

}  // namespace etna::vulkan::fusion
