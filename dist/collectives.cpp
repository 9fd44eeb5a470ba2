#include <array>

#include <fmt/format.h>

#include <etna/device/internal/foreign_work.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/collective_ops.h>
#include <etna/dist/internal/group.h>
#include <etna/dist/internal/staged_collective.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/kernels.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::distributed {
namespace {

struct CollectiveAttrs {
  Kind kind;
  Reduce reduce;
  int peer;
  bool in_place;
  bool later;  ///< start it, and return
  int group;   ///< ProcessGroup::number()

  ProcessGroup ranks() const { return ProcessGroup::numbered(group); }
};

const char* op_name(const OpCall& call) { return call.op.name; }

std::vector<OutputSpec> collective_infer(const OpCall& call) {
  const auto a = call.as<CollectiveAttrs>();
  const Tensor& x = call.in[0];
  require_group(op_name(call));
  const int ranks = a.ranks().size();
  const bool reduces = a.kind == Kind::all_reduce || a.kind == Kind::reduce_scatter;
  if (reduces && a.reduce == Reduce::mean && !is_floating(x.dtype()))
    throw DtypeError(fmt::format("{}: {} has no mean; reduce by Reduce::sum, or cast to a floating dtype",
                                 op_name(call), name(x.dtype())));
  if (reduces && x.dtype() == boolean && a.reduce != Reduce::max && a.reduce != Reduce::min)
    throw DtypeError(fmt::format("{}: bool is reduced by Reduce::max (any) and Reduce::min (all) only; cast it to i32",
                                 op_name(call)));
  if (a.peer < 0 || a.peer >= ranks)
    throw ShapeError(
        fmt::format("{}: rank {} of a group of {}; ranks are numbered from 0", op_name(call), a.peer, ranks));
  if (a.kind == Kind::send) return {{Shape({0}), u8}};
  if (a.in_place) {
    if (!x.is_contiguous())
      throw ShapeError(
          fmt::format("{}: x {} has gaps or another order; use the form that returns a tensor, or "
                      "contiguous()",
                      op_name(call), str(x.shape())));
    return {{x.shape(), x.dtype(), 0}};
  }
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  if (a.kind == Kind::all_gather || a.kind == Kind::reduce_scatter || a.kind == Kind::all_to_all) {
    if (sizes.empty())
      throw ShapeError(fmt::format("{}: a tensor without dimensions has no first one; unsqueeze(0) it", op_name(call)));
    if (a.kind != Kind::all_gather && sizes[0] % ranks != 0)
      throw ShapeError(
          fmt::format("{}: the first dimension of {} does not divide into {} equal parts, one for each "
                      "rank; pad it",
                      op_name(call), str(x.shape()), ranks));
    if (a.kind == Kind::all_gather) sizes[0] *= ranks;
    if (a.kind == Kind::reduce_scatter) sizes[0] /= ranks;
  }
  return {{Shape(sizes), x.dtype()}};
}

void collective_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<CollectiveAttrs>();
  Group& group = require_group(op_name(call));
  const Collective c{a.kind, a.reduce, a.peer, 0, a.group};
  const Tensor x = a.in_place ? out[0] : call.in[0].contiguous();
  if (a.later)
    group.start(c, x, out[0]);
  else
    group.run(c, a.kind == Kind::receive ? Tensor() : x, a.kind == Kind::send ? Tensor() : out[0]);
}

/// Takes a collective into the step that is being captured. @throws CaptureError for a device that cannot
bool stage(const OpCall& call, const Collective& c, const Tensor& in, const Tensor& out) {
  if (!gpu::maps_memory(call.in[0].device())) capture_hooks::forbid(op_name(call), "goes through host memory");
  stage_collective(require_group(op_name(call)), c, op_name(call), in, out);
  return true;
}

/// What was started and lies on a GPU: its copy on the host.
struct Staged {
  Tensor host, device;
};
std::vector<Staged>& staged() {
  static thread_local std::vector<Staged> list;
  return list;
}

bool collective_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<CollectiveAttrs>();
  Group& group = require_group(op_name(call));
  if (group.engine_on(call.in[0].device(), a.group) != nullptr) {
    collective_cpu(call, out);
    return true;
  }
  const Collective c{a.kind, a.reduce, a.peer, 0, a.group};
  if (capturing()) {
    const Tensor sent = a.kind == Kind::receive ? Tensor() : a.in_place ? out[0] : call.in[0].contiguous();
    return stage(call, c, sent, a.kind == Kind::send ? Tensor() : out[0]);
  }
  const Tensor x = a.kind == Kind::receive ? Tensor() : detail::host_copy(call.in[0]).contiguous();
  const Tensor y = a.in_place && x.defined() ? x : empty(out[0].shape(), {out[0].dtype(), kCPU});
  if (a.later) {
    group.start(c, x, y);
    staged().push_back({y, out[0]});
    return true;
  }
  group.run(c, x, a.kind == Kind::send ? Tensor() : y);
  if (a.kind != Kind::send) detail::write_back(y, out[0]);
  return true;
}

// ---- start_reduce_scatter_ and start_all_gather_: inputs are what is written, and what is read

std::vector<OutputSpec> started_infer(const OpCall& call) {
  const bool gathers = call.as<CollectiveAttrs>().kind == Kind::all_gather;
  const Tensor &own = call.in[gathers ? 1 : 0], &all = call.in[gathers ? 0 : 1];
  const int ranks = require_group(op_name(call)).place().size;
  if (own.dim() != 1 || all.dim() != 1 || own.numel() * ranks != all.numel() || own.dtype() != all.dtype() ||
      !own.is_contiguous() || !all.is_contiguous())
    throw ShapeError(fmt::format("{}: {} {} of a group of {} into {} {}", op_name(call), str(all.shape()),
                                 name(all.dtype()), ranks, str(own.shape()), name(own.dtype())));
  return {{call.in[0].shape(), own.dtype(), 0}};
}

void started_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<CollectiveAttrs>();
  require_group(op_name(call)).start({a.kind, a.reduce, 0, 0}, call.in[1], out[0]);
}

bool started_gpu(const OpCall& call, std::span<Tensor> out) {
  Group& group = require_group(op_name(call));
  if (group.engine_on(out[0].device()) != nullptr) {
    started_cpu(call, out);
    return true;
  }
  const auto a = call.as<CollectiveAttrs>();
  if (capturing()) return stage(call, {a.kind, a.reduce, 0, 0}, call.in[1], out[0]);
  const Tensor host = empty(out[0].shape(), {out[0].dtype(), kCPU});
  group.start({a.kind, a.reduce, 0, 0}, detail::host_copy(call.in[1]), host);
  staged().push_back({host, out[0]});
  return true;
}

void finish_cpu(const OpCall& call, std::span<Tensor>) { require_group(op_name(call)).finish(); }

bool finish_gpu(const OpCall& call, std::span<Tensor> out) {
  Group& group = require_group(op_name(call));
  if (group.engine_on(out[0].device()) != nullptr || capturing()) return true;
  const std::vector<Staged> list = std::exchange(staged(), {});
  group.finish();
  for (const Staged& one : list) detail::write_back(one.host, one.device);
  return true;
}

std::vector<OutputSpec> finish_infer(const OpCall& call) { return {{call.in[0].shape(), call.in[0].dtype(), 0}}; }

Tensor call_of(const OpDef& op, const Tensor& x, Kind kind, Reduce reduce = Reduce::sum, int peer = 0,
               bool in_place = false, bool later = false, const ProcessGroup& group = {}) {
  detail::require_defined(op.name, x);
  return apply1(op, {x}, Attrs::of(CollectiveAttrs{kind, reduce, peer, in_place, later, group.number()}));
}

// Gradients of the sum of all ranks' losses: a rank gives the others what theirs owe to it.
TensorList all_reduce_vjp(const VjpCall& call) {
  const auto a = call.as<CollectiveAttrs>();
  if (a.reduce == Reduce::product)
    throw GradError("all_reduce: a product over ranks has no gradient here; sum logarithms instead");
  if (a.reduce == Reduce::sum || a.reduce == Reduce::mean) return {all_reduce(call.grad[0], a.ranks(), a.reduce)};
  // Ranks with equal extremes share the gradient.
  const Tensor chosen = cast(eq(call.in[0], call.out[0]), call.grad[0].dtype());
  return {all_reduce(call.grad[0], a.ranks()) * chosen / all_reduce(chosen, a.ranks())};
}

TensorList reduce_scatter_vjp(const VjpCall& call) {
  const auto a = call.as<CollectiveAttrs>();
  if (a.reduce != Reduce::sum && a.reduce != Reduce::mean)
    throw GradError("reduce_scatter: only sums and means have a gradient; use all_reduce");
  const Tensor all = all_gather(call.grad[0], a.ranks());
  return {a.reduce == Reduce::sum ? all : all / static_cast<double>(a.ranks().size())};
}

TensorList all_gather_vjp(const VjpCall& call) {
  return {reduce_scatter(call.grad[0], call.as<CollectiveAttrs>().ranks())};
}

TensorList broadcast_vjp(const VjpCall& call) {
  const auto a = call.as<CollectiveAttrs>();
  const Tensor sum = all_reduce(call.grad[0], a.ranks());
  return {a.ranks().rank() == a.peer ? sum : zeros_like(sum)};
}

TensorList all_to_all_vjp(const VjpCall& call) {
  return {all_to_all(call.grad[0], call.as<CollectiveAttrs>().ranks())};
}

const OpDef kAllReduce = {.name = "all_reduce",
                          .infer = collective_infer,
                          .cpu = collective_cpu,
                          .gpu = collective_gpu,
                          .vjp = all_reduce_vjp,
                          .saved = Saved::both};
const OpDef kReduceScatter = {.name = "reduce_scatter",
                              .infer = collective_infer,
                              .cpu = collective_cpu,
                              .gpu = collective_gpu,
                              .vjp = reduce_scatter_vjp};
const OpDef kAllGather = {.name = "all_gather",
                          .infer = collective_infer,
                          .cpu = collective_cpu,
                          .gpu = collective_gpu,
                          .vjp = all_gather_vjp};
const OpDef kBroadcast = {
    .name = "broadcast", .infer = collective_infer, .cpu = collective_cpu, .gpu = collective_gpu, .vjp = broadcast_vjp};
const OpDef kAllToAll = {.name = "all_to_all",
                         .infer = collective_infer,
                         .cpu = collective_cpu,
                         .gpu = collective_gpu,
                         .vjp = all_to_all_vjp};
const OpDef kSend = {.name = "send", .infer = collective_infer, .cpu = collective_cpu, .gpu = collective_gpu};
const OpDef kReceive = {.name = "receive_", .infer = collective_infer, .cpu = collective_cpu, .gpu = collective_gpu};
const OpDef kReduceScatterInto = {
    .name = "reduce_scatter_", .infer = started_infer, .cpu = started_cpu, .gpu = started_gpu};
const OpDef kAllGatherInto = {.name = "all_gather_", .infer = started_infer, .cpu = started_cpu, .gpu = started_gpu};
const OpDef kFinishAllReduces = {
    .name = "finish_all_reduces_", .infer = finish_infer, .cpu = finish_cpu, .gpu = finish_gpu};

struct ExchangeAttrs {
  PeerExchange* exchange;
  std::int64_t part;
};

std::vector<OutputSpec> exchange_infer(const OpCall& call) { return {{call.in[1].shape(), call.in[1].dtype(), 1}}; }

bool exchange_gpu(const OpCall& call, std::span<Tensor>) {
  const auto a = call.as<ExchangeAttrs>();
  const Tensor& own = call.in[0];
  const std::size_t item = item_size(own.dtype());
  a.exchange->start(own.device(), static_cast<std::size_t>(a.part), static_cast<std::size_t>(own.offset()) * item,
                    static_cast<std::size_t>(own.numel()) * item);
  return true;
}

const OpDef kExchange = {.name = "exchange_", .infer = exchange_infer, .gpu = exchange_gpu};

/// Of an op in place: it is not recorded, so a tensor that requires grad would keep a wrong gradient.
void require_unrecorded(const char* op, const Tensor& x) {
  detail::require_defined(op, x);
  if (grad_enabled() && x.requires_grad())
    throw GradError(
        fmt::format("{}: x requires grad, and what is done in place is not recorded; use the form that "
                    "returns a tensor, or a NoGrad",
                    op));
}

int other_rank(const char* op, int other) {
  if (other == rank()) throw Error(fmt::format("{}: rank {} is this one itself", op, other));
  return other;
}

}  // namespace

Tensor all_reduce(const Tensor& x, const ProcessGroup& group, Reduce reduce) {
  detail::require_defined("all_reduce", x);
  return group.is_distributed() ? call_of(kAllReduce, x, Kind::all_reduce, reduce, 0, false, false, group) : x;
}

void all_reduce_(const Tensor& x, const ProcessGroup& group, Reduce reduce) {
  require_unrecorded("all_reduce_", x);
  if (group.is_distributed()) call_of(kAllReduce, x, Kind::all_reduce, reduce, 0, true, false, group);
}

Tensor reduce_scatter(const Tensor& x, const ProcessGroup& group, Reduce reduce) {
  detail::require_defined("reduce_scatter", x);
  return group.is_distributed() ? call_of(kReduceScatter, x, Kind::reduce_scatter, reduce, 0, false, false, group) : x;
}

Tensor all_gather(const Tensor& x, const ProcessGroup& group) {
  detail::require_defined("all_gather", x);
  return group.is_distributed() ? call_of(kAllGather, x, Kind::all_gather, Reduce::sum, 0, false, false, group) : x;
}

Tensor broadcast(const Tensor& x, const ProcessGroup& group, int root) {
  detail::require_defined("broadcast", x);
  return group.is_distributed() ? call_of(kBroadcast, x, Kind::broadcast, Reduce::sum, root, false, false, group) : x;
}

void broadcast_(const Tensor& x, const ProcessGroup& group, int root) {
  require_unrecorded("broadcast_", x);
  if (group.is_distributed()) call_of(kBroadcast, x, Kind::broadcast, Reduce::sum, root, true, false, group);
}

Tensor all_to_all(const Tensor& x, const ProcessGroup& group) {
  detail::require_defined("all_to_all", x);
  return group.is_distributed() ? call_of(kAllToAll, x, Kind::all_to_all, Reduce::sum, 0, false, false, group) : x;
}

Tensor all_reduce(const Tensor& x, Reduce reduce) { return all_reduce(x, ProcessGroup(), reduce); }
void all_reduce_(const Tensor& x, Reduce reduce) { all_reduce_(x, ProcessGroup(), reduce); }
Tensor reduce_scatter(const Tensor& x, Reduce reduce) { return reduce_scatter(x, ProcessGroup(), reduce); }
Tensor all_gather(const Tensor& x) { return all_gather(x, ProcessGroup()); }
Tensor broadcast(const Tensor& x, int root) { return broadcast(x, ProcessGroup(), root); }
void broadcast_(const Tensor& x, int root) { broadcast_(x, ProcessGroup(), root); }
Tensor all_to_all(const Tensor& x) { return all_to_all(x, ProcessGroup()); }

void send(const Tensor& x, int to) {
  GradMode off(false);
  call_of(kSend, x.contiguous(), Kind::send, Reduce::sum, other_rank("send", to));
}

void receive_(const Tensor& x, int from) {
  require_unrecorded("receive_", x);
  call_of(kReceive, x, Kind::receive, Reduce::sum, other_rank("receive_", from), true);
}

void barrier() {
  if (!is_distributed()) return;
  capture_hooks::forbid("barrier", "is called");
  require_group("barrier").run({Kind::barrier, Reduce::sum, 0, 0}, {}, {});
}

void start_all_reduce_(const Tensor& x, Reduce reduce, const ProcessGroup& group) {
  GradMode off(false);
  if (group.is_distributed()) call_of(kAllReduce, x, Kind::all_reduce, reduce, 0, true, true, group);
}

void start_reduce_scatter_(const Tensor& own, const Tensor& all, Reduce reduce) {
  GradMode off(false);
  apply1(kReduceScatterInto, {own, all}, Attrs::of(CollectiveAttrs{Kind::reduce_scatter, reduce, 0, true, true, 0}));
}

void start_all_gather_(const Tensor& all, const Tensor& own) {
  GradMode off(false);
  apply1(kAllGatherInto, {all, own}, Attrs::of(CollectiveAttrs{Kind::all_gather, Reduce::sum, 0, true, true, 0}));
}

void finish_all_reduces_(const Tensor& arena) {
  GradMode off(false);
  apply1(kFinishAllReduces, {arena});
}

std::shared_ptr<PeerExchange> make_exchange(Device device, std::size_t bytes, std::size_t parts) {
  if (device.is_cpu() || !is_distributed()) return nullptr;
  Engine* engine = require_group("make_exchange").engine_on(device);
  return engine != nullptr ? engine->make_exchange(bytes, parts) : nullptr;
}

Tensor over(const StoragePtr& storage, DType dtype, std::int64_t count) {
  return detail::make_view(storage, storage->device(), dtype, {count}, {1}, 0);
}

void start_exchange_(PeerExchange& exchange, std::int64_t part, const Tensor& own, const Tensor& inbox) {
  GradMode off(false);
  apply1(kExchange, {own, inbox}, Attrs::of(ExchangeAttrs{&exchange, part}));
}

}  // namespace etna::distributed
