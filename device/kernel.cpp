#include <etna/device/kernel.h>

#include <algorithm>

namespace etna::gpu {

bool Capabilities::has(const MatrixShape& shape) const {
  return std::find(matrix_shapes.begin(), matrix_shapes.end(), shape) != matrix_shapes.end();
}

}  // namespace etna::gpu
