#include <etna/nn/parallel/data_parallel.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/autograd/autograd.h>
#include <etna/autograd/internal/final_gradients.h>
#include <etna/device/memory.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/collective_ops.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna::distributed {
namespace {

constexpr std::int64_t kAlignment = 256;  ///< bytes; kernels read gradients by vectors

struct ReducedParameter {
  std::string name;
  Tensor parameter;
  Tensor place;  ///< of its gradient, in the arena
  std::size_t bucket = 0;
  bool arrived = false;
  bool used = true;  ///< by some rank, when that was last asked
  HookHandle hook = {};
};

struct GradientBucket {
  Tensor flat;    ///< a part of the arena
  Tensor narrow;  ///< what travels instead; undefined: the same
  std::int64_t parameters = 0, arrived = 0;
};

bool same_place(const Tensor& a, const Tensor& b) {
  return a.defined() && a.storage() == b.storage() && a.offset() == b.offset() && a.dtype() == b.dtype();
}

std::string description(const nn::Module& model) {
  std::string text;
  for (const auto& [name, x] : model.named_parameters())
    text += fmt::format("parameter {} {} {}{}\n", name, str(x.shape()), etna::name(x.dtype()),
                        x.requires_grad() ? "" : ", frozen");
  for (const auto& [name, x] : model.named_buffers())
    text += fmt::format("buffer {} {} {}\n", name, str(x.shape()), etna::name(x.dtype()));
  return text;
}

}  // namespace

struct DataParallel::State {
  nn::Module& model;
  DataParallelOptions options;
  std::vector<ReducedParameter> parameters;  ///< the last of the model first: about as their gradients come
  std::vector<GradientBucket> buckets;
  std::vector<Tensor> arenas;  ///< one for each dtype and device
  std::size_t started = 0;     ///< buckets of this backward
  bool reduces = true, running = false;

  State(nn::Module& m, DataParallelOptions o) : model(m), options(o) {}
  ~State() {
    for (ReducedParameter& p : parameters) p.hook.remove();
  }

  void lay_out();
  void arrive(std::size_t index);
  void start_ready();
  void finish();
  void fill_missing();
};

/// Places gradients in arenas, and divides these into buckets.
void DataParallel::State::lay_out() {
  for (auto& [name, x] : model.named_parameters()) {
    if (x.requires_grad()) parameters.push_back({name, x, {}});
  }
  std::reverse(parameters.begin(), parameters.end());
  std::vector<std::size_t> left(parameters.size());
  std::iota(left.begin(), left.end(), 0);
  while (!left.empty()) {
    const Tensor& first = parameters[left.front()].parameter;
    const DType dtype = first.dtype();
    const Device device = first.device();
    const auto item = static_cast<std::int64_t>(item_size(dtype));
    const auto belongs = [&](std::size_t i) {
      return parameters[i].parameter.dtype() == dtype && parameters[i].parameter.device() == device;
    };
    struct Range {
      std::int64_t begin, end;
    };
    std::vector<Range> ranges;
    std::vector<std::pair<std::size_t, std::int64_t>> places;
    std::int64_t at = 0;
    for (const std::size_t i : left) {
      if (!belongs(i)) continue;
      if (ranges.empty() || (at - ranges.back().begin) * item >= options.bucket_bytes) {
        ranges.push_back({at, at});
        buckets.emplace_back();
      }
      places.emplace_back(i, at);
      parameters[i].bucket = buckets.size() - 1;
      ++buckets.back().parameters;
      at += (parameters[i].parameter.numel() * item + kAlignment - 1) / kAlignment * kAlignment / item;
      ranges.back().end = at;
    }
    const Tensor arena = zeros({at}, {dtype, device});
    arena.storage()->set_use(MemoryUse::gradients);
    arenas.push_back(arena);
    const std::size_t first_bucket = buckets.size() - ranges.size();
    for (std::size_t b = 0; b < ranges.size(); ++b) {
      GradientBucket& bucket = buckets[first_bucket + b];
      bucket.flat = arena.slice(0, ranges[b].begin, ranges[b].end);
      if (options.dtype != f32 && dtype == f32) bucket.narrow = zeros(bucket.flat.shape(), {options.dtype, device});
    }
    for (const auto& [i, offset] : places) {
      const Tensor& x = parameters[i].parameter;
      parameters[i].place = arena.slice(0, offset, offset + x.numel()).view(x.shape());
    }
    std::erase_if(left, belongs);
  }
}

void DataParallel::State::arrive(std::size_t index) {
  if (!reduces) return;
  const NoGrad off;
  ReducedParameter& p = parameters[index];
  GradientBucket& bucket = buckets[p.bucket];
  if (!std::exchange(running, true)) autograd::at_end_of_backward([this] { finish(); });
  if (p.arrived && p.bucket < started)
    throw GradError(
        fmt::format("DataParallel: '{}' got a gradient twice in one backward(), as a parameter that is used "
                    "inside checkpoint() and outside does; call one of them without checkpoint()",
                    p.name));
  if (const Tensor grad = p.parameter.grad(); !same_place(grad, p.place)) {
    p.place.copy_(grad);
    p.parameter.set_grad(p.place);
  }
  if (!std::exchange(p.arrived, true)) ++bucket.arrived;
  start_ready();
}

/// In order, so that every rank reduces the same ones in the same order.
void DataParallel::State::start_ready() {
  for (; started < buckets.size() && buckets[started].arrived == buckets[started].parameters; ++started) {
    GradientBucket& bucket = buckets[started];
    if (bucket.narrow.defined()) bucket.narrow.copy_(bucket.flat);
    start_all_reduce_(bucket.narrow.defined() ? bucket.narrow : bucket.flat, Reduce::mean, options.group);
  }
}

/// Parameters without a gradient on this rank.
void DataParallel::State::fill_missing() {
  std::vector<std::string> missing;
  for (const ReducedParameter& p : parameters)
    if (!p.arrived) missing.push_back(p.name);
  if (!options.unused_parameters) {
    if (missing.empty()) return;
    const std::size_t more = missing.size() > 5 ? missing.size() - 5 : 0;
    missing.resize(missing.size() - more);
    throw GradError(
        fmt::format("DataParallel: backward() gave no gradient to {}{}; freeze what the loss does not "
                    "depend on, or pass unused_parameters = true",
                    fmt::join(missing, ", "), more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ReducedParameter& p = parameters[i];
    if (p.arrived) continue;
    // A gradient of earlier batches, that were not reduced, counts.
    const Tensor before = p.parameter.grad();
    if (!before.defined())
      p.place.zero_();
    else if (!same_place(before, p.place))
      p.place.copy_(before);
    ++buckets[p.bucket].arrived;
  }
  start_ready();
  if (capturing()) return;  // as it was in the step before
  Tensor used = zeros({static_cast<std::int64_t>(parameters.size())}, {u8});
  for (std::size_t i = 0; i < parameters.size(); ++i)
    used.mutable_data<std::uint8_t>()[i] = parameters[i].arrived || parameters[i].parameter.grad().defined();
  all_reduce_(used, options.group, Reduce::max);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].used = used.data<std::uint8_t>()[i] != 0;
}

void DataParallel::State::finish() {
  const NoGrad off;
  running = false;
  fill_missing();
  for (const Tensor& arena : arenas) finish_all_reduces_(arena);
  for (GradientBucket& bucket : buckets) {
    if (bucket.narrow.defined()) bucket.flat.copy_(bucket.narrow);
    bucket.arrived = 0;
  }
  for (ReducedParameter& p : parameters) {
    if (!p.arrived && p.used) p.parameter.set_grad(p.place);
    p.arrived = false;
  }
  started = 0;
}

DataParallel::DataParallel(nn::Module& model, DataParallelOptions options)
    : state_(std::make_unique<State>(model, options)) {
  if (options.dtype != f32 && options.dtype != bf16 && options.dtype != f16)
    throw DtypeError(
        fmt::format("DataParallel: gradients cannot travel in {}; f32, bf16 or f16", etna::name(options.dtype)));
  if (!options.group.is_distributed()) return;
  State& s = *state_;
  require_same("model", description(model), options.group);
  {
    const NoGrad off;
    for (const Tensor& x : model.parameters()) broadcast_(x.detach(), options.group);
  }
  broadcast_buffers();
  s.lay_out();
  for (std::size_t i = 0; i < s.parameters.size(); ++i) {
    s.parameters[i].hook =
        autograd::register_final_gradient_hook(s.parameters[i].parameter, [&s, i](const Tensor&) { s.arrive(i); });
  }
}

DataParallel::~DataParallel() = default;

void DataParallel::set_reduce(bool on) { state_->reduces = on; }
bool DataParallel::reduces() const { return state_->reduces; }

void DataParallel::broadcast_buffers() {
  const NoGrad off;
  for (const Tensor& x : state_->model.buffers()) broadcast_(x, state_->options.group);
}

}  // namespace etna::distributed
