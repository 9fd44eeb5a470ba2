#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <etna/device/kernel.h>

/// Whether the library would run on macOS, by reading: what MoltenVK reports on a Mac with an Apple chip and macOS 13
/// or newer, compared with what every adapter must offer and what each shader's SPIR-V asks for. A build without Vulkan
/// lacks it.
namespace etna {

/// Where the list was read: MoltenVK/GPUObjects/MVKDevice.mm and Docs/MoltenVK_Runtime_UserGuide.md of this commit of
/// github.com/KhronosGroup/MoltenVK, of 2025.
inline constexpr const char* kMoltenVkCommit = "0073a1030";

struct MoltenVkReport {
  std::string missing;      ///< of what every adapter must offer; empty: nothing
  std::size_t kernels = 0;  ///< that this build has
  std::size_t unbuilt = 0;  ///< that it left out, since the GLSL compiler lacked an extension
  struct LeftOut {
    std::string lacks;  ///< "float64"
    std::vector<std::string> kernels;
  };
  std::vector<LeftOut> left_out;  ///< kernels that would not run there
};

MoltenVkReport moltenvk_report(std::span<const gpu::Shader* const> shaders);

}  // namespace etna
