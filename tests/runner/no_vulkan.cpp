#include <etna/device/internal/vulkan/api/diagnostics.h>

// Tests of every device ask the validation layers at their end; a build without Vulkan has none.
namespace etna::vulkan {

std::uint64_t validation_messages() { return 0; }
bool validation_enabled() { return false; }
bool barriers_everywhere() { return false; }
void set_barriers_everywhere(bool) {}

}  // namespace etna::vulkan
