#include <etna/dist/sharding.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <unordered_set>

#include <etna/dist/dist.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::distributed {
namespace {

/// On the CPU, in memory of the process that does not count toward ETNA_MEMORY_LIMIT: what is gathered is larger than
/// what a rank may hold for training.
Tensor tensor_beside_the_allocator(const Shape& shape, DType dtype) {
  constexpr std::align_val_t kAlign{256};
  const std::size_t bytes = std::max<std::size_t>(static_cast<std::size_t>(numel(shape)) * item_size(dtype), 1);
  std::shared_ptr<std::byte> memory(static_cast<std::byte*>(::operator new(bytes, kAlign)),
                                    [](std::byte* at) { ::operator delete(at, kAlign); });
  const auto address = reinterpret_cast<std::uint64_t>(memory.get());
  const auto impl = std::make_shared<TensorImpl>();
  impl->storage = StoragePtr(new Storage(kCPU, bytes, memory.get(), address, nullptr),
                             [memory](const Storage* storage) { delete storage; });
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  impl->device = kCPU;
  return Tensor(impl);
}

}  // namespace

StoragePtr divided_storage(Device device) {
  static std::mutex mutex;
  static auto* storages = new std::map<Device, StoragePtr>;  // devices may go before them
  const std::lock_guard lock(mutex);
  StoragePtr& of = (*storages)[device];
  if (of == nullptr) of = std::make_shared<Storage>(device, 0, nullptr, 0, nullptr);
  return of;
}

bool is_divided(const Tensor& parameter) {
  return parameter.numel() == 0 && parameter.storage() == divided_storage(parameter.device());
}

namespace {

/// Parameters whose gradients are divided, and the mutex for them.
struct DividedGradients {
  std::mutex mutex;
  std::unordered_set<const TensorImpl*> parameters;
};
DividedGradients& divided_gradients() {
  static auto* made = new DividedGradients;  // models may end after static objects
  return *made;
}

}  // namespace

bool has_divided_gradient(const Tensor& parameter) {
  DividedGradients& all = divided_gradients();
  const std::lock_guard lock(all.mutex);
  return all.parameters.contains(parameter.impl());
}

void note_divided_gradient(const Tensor& parameter, bool divided) {
  DividedGradients& all = divided_gradients();
  const std::lock_guard lock(all.mutex);
  if (divided)
    all.parameters.insert(parameter.impl());
  else
    all.parameters.erase(parameter.impl());
}

Tensor gradient_of_part(const Sharding& sharding, const Tensor& parameter) {
  if (!sharding.has_whole_gradients()) return sharding.part(parameter).grad();
  const Tensor whole = parameter.grad();
  if (!whole.defined()) return {};
  const Sharding::Range own = sharding.range(parameter, rank());
  return whole.contiguous().view({-1}).slice(0, own.begin, own.end);
}

Tensor gather_parts(const Sharding& sharding, const Tensor& parameter, const Tensor& part) {
  const GradMode off(false);
  if (rank() != 0) {
    if (part.numel() > 0) send(part, 0);
    return {};
  }
  Tensor whole = tensor_beside_the_allocator(sharding.shape(parameter), part.dtype());
  const Tensor flat = whole.view({whole.numel()});
  for (int r = 0; r < size(); ++r) {
    const Sharding::Range range = sharding.range(parameter, r);
    if (range.size() == 0) continue;
    Tensor values = part;
    if (r > 0) {
      values = empty({range.size()}, {part.dtype(), part.device()});
      receive_(values, r);
    }
    flat.slice(0, range.begin, range.end).copy_(values);
  }
  return whole;
}

}  // namespace etna::distributed
