#include <etna/tensor/internal/kernels.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/backend.h>
#include <etna/device/internal/counting.h>
#include <etna/tensor/internal/layout.h>

namespace etna {
namespace {

struct Registered {
  std::shared_mutex mutex;
  std::map<std::string, KernelFunction, std::less<>> kernels;
};

Registered& registered(DeviceType backend) {
  static auto* all = new std::array<Registered, 256>;
  return (*all)[static_cast<std::size_t>(backend)];
}

KernelFunction find(DeviceType backend, std::string_view op) {
  Registered& of = registered(backend);
  std::shared_lock lock(of.mutex);
  auto found = of.kernels.find(op);
  return found != of.kernels.end() ? found->second : nullptr;
}

/// Bytes from x's first element through its last.
std::size_t span_of(const Tensor& x) {
  std::int64_t last = 0;
  for (int d = 0; d < x.dim(); ++d) last += (x.shape()[d] - 1) * x.strides()[d];
  return static_cast<std::size_t>(last + 1) * item_size(x.dtype());
}

/// For backends that compute by the kernels of the CPU. An op without one is composed of others.
bool run_cpu_kernel_on(const OpCall& call, std::span<Tensor> out) {
  if (call.op.cpu == nullptr) {
    if (call.op.reference == nullptr) return false;
    const TensorList composed = call.op.reference(call);
    for (std::size_t i = 0; i < out.size(); ++i) out[i].copy_(composed[i]);
    return true;
  }
  detail::HostAliases aliases;
  TensorList in, host_out;
  for (const Tensor& x : call.in) in.push_back(aliases.of(x));
  for (const Tensor& y : out) host_out.push_back(aliases.of(y));
  call.op.cpu({call.op, in, call.attrs}, host_out);
  return true;
}

}  // namespace

void register_kernel(DeviceType backend, std::string_view op, KernelFunction kernel) {
  Registered& of = registered(backend);
  std::unique_lock lock(of.mutex);
  if (!of.kernels.emplace(op, kernel).second) {
    throw Error(fmt::format("{} has a kernel for {} already", Device(backend).str(), op));
  }
}

bool run_kernel(const OpCall& call, Device device, std::span<Tensor> out) {
  if (gpu::runs_kernels(device)) return call.op.gpu != nullptr && call.op.gpu(call, out);
  if (detail::computes_by_cpu_kernels(device)) return run_cpu_kernel_on(call, out);
  const KernelFunction kernel = find(device.type, call.op.name);
  if (kernel == nullptr || !kernel(call, out)) return false;
  if (counting::on())
    counting::ran(counting::row({device, call.op.name, call.op.name}, [] { return std::string("registered"); }));
  return true;
}

namespace detail {

bool computes_by_cpu_kernels(Device device) { return backend(device).computes_by_cpu_kernels(); }

Tensor HostAliases::of(const Tensor& x) {
  if (!x.defined()) return x;
  auto known = std::find_if(storages_.begin(), storages_.end(), [&](const auto& s) { return s.first == x.storage(); });
  if (known == storages_.end()) {
    auto host = std::make_shared<Storage>(kCPU, x.storage()->bytes(), nullptr, 0, nullptr);
    host->rebind(x.storage(), 0);
    known = storages_.emplace(storages_.end(), x.storage(), host);
  }
  return make_view(known->second, kCPU, x.dtype(), x.shape(), x.strides(), x.offset());
}

Tensor host_copy(const Tensor& x) {
  if (x.numel() == 0) return empty(x.shape(), {x.dtype(), kCPU});
  const std::size_t bytes = span_of(x);
  StoragePtr storage = allocate(kCPU, bytes);
  download(*x.storage(), static_cast<std::size_t>(x.offset()) * item_size(x.dtype()), storage->host(), bytes);
  return make_view(storage, kCPU, x.dtype(), x.shape(), x.strides(), 0);
}

void write_back(const Tensor& host, const Tensor& y) {
  if (y.numel() == 0) return;
  const std::size_t offset = static_cast<std::size_t>(y.offset()) * item_size(y.dtype());
  if (y.is_contiguous()) {
    upload(host.raw_data(), *y.storage(), offset, static_cast<std::size_t>(y.numel()) * item_size(y.dtype()));
    return;
  }
  // The bytes between y's elements belong to other tensors and must not change.
  Tensor around = host_copy(y);
  around.copy_(host);
  upload(around.storage()->host(), *y.storage(), offset, span_of(y));
}

}  // namespace detail
}  // namespace etna
