#pragma once

#include <etna/tensor/op.h>

/// Which function computes an op on a device.
namespace etna {

/// As OpDef::gpu: false where it has no kernel for these dtypes.
using KernelFunction = bool (*)(const OpCall&, std::span<Tensor> out);

/// Gives a backend a kernel of its own for an op, before the op first runs there. @throws Error where it has one
void register_kernel(DeviceType backend, std::string_view op, KernelFunction kernel);

/// Runs the op's kernel on a device other than the CPU: the one registered for its backend, else, where the backend
/// runs GPU kernels, the op's own. False where there is none for this call.
bool run_kernel(const OpCall& call, Device device, std::span<Tensor> out);

namespace detail {
/// A CPU tensor with x's values, shape and strides, whatever kernels x's device has. Counted as a transfer.
Tensor host_copy(const Tensor& x);
/// Writes a contiguous CPU tensor of y's shape and dtype into y, strided or not, by transfers alone.
void write_back(const Tensor& host, const Tensor& y);
}  // namespace detail

}  // namespace etna
