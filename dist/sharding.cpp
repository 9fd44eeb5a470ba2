#include <etna/dist/sharding.h>

#include <map>
#include <mutex>

#include <etna/dist/dist.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::distributed {

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
  Tensor whole = empty(sharding.shape(parameter), {part.dtype(), kCPU});
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
