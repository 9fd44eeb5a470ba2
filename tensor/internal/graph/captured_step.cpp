#include <etna/tensor/internal/graph/captured_step.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/counting.h>
#include <etna/device/internal/device_queue.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/internal/graph/captured_call.h>
#include <etna/tensor/ops/kernel.h>

namespace etna {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t captured_step_bytes_of(const Tensor& x) {
  return static_cast<std::size_t>(x.numel()) * item_size(x.dtype());
}

}  // namespace

void copy_argument(const Tensor& argument, const Tensor& input) {
  if (argument.storage() == input.storage()) return;  // the input itself, passed back
  Tensor x = argument.contiguous();
  const std::size_t offset = static_cast<std::size_t>(x.offset()) * item_size(x.dtype());
  if (x.device().is_cpu()) {
    upload(x.storage()->host() + offset, *input.storage(), 0, captured_step_bytes_of(x));
  } else if (x.device() == input.device()) {
    gpu::enqueue_copy(x.device(), *x.storage(), offset, *input.storage(), 0, captured_step_bytes_of(x));
  } else {
    copy_argument(x.to(kCPU), input);
  }
}

CapturedStep::CapturedStep(std::string name, Device device, const GraphOptions& options)
    : name_(std::move(name)), graph_(device, options) {}

CapturedStep* CapturedStep::current() { return capture_hooks::detail::of_thread.step; }

CapturedStep* CapturedStep::set_current(CapturedStep* step) {
  CapturedStep* before = std::exchange(capture_hooks::detail::of_thread.step, step);
  if (before != nullptr) before->graph_.leave();
  set_allocation_hook(step);
  if (step != nullptr) step->graph_.enter();
  return before;
}

CapturedStep* CapturedStep::leave() {
  finish_pending();
  return set_current(nullptr);
}

void CapturedStep::capture(const TensorList& arguments, const Function& function, std::int64_t barriers_eager) {
  const auto start = Clock::now();
  labels_.emplace();
  CaptureReport& report = graph_.report();
  report.name = name_;
  report.barriers_eager = barriers_eager;
  for (const Tensor& x : arguments) {
    inputs_.push_back(empty(x.shape(), {x.dtype(), device()}));
    copy_argument(x, inputs_.back());
  }
  try {
    leave();
    enter();
    outputs_ = function(inputs_);
    leave();
    compile();
  } catch (...) {
    set_current(nullptr);
    fusion::drop_captured();
    drop_gradients_without_bytes();
    throw;
  }
  report.capture_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  // Calls have run already, and with them the step.
  if (graph_.form() == GraphForm::commands) run();
  labels_.reset();
}

void CapturedStep::compile() {
  // Leaves that only the step knew, like those inside of a checkpoint, are gone: their memory is free.
  std::erase_if(gradients_, [](const LeafGradient& note) { return note.leaf.impl_ptr().use_count() == 1; });
  for (LeafGradient& note : gradients_) note.after = note.leaf.grad();
  for (const Tensor& x : inputs_) graph_.report().input_bytes += captured_step_bytes_of(x);
  for (const External& external : externals_) graph_.storages().pin(external.storage);
  // The eager step left its memory in the cache; the plan allocates its own.
  empty_cache(device());
  executable_ = backend(device()).compile(graph_);
  graph_.report().state_bytes = numbers_.size();
  noted_ = {};
  watched_.end();
  // Nothing else in the step holds these storages, so a use count of one means that the user has released it.
  for (External& external : externals_) {
    external.version = external.storage->version - external.version;
    external.shared = fusion::owners(external.storage) > 1;
  }
}

/// Drops gradients left by a failed capture: they have no values.
void CapturedStep::drop_gradients_without_bytes() {
  for (LeafGradient& note : gradients_) {
    if (Tensor grad = note.leaf.grad(); grad.defined() && !grad.storage()->has_bytes()) note.leaf.set_grad({});
  }
}

void CapturedStep::touch(const char* op, std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors) {
    if (!x.defined() || !x.impl()->storage) continue;
    if (x.device() != device()) {
      throw CaptureError(
          fmt::format("{}: an operand {} is on {} while '{}' is captured on {}; move it there before, or pass it as an "
                      "argument",
                      op, str(x.shape()), x.device().str(), name_, device().str()));
    }
    const StoragePtr& storage = x.impl()->storage;
    if (graph_.storages().made(*storage)) continue;
    if (grad_enabled() && is_floating(x.dtype()) && x.is_leaf())
      watched_.note_requires_grad(x, capture_hooks::Touch::read);
    if (noted_.insert(storage.get()).second) externals_.push_back({storage, storage->version, false});
  }
}

StoragePtr CapturedStep::allocate(Device on, std::size_t bytes) {
  if (on != device()) {
    throw CaptureError(
        fmt::format("{}: takes {} bytes on {} while '{}' is captured on {}, which no plan covers; make it "
                    "before, or pass it as an argument",
                    capture_hooks::Running::name(), bytes, on.str(), name_, device().str()));
  }
  StoragePtr made = graph_.storages().allocate(bytes);
  if (in_kernel()) workspace_.push_back(graph_.storages().proxy(*made));
  return made;
}

void CapturedStep::note_gradient(const Tensor& leaf, capture_hooks::Touch touch) {
  if (!noted_.insert(leaf.impl()).second) return;  // at first: grad() calls this function again
  LeafGradient note{.leaf = leaf, .read_first = touch == capture_hooks::Touch::read, .before = {}, .after = {}};
  if (note.read_first) {
    if (Tensor grad = leaf.grad(); grad.defined()) note.before = grad.storage();
  }
  gradients_.push_back(std::move(note));
}

Tensor CapturedStep::numbers(const Shape& shape, DType dtype, std::function<void(std::byte*)> fill) {
  const std::size_t item = item_size(dtype), bytes = static_cast<std::size_t>(numel(shape)) * item;
  const graph::NumberPlace at = graph_.storages().reserve_numbers(bytes);
  if (at.storage->host() != nullptr) {
    fill(at.storage->host() + at.offset);
    each_replay([at, fill = std::move(fill)] { fill(at.storage->host() + at.offset); });
  } else {
    numbers_.resize(std::max(numbers_.size(), (at.offset + bytes + 3) / 4 * 4));
    fill(numbers_.data() + at.offset);
    each_replay([this, place = at.offset, fill = std::move(fill)] { fill(numbers_.data() + place); });
  }
  return detail::make_view(at.storage, device(), dtype, shape, contiguous_strides(shape),
                           static_cast<std::int64_t>(at.offset / item));
}

/// The tensor as a captured call knows it. It owns no storage of the user's, whose use counts must show who else does.
Tensor CapturedStep::on_proxy(const Tensor& x) const {
  if (!x.defined()) return {};
  StoragePtr storage = graph_.storages().proxy(*x.storage());
  if (storage == nullptr) storage = StoragePtr(StoragePtr(), x.storage().get());
  return detail::make_view(storage, x.device(), x.dtype(), x.shape(), x.strides(), x.offset());
}

void CapturedStep::ran(const OpCall& call, std::span<const Tensor> out) {
  if (graph_.form() != GraphForm::calls || in_kernel()) return;
  CapturedCall made{&call.op, call.attrs, {}, {}, std::exchange(workspace_, {}), profile::Labels::now().phase};
  std::vector<MemoryRange> reads, writes;
  for (const Tensor& x : call.in) {
    made.in.push_back(on_proxy(x));
    if (x.defined()) reads.push_back(gpu::range(made.in.back()));
  }
  for (const Tensor& y : out) {
    made.out.push_back(on_proxy(y));
    if (y.defined()) writes.push_back(gpu::range(made.out.back()));
  }
  for (const StoragePtr& s : made.workspace) writes.push_back({s->address(), s->bytes()});
  graph_.call(call.op.name, std::move(made), reads, writes);
}

std::string CapturedStep::stale() const {
  if (watched_.gone()) return "a module or an optimizer it works with is gone";
  for (const External& e : externals_) {
    if (e.shared && fusion::owners(e.storage) == 1)
      return "a tensor it works on was replaced, or moved to another device";
  }
  for (const LeafGradient& g : gradients_) {
    if (!g.read_first) continue;
    Tensor now = g.leaf.grad();
    if ((now.defined() ? now.storage().get() : nullptr) != g.before.get()) {
      return g.before ? "gradients it adds to are gone" : "there are gradients to add to now, where there were none";
    }
  }
  return {};
}

void CapturedStep::run() {
  GradMode off(false);
  // Runs first what a host callback has asked for: it reads what the step is about to change.
  DeviceQueue(device()).run(*executable_, numbers_);
  if (counting::on()) count_run();
}

void CapturedStep::count_run() {
  graph_.count_run();
  for (const auto& [detour, op] : detours_) counting::replayed(counting::row(detour, device(), op), 1, 1);
}

void CapturedStep::replay(const TensorList& arguments) {
  profile::Scope scope("replay");
  for (const auto& step : host_steps_) step();
  for (std::size_t i = 0; i < inputs_.size(); ++i) copy_argument(arguments[i], inputs_[i]);
  run();
  for (const External& e : externals_) e.storage->version += e.version;
  for (LeafGradient& g : gradients_) {
    if (g.leaf.grad().impl() != g.after.impl()) g.leaf.set_grad(g.after);
  }
  watched_.write();
}

}  // namespace etna
