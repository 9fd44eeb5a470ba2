#pragma once

#include <utility>
#include <vector>

#include <etna/tensor/op.h>

/// The choice of the function that computes an op on a device.
namespace etna {

/// Like OpDef::gpu: returns false if it has no kernel for these dtypes.
using KernelFunction = bool (*)(const OpCall&, std::span<Tensor> out);

/// Registers a backend's own kernel for an op, before the op first runs there. @throws Error if it has one already
void register_kernel(DeviceType backend, std::string_view op, KernelFunction kernel);

/// Runs the op's kernel on a device other than the CPU: the kernel registered for the backend, else the op's own if the
/// backend runs GPU kernels. Returns false if there is none for this call.
bool run_kernel(const OpCall& call, Device device, std::span<Tensor> out);

namespace detail {
/// Computes the outputs of a call, which are allocated: runs its kernel, or falls back. Ops called inside are neither
/// recorded on the tape, nor autocast, nor fused.
void compute(const OpCall& call, Device device, TensorList& out);
/// The same without a fallback: returns false if there is no kernel.
bool compute_by_kernel(const OpCall& call, Device device, TensorList& out);
/// True while this thread is inside one of these.
bool computing();

/// A tensor that takes memory when a kernel, or anybody, first asks where it is.
Tensor empty_when_used(const char* op, const Shape& shape, TensorOptions options);

/// While leaks are watched (memory_leaks.h): what a storage is. A tensor of empty() is the running op's.
void note_maker(const Storage& storage, const char* op, const Shape& shape, DType dtype);

/// Whether the kernels of the CPU compute on the device's memory (Backend::computes_by_cpu_kernels()).
bool computes_by_cpu_kernels(Device device);
/// Tensors of the CPU over the memory of tensors of such a device. Those that share a storage still do.
class HostAliases {
 public:
  Tensor of(const Tensor& x);

 private:
  std::vector<std::pair<StoragePtr, StoragePtr>> storages_;
};

/// A CPU tensor with x's values, shape and strides; needs no kernel on x's device. Counted as a transfer.
Tensor host_copy(const Tensor& x);
/// Writes a contiguous CPU tensor of y's shape and dtype into y, strided or not, using transfers only.
void write_back(const Tensor& host, const Tensor& y);
}  // namespace detail

}  // namespace etna
