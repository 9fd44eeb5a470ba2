#include <etna/nn/parallel/data_parallel.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/autograd/autograd.h>
#include <etna/autograd/internal/final_gradients.h>
#include <etna/device/memory.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/collective_ops.h>
#include <etna/nn/parallel/internal/block_schedule.h>
#include <etna/nn/parallel/internal/zero_sharding.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna::distributed {
namespace {

constexpr std::int64_t kAlignment = 256;  ///< bytes; kernels read gradients by vectors
constexpr std::int64_t kBucketOnCpu = std::int64_t{4} << 20, kBucketOnGpu = std::int64_t{25} << 20;
/// Of an exchange: the sums of a part are made while the next one travels.
constexpr std::int64_t kPart = std::int64_t{32} << 20;
constexpr std::int64_t kMean = std::int64_t{1} << 30;  ///< bytes of an op on exchanged gradients, at most

struct ReducedParameter {
  std::string name;
  Tensor parameter;
  Tensor place;  ///< of its gradient, in the arena; undefined in ZeRO stage 2
  std::size_t bucket = 0;
  int block = -1;  ///< of stage 3
  bool arrived = false;
  bool used = true;  ///< by some rank, when that was last asked
  HookHandle hook = {};
};

/// What two ranks exchange at once.
struct ExchangedPart {
  Tensor own, inbox;
  std::int64_t index = 0;
};

/// Made of some parts, once they have arrived.
struct ExchangedMean {
  Tensor own, inbox;
  Tensor flat;  ///< gets it
};

struct GradientBucket {
  Tensor flat;    ///< a part of the arena
  Tensor narrow;  ///< what travels instead; undefined: the same
  std::int64_t parameters = 0, arrived = 0;
  std::shared_ptr<PeerExchange> exchange = {};
  std::vector<ExchangedPart> parts = {};
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
  std::vector<ExchangedMean> means;
  std::shared_ptr<ZeroSharding> sharding;
  std::unique_ptr<BlockSchedule> schedule;  ///< of stage 3
  std::size_t started = 0;                  ///< buckets of this backward
  bool reduces = true, running = false;

  State(nn::Module& m, DataParallelOptions o) : model(m), options(o) {}
  ~State() {
    for (ReducedParameter& p : parameters) p.hook.remove();
  }

  /// Gradients are divided among the ranks.
  bool scatters() const { return sharding != nullptr && !sharding->has_whole_gradients(); }
  void lay_out();
  void make_room(std::int64_t count, DType dtype, Device device, std::span<GradientBucket> added,
                 std::span<const std::pair<std::int64_t, std::int64_t>> ranges);
  void divide();
  void find_blocks();
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
  if (options.zero_stage == 3) find_blocks();
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
    const std::int64_t bucket_bytes = options.bucket_bytes > 0 ? options.bucket_bytes
                                      : device.is_cpu()        ? kBucketOnCpu
                                                               : kBucketOnGpu;
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;  ///< of buckets, in elements
    std::vector<std::pair<std::size_t, std::int64_t>> places;
    std::int64_t at = 0;
    int last_block = -1;
    for (const std::size_t i : left) {
      if (!belongs(i)) continue;
      const int block = parameters[i].block;
      const bool full = block < 0 && !ranges.empty() && (at - ranges.back().first) * item >= bucket_bytes;
      if (ranges.empty() || full || block != last_block) {
        ranges.emplace_back(at, at);
        buckets.emplace_back();
      }
      last_block = block;
      places.emplace_back(i, at);
      parameters[i].bucket = buckets.size() - 1;
      ++buckets.back().parameters;
      at += (parameters[i].parameter.numel() * item + kAlignment - 1) / kAlignment * kAlignment / item;
      ranges.back().second = at;
    }
    std::erase_if(left, belongs);
    if (scatters()) continue;
    make_room(at, dtype, device, std::span(buckets).last(ranges.size()), ranges);
    const Tensor& arena = arenas.back();
    for (const auto& [i, offset] : places) {
      const Tensor& x = parameters[i].parameter;
      parameters[i].place = arena.slice(0, offset, offset + x.numel()).view(x.shape());
    }
  }
}

/// Makes an arena, and places buckets in it.
void DataParallel::State::make_room(std::int64_t count, DType dtype, Device device, std::span<GradientBucket> added,
                                    std::span<const std::pair<std::int64_t, std::int64_t>> ranges) {
  const bool narrow = options.dtype != f32 && dtype == f32;
  const DType sent = narrow ? options.dtype : dtype;
  const auto item = static_cast<std::int64_t>(item_size(sent));
  const std::int64_t part = kPart / item;
  std::int64_t parts = 0;
  for (const auto& [begin, end] : ranges) parts += (end - begin + part - 1) / part;
  const std::shared_ptr<PeerExchange> exchange =
      options.group.number() != 0
          ? nullptr
          : make_exchange(device, static_cast<std::size_t>(count * item), static_cast<std::size_t>(parts));
  Tensor travels, inbox, arena;
  if (exchange != nullptr) {
    travels = over(exchange->own(), sent, count);
    inbox = over(exchange->inbox(), sent, count);
    travels.zero_();
  } else if (narrow) {
    travels = zeros({count}, {sent, device});
  }
  arena = narrow || exchange == nullptr ? zeros({count}, {dtype, device}) : travels;
  arena.storage()->set_use(MemoryUse::gradients);
  arenas.push_back(arena);
  std::int64_t next = 0;
  for (std::size_t b = 0; b < added.size(); ++b) {
    const auto [begin, end] = ranges[b];
    added[b].flat = arena.slice(0, begin, end);
    if (narrow) added[b].narrow = travels.slice(0, begin, end);
    added[b].exchange = exchange;
    if (exchange == nullptr) continue;
    const auto add_mean = [&](std::int64_t first, std::int64_t stop) {
      means.push_back({travels.slice(0, first, stop), inbox.slice(0, first, stop), arena.slice(0, first, stop)});
    };
    // While the last bucket travels, few ops make the means of all others.
    const bool last = b + 1 == added.size();
    for (std::int64_t at = 0; last && at < begin; at += kMean / item) add_mean(at, std::min(at + kMean / item, begin));
    for (std::int64_t at = begin; at < end; at += part) {
      const std::int64_t stop = std::min(at + part, end);
      added[b].parts.push_back({travels.slice(0, at, stop), inbox.slice(0, at, stop), next++});
      if (last) add_mean(at, stop);
    }
  }
}

/// Tells the sharding which parameters a bucket has.
void DataParallel::State::divide() {
  std::vector<std::vector<Tensor>> lists(buckets.size());
  std::vector<int> blocks(buckets.size(), -1);
  for (const ReducedParameter& p : parameters) {
    lists[p.bucket].push_back(p.parameter);
    blocks[p.bucket] = p.block;
  }
  std::vector<std::vector<std::shared_ptr<ParameterBlock>>> parts(options.blocks.size());
  for (std::size_t b = 0; b < lists.size(); ++b) {
    const auto part = sharding->add_bucket(lists[b], blocks[b] >= 0);
    if (part != nullptr) parts[static_cast<std::size_t>(blocks[b])].push_back(part);
  }
  if (options.zero_stage < 3) return;
  schedule = std::make_unique<BlockSchedule>(options.prefetch);
  for (std::size_t b = 0; b < parts.size(); ++b) schedule->add(*options.blocks[b], parts[b]);
}

void DataParallel::State::find_blocks() {
  if (options.blocks.empty()) options.blocks = listed_blocks(model);
  if (options.blocks.empty())
    throw Error(
        "DataParallel: ZeRO stage 3 gathers the parameters of one block after the other, and the model has no modules "
        "with numbers for names; pass blocks = {&model.first, &model.second ...}");
  std::vector<Tensor> list;
  for (const ReducedParameter& p : parameters) list.push_back(p.parameter);
  const std::vector<int> owners = blocks_of(model, options.blocks, list);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].block = owners[i];
}

void DataParallel::State::arrive(std::size_t index) {
  if (!reduces && schedule == nullptr) return;  // stage 3 keeps no whole gradients
  if (schedule != nullptr) schedule->backward_begins();
  const NoGrad off;
  ReducedParameter& p = parameters[index];
  GradientBucket& bucket = buckets[p.bucket];
  if (!std::exchange(running, true)) autograd::at_end_of_backward([this] { finish(); });
  if (p.arrived && p.bucket < started)
    throw GradError(
        fmt::format("DataParallel: '{}' got a gradient twice in one backward(), as a parameter that is used "
                    "inside checkpoint() and outside does; call one of them without checkpoint()",
                    p.name));
  if (const Tensor grad = p.parameter.grad(); !scatters() && !same_place(grad, p.place)) {
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
    if (scatters()) {
      sharding->reduce(started);
      continue;
    }
    if (bucket.narrow.defined()) bucket.narrow.copy_(bucket.flat);
    for (const ExchangedPart& part : bucket.parts) start_exchange_(*bucket.exchange, part.index, part.own, part.inbox);
    if (bucket.exchange == nullptr)
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
  std::vector<std::uint8_t> has(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ReducedParameter& p = parameters[i];
    has[i] = p.arrived || p.parameter.grad().defined();
    if (p.arrived) continue;
    ++buckets[p.bucket].arrived;
    if (scatters()) continue;
    // A gradient of earlier batches, that were not reduced, counts.
    const Tensor before = p.parameter.grad();
    if (!before.defined())
      p.place.zero_();
    else if (!same_place(before, p.place))
      p.place.copy_(before);
  }
  start_ready();
  if (capturing()) return;  // as it was in the step before
  const Tensor all = from_vector(has, parameters[0].parameter.device());
  all_reduce_(all, options.group, Reduce::max);
  const Tensor used = all.to(kCPU);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].used = used.data<std::uint8_t>()[i] != 0;
}

void DataParallel::State::finish() {
  const NoGrad off;
  running = false;
  fill_missing();
  if (scatters()) {
    std::unordered_map<const TensorImpl*, bool> used;
    for (const ReducedParameter& p : parameters) used[p.parameter.impl()] = p.arrived || p.used;
    sharding->finish([&](const Tensor& p) { return used.at(p.impl()); });
  }
  if (schedule != nullptr) schedule->backward_ended();
  for (const Tensor& arena : arenas) finish_all_reduces_(arena);
  // A sum of two is the same on both ranks.
  for (ExchangedMean& mean : means)
    mean.flat.copy_((mean.own.to(mean.flat.dtype()) + mean.inbox.to(mean.flat.dtype())) * 0.5);
  for (GradientBucket& bucket : buckets) {
    if (bucket.exchange == nullptr && bucket.narrow.defined()) bucket.flat.copy_(bucket.narrow);
    bucket.arrived = 0;
  }
  for (ReducedParameter& p : parameters) {
    if (!p.arrived && p.used && !scatters()) p.parameter.set_grad(p.place);
    p.arrived = false;
  }
  started = 0;
}

DataParallel::DataParallel(nn::Module& model, DataParallelOptions options)
    : state_(std::make_unique<State>(model, options)) {
  if (options.dtype != f32 && options.dtype != bf16 && options.dtype != f16)
    throw DtypeError(
        fmt::format("DataParallel: gradients cannot travel in {}; f32, bf16 or f16", etna::name(options.dtype)));
  if (options.zero_stage < 0 || options.zero_stage > 3)
    throw Error(fmt::format("DataParallel: there is no ZeRO stage {}; 0, 1, 2 or 3", options.zero_stage));
  if (options.zero_stage > 0 && options.group.number() != 0)
    throw Error("DataParallel: ZeRO divides among all ranks; it takes no group of some of them");
  if (!options.group.is_distributed()) return;
  State& s = *state_;
  require_same("model",
               description(model) + fmt::format("gradients in buckets of {} bytes, in {}, ZeRO stage {}\n",
                                                options.bucket_bytes, etna::name(options.dtype), options.zero_stage),
               options.group);
  {
    const NoGrad off;
    for (const Tensor& x : model.parameters()) broadcast_(x.detach(), options.group);
  }
  broadcast_buffers();
  if (options.zero_stage > 0) s.sharding = std::make_shared<ZeroSharding>(options.zero_stage == 1, options.dtype);
  s.lay_out();
  if (s.sharding != nullptr) s.divide();
  for (std::size_t i = 0; i < s.parameters.size(); ++i) {
    s.parameters[i].hook =
        autograd::register_final_gradient_hook(s.parameters[i].parameter, [&s, i](const Tensor&) { s.arrive(i); });
  }
}

DataParallel::~DataParallel() = default;

void DataParallel::set_reduce(bool on) { state_->reduces = on; }
bool DataParallel::reduces() const { return state_->reduces; }
std::shared_ptr<Sharding> DataParallel::sharding() const { return state_->sharding; }

bool DataParallel::can_capture(Device device) const {
  return state_->schedule == nullptr && distributed::can_capture(device);
}

nn::StateDict DataParallel::state_dict() const {
  const State& s = *state_;
  if (s.schedule == nullptr) return s.model.state_dict();
  nn::StateDict state;
  for (const auto& [name, x] : s.model.named_parameters()) {
    if (!s.sharding->divides(x))
      state[name] = x.detach();
    else if (const Tensor whole = gather_parts(*s.sharding, x, s.sharding->part(x).detach()); whole.defined())
      state[name] = whole;
  }
  for (const auto& [name, x] : s.model.named_buffers()) state[name] = x.detach();
  return state;
}

void DataParallel::load_state_dict(const nn::StateDict& state) {
  const State& s = *state_;
  if (s.schedule == nullptr) {
    s.model.load_state_dict(state);
    return;
  }
  const NoGrad off;
  std::vector<std::pair<Tensor, Tensor>> copies;  ///< where to, from
  for (const bool parameters : {true, false}) {
    for (const auto& [name, x] : parameters ? s.model.named_parameters() : s.model.named_buffers()) {
      const auto found = state.find(name);
      if (found == state.end()) throw Error(fmt::format("DataParallel: load_state_dict: '{}' is missing", name));
      const bool divided = parameters && s.sharding->divides(x);
      const Shape shape = divided ? s.sharding->shape(x) : x.shape();
      if (found->second.shape() != shape)
        throw ShapeError(fmt::format("DataParallel: load_state_dict: '{}' is {}; the model has {}", name,
                                     str(found->second.shape()), str(shape)));
      if (!divided) {
        copies.emplace_back(x.detach(), found->second);
        continue;
      }
      const Sharding::Range own = s.sharding->range(x, rank());
      const Tensor flat = found->second.contiguous().view({found->second.numel()});
      copies.emplace_back(s.sharding->part(x).detach(), flat.slice(0, own.begin, own.end));
    }
  }
  if (copies.size() != state.size())
    throw Error(fmt::format("DataParallel: load_state_dict: {} tensors, of which the model has {}", state.size(),
                            copies.size()));
  for (auto& [to, from] : copies) to.copy_(from);
}

void DataParallel::broadcast_buffers() {
  const NoGrad off;
  for (const Tensor& x : state_->model.buffers()) broadcast_(x, state_->options.group);
}

}  // namespace etna::distributed
