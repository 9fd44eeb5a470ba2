#include <algorithm>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/memory.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/collective_ops.h>
#include <etna/nn/parallel/internal/zero_sharding.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::distributed {
namespace {

/// Elements that parameters and parts begin at multiples of: kernels read them by vectors.
constexpr std::int64_t kPartAlignment = 64;

std::int64_t aligned(std::int64_t elements) {
  return (elements + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

}  // namespace

ZeroSharding::~ZeroSharding() {
  for (const Placed& p : placed_) note_divided_gradient(p.parameter, false);
}

std::shared_ptr<ParameterBlock> ZeroSharding::add_bucket(const std::vector<Tensor>& parameters, bool divided) {
  const GradMode off(false);
  Bucket bucket;
  bucket.dtype = parameters.front().dtype(), bucket.device = parameters.front().device();
  std::vector<std::int64_t> offsets;
  std::int64_t at = 0;
  for (const Tensor& p : parameters) {
    if (!p.is_contiguous())
      throw Error(
          fmt::format("DataParallel: a parameter {} has gaps or another order of its elements, so it cannot be "
                      "divided; make it contiguous() first",
                      str(p.shape())));
    index_[p.impl()] = placed_.size();
    if (!whole_gradients_) note_divided_gradient(p, true);
    bucket.parameters.push_back(placed_.size());
    const Tensor flat = divided ? Tensor() : p.detach().view({p.numel()});
    placed_.push_back({p, p.shape(), p.numel(), flat, {}, buckets_.size(), at, false});
    offsets.push_back(at);
    at = aligned(at + p.numel());
  }
  bucket.part = aligned((at + size() - 1) / size());
  if (!whole_gradients_) {
    const MemoryScope scope(MemoryUse::gradients);
    bucket.gradients = zeros({bucket.part}, {bucket.dtype, bucket.device});
  }
  if (divided) bucket.block = std::make_shared<ParameterBlock>(parameters, offsets, bucket.part);
  buckets_.push_back(bucket);
  for (const std::size_t i : bucket.parameters) {
    Placed& p = placed_[i];
    const Range own = range(p.parameter, rank());
    if (divided) {
      const std::int64_t in_part = own.size() > 0 ? p.offset + own.begin - bucket.part * rank() : 0;
      p.part = bucket.block->values().slice(0, in_part, in_part + own.size()).detach().requires_grad_();
    } else {
      p.part = p.flat.slice(0, own.begin, own.end).detach().requires_grad_();
    }
  }
  return bucket.block;
}

Sharding::Range ZeroSharding::range(const Tensor& parameter, int rank) const {
  const Placed& p = of(parameter);
  const std::int64_t begin = buckets_[p.bucket].part * rank, end = begin + buckets_[p.bucket].part;
  const auto within = [&](std::int64_t at) { return std::clamp<std::int64_t>(at - p.offset, 0, p.size); };
  return {within(begin), within(end)};
}

void ZeroSharding::stepped() {
  for (const Bucket& bucket : buckets_) {
    if (bucket.block != nullptr) {
      bucket.block->release();  // what was gathered ahead in vain
      bucket.block->count_change();
      continue;
    }
    const std::int64_t begin = bucket.part * rank();
    Tensor own = zeros({bucket.part}, {bucket.dtype, bucket.device});
    for (const std::size_t i : bucket.parameters) {
      const Placed& p = placed_[i];
      const Range range = this->range(p.parameter, rank());
      if (range.size() == 0) continue;
      const std::int64_t at = p.offset + range.begin - begin;
      own.slice(0, at, at + range.size()).copy_(p.part.detach());
    }
    const Tensor all = all_gather(own);
    for (const std::size_t i : bucket.parameters) {
      const Placed& p = placed_[i];
      Tensor(p.flat).copy_(all.slice(0, p.offset, p.offset + p.flat.numel()));
    }
  }
}

ZeroSharding::Staging ZeroSharding::staging(const Bucket& bucket) {
  const DType dtype = bucket.dtype == f32 ? travel_ : bucket.dtype;
  Staging& shared = staging_[{dtype, bucket.device}];
  if (!shared.all.defined()) {
    std::int64_t most = 0;
    for (const Bucket& b : buckets_)
      if (b.dtype == bucket.dtype && b.device == bucket.device) most = std::max(most, b.part);
    const NotCaptured now;  // replays use the same
    const MemoryScope scope(MemoryUse::gradients);
    shared = {zeros({most * size()}, {dtype, bucket.device}), zeros({most}, {dtype, bucket.device})};
  }
  return {shared.all.slice(0, 0, bucket.part * size()), shared.reduced.slice(0, 0, bucket.part)};
}

void ZeroSharding::reduce(std::size_t index) {
  finish_running();
  const Bucket& bucket = buckets_[index];
  const Staging to = staging(bucket);
  for (const std::size_t i : bucket.parameters) {
    Placed& p = placed_[i];
    const Tensor place = to.all.slice(0, p.offset, p.offset + p.size);
    if (const Tensor grad = p.parameter.grad(); grad.defined())
      Tensor(place.view(grad.shape())).copy_(grad);
    else
      Tensor(place).zero_();
    p.parameter.set_grad({});
  }
  if (bucket.block != nullptr) bucket.block->release();
  start_reduce_scatter_(to.reduced, to.all, Reduce::mean);
  running_ = &bucket;
}

void ZeroSharding::finish_running() {
  if (running_ == nullptr) return;
  const Bucket& bucket = *std::exchange(running_, nullptr);
  const Staging from = staging(bucket);
  finish_all_reduces_(from.reduced);
  finish_all_reduces_(from.all);  // orders what is written there next
  for (const std::size_t i : bucket.parameters) {
    Placed& p = placed_[i];
    const Range own = range(p.parameter, rank());
    const std::int64_t at = own.size() > 0 ? p.offset + own.begin - bucket.part * rank() : 0;
    const Tensor mean = from.reduced.slice(0, at, at + own.size());
    Tensor place = bucket.gradients.slice(0, at, at + own.size());
    p.added = p.part.grad().defined();
    if (own.size() == 0) continue;
    if (p.added)
      place.add_(mean.to(bucket.dtype));
    else
      place.copy_(mean);
  }
}

void ZeroSharding::finish(const std::function<bool(const Tensor& parameter)>& used) {
  finish_running();
  for (Placed& p : placed_) {
    if (p.added || !used(p.parameter)) continue;
    const Bucket& bucket = buckets_[p.bucket];
    const Range own = range(p.parameter, rank());
    const std::int64_t at = own.size() > 0 ? p.offset + own.begin - bucket.part * rank() : 0;
    p.part.set_grad(bucket.gradients.slice(0, at, at + own.size()));
  }
}

}  // namespace etna::distributed
