#include <etna/tensor/reduce/reduce.h>

namespace etna::reduce {

bool vulkan(const OpCall&, std::span<Tensor> out) { return out[0].numel() == 0; }

}  // namespace etna::reduce
