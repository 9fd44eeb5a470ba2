#pragma once

#include <iosfwd>

#include <etna/device/device.h>
#include <etna/tensor/dtype.h>

namespace etna {

/// "vulkan:0", "f32", as their names.
std::ostream& operator<<(std::ostream& out, Device device);
std::ostream& operator<<(std::ostream& out, DType dtype);

}  // namespace etna
