#include <etna/tensor/loss/cross_entropy.h>

namespace etna::cross_entropy_rows {

bool vulkan_forward(const OpCall&, std::span<Tensor>) { return false; }
bool vulkan_backward(const OpCall&, std::span<Tensor>) { return false; }

}  // namespace etna::cross_entropy_rows
