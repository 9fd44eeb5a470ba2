#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/vulkan/graph/fusion/plan.h>

namespace etna::vulkan::fusion {

/// A kernel as GLSL. Addresses, sizes, strides and scalars are words that it reads when it runs, so that kernels of one
/// structure share a text.
struct KernelText {
  std::string source;
  Arguments arguments;    ///< those words, in the order the text declares them
  bool in_table = false;  ///< they are too many for push constants: these hold the address of a table with them
  std::string label;      ///< "fused(mul, tanh, add)"
  std::uint32_t elements_a_group = 1024;  ///< of a kernel of its own
};

/// Of labels, the terminating 0 included.
inline constexpr std::size_t kLabelBytes = 32;

/// @param pushed bytes of push constants that the reduction's own take up
/// @param units compute units of the device
KernelText kernel_text(const Kernel& kernel, std::size_t pushed, std::uint32_t units);

}  // namespace etna::vulkan::fusion
