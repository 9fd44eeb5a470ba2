#include <etna/nn/parallel/internal/parameter_block.h>

#include <algorithm>
#include <utility>

#include <etna/device/error.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/collective_ops.h>
#include <etna/dist/sharding.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/layout.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::distributed {
namespace {

StoragePtr storage_without_bytes(Device device, std::size_t bytes) {
  return std::make_shared<Storage>(device, bytes, nullptr, 0, nullptr);
}

/// Another place for the elements of a tensor that others hold handles to.
void place(const Tensor& x, StoragePtr storage, const Shape& shape, std::int64_t offset) {
  TensorImpl& impl = *x.impl();
  impl.storage = std::move(storage);
  impl.shape = shape;
  impl.strides = contiguous_strides(shape);
  impl.offset = offset;
  impl.contiguous = true;
}

}  // namespace

ParameterBlock::ParameterBlock(std::vector<Tensor> parameters, std::vector<std::int64_t> offsets, std::int64_t part) {
  const GradMode off(false);
  const DType dtype = parameters.front().dtype();
  const Device device = parameters.front().device();
  {
    const MemoryScope scope(MemoryUse::weights);
    values_ = zeros({part}, {dtype, device});
  }
  const std::int64_t first = part * rank(), end = first + part;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    members_.push_back({p, p.shape(), offsets[i]});
    const std::int64_t from = std::max(first, offsets[i]), to = std::min(end, offsets[i] + p.numel());
    if (from >= to) continue;
    const Tensor flat = p.detach().view({p.numel()}).slice(0, from - offsets[i], to - offsets[i]);
    values_.slice(0, from - first, to - first).copy_(flat);
  }
  shared_ = storage_without_bytes(device, static_cast<std::size_t>(part * size()) * item_size(dtype));
  here_ = true;
  release();
}

ParameterBlock::~ParameterBlock() {
  try {
    release();
  } catch (const Error&) {
    // The group has ended, and what was on its way with it.
  }
}

void ParameterBlock::start() {
  capture_hooks::forbid("DataParallel", "gathers the parameters of a block (ZeRO stage 3), so pass captured = false");
  if (here_ || all_.defined()) return;
  const MemoryScope scope(MemoryUse::weights);
  all_ = empty({values_.numel() * size()}, {values_.dtype(), values_.device()});
  start_all_gather_(all_, values_);
}

void ParameterBlock::gather() {
  if (here_) return;
  const GradMode off(false);
  start();
  finish_all_reduces_(all_);
  shared_->rebind(all_.storage(), static_cast<std::size_t>(all_.offset()) * item_size(all_.dtype()));
  for (const Member& m : members_) place(m.parameter, shared_, m.shape, m.offset);
  here_ = true;
}

void ParameterBlock::release() {
  if (!here_ && !all_.defined()) return;
  const GradMode off(false);
  if (!here_) {
    finish_all_reduces_(all_);
  } else {
    (void)memory_stats(shared_->device());  // queues what is held back, which may read the parameters
    for (const Member& m : members_) place(m.parameter, divided_storage(shared_->device()), {0}, 0);
    shared_->rebind(storage_without_bytes(shared_->device(), 0), 0);
  }
  all_ = {};
  here_ = false;
}

void ParameterBlock::count_change() { shared_->count_write("step"); }

}  // namespace etna::distributed
