#include <etna/tensor/internal/fusion.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include <etna/device/internal/pending.h>
#include <etna/device/kernel.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/kernels.h>

namespace etna::fusion {
namespace {

struct Pattern {
  const OpDef* fused;
  std::vector<std::vector<const OpDef*>> steps;  ///< alternatives for each call
  bool (*fuse)(Calls calls, Call& fused);

  bool begins_with(Calls calls) const {
    if (calls.size() > steps.size()) return false;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (std::find(steps[i].begin(), steps[i].end(), calls[i].op) == steps[i].end()) return false;
    }
    return true;
  }
};

/// Ops of the names in "relu|gelu".
std::vector<const OpDef*> named(std::string_view names) {
  std::vector<const OpDef*> found;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('|', begin), names.size());
    for (const OpDef* op : all_ops()) {
      if (op->name == names.substr(begin, end - begin)) found.push_back(op);
    }
    begin = end + 1;
  }
  return found;
}

const std::vector<Pattern>& patterns() {
  static const auto* all = [] {
    auto* made = new std::vector<Pattern>;
    for (const OpDef* op : all_ops()) {
      for (const FusionPattern& p : op->replaces) {
        Pattern& pattern = made->emplace_back(Pattern{op, {}, p.fuse});
        for (const char* names : p.ops) {
          if (names != nullptr) pattern.steps.push_back(named(names));
        }
      }
    }
    return made;
  }();
  return *all;
}

bool begins_any(Calls calls) {
  return std::any_of(patterns().begin(), patterns().end(), [&](const Pattern& p) { return p.begins_with(calls); });
}

/// Ops that begin a pattern, so that all others are told quickly.
bool begins_any(const OpDef& op) {
  static const auto* first = [] {
    auto* ops = new std::vector<const OpDef*>;
    for (const Pattern& p : patterns()) ops->insert(ops->end(), p.steps[0].begin(), p.steps[0].end());
    std::sort(ops->begin(), ops->end());
    ops->erase(std::unique(ops->begin(), ops->end()), ops->end());
    return ops;
  }();
  return std::find(first->begin(), first->end(), &op) != first->end();
}

bool enabled_in_process() {
  static const bool on = [] {
    const char* value = std::getenv("ETNA_FUSE_OPS");
    return value == nullptr || std::strcmp(value, "0") != 0;
  }();
  return on;
}

thread_local bool enabled = enabled_in_process();
thread_local Window recorded;       ///< of this thread's recording
thread_local bool running = false;  ///< this thread runs held back calls

/// All threads that do not record share one window: a tensor may go from thread to thread. The last reference to a
/// tensor may end here, and what it owns (a custom function of the tape) may call ops: hence recursive.
struct Eager {
  std::recursive_mutex mutex;
  Window window;
};
Eager& eager() {
  static auto* made = new Eager;
  return *made;
}

void run_pending() {
  if (running || detail::computing()) return;
  if (capturing()) {
    recorded.run();
  } else {
    std::lock_guard lock(eager().mutex);
    eager().window.run();
  }
}

/// GPUs have no kernels for f64 (decision 002). Such a call falls back, and says so when it is made.
bool any_f64(std::span<const Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.defined() && x.dtype() == f64; });
}

/// Runs one call in the place of several. Returns false if its op has no kernel for this call.
bool run_fused(const Call& call) {
  TensorList out = call.out;
  return detail::compute_by_kernel({*call.op, call.in, call.attrs}, out[0].device(), out);
}

void run_one(const Call& call) {
  TensorList out = call.out;
  detail::compute({*call.op, call.in, call.attrs}, out[0].device(), out);
}

/// Runs the longest match at the beginning of `calls`. @return the number of calls it replaces
std::size_t run_first(Calls calls) {
  profile::WithLabels labels(calls[0].labels);
  for (std::size_t n = calls.size(); n > 1; --n) {
    for (const Pattern& p : patterns()) {
      if (p.steps.size() != n || !p.begins_with(calls.first(n))) continue;
      Call fused;
      fused.op = p.fused;
      if (p.fuse(calls.first(n), fused) && run_fused(fused)) return n;
    }
  }
  run_one(calls[0]);
  return 1;
}

}  // namespace

bool dead(Calls calls, std::size_t i) {
  const Tensor& x = calls[i].out[0];
  return x.impl_ptr().use_count() == 2 && x.storage().use_count() == 1;
}

bool rounds_when_stored(const Tensor& x) { return x.device().is_cpu() && item_size(x.dtype()) == 2; }

Tensor added_to(Calls calls, std::size_t i) {
  const TensorList& in = calls[i].in;
  const TensorImpl* before = calls[i - 1].out[0].impl();
  if (!in[0].defined() || !in[1].defined() || (in[0].impl() == before) == (in[1].impl() == before)) return {};
  return in[0].impl() == before ? in[1] : in[0];
}

Fusion::Fusion(bool on) : before_(enabled) {
  finish_pending();
  enabled = on && enabled_in_process();
}
Fusion::~Fusion() { enabled = before_; }

Window::~Window() { drop(); }

void Window::drop() {
  if (calls_.empty()) return;
  etna::detail::pending_work.fetch_sub(1);
  const std::vector<Call> dropped = std::exchange(calls_, {});
}

void Window::run() {
  if (calls_.empty()) return;
  struct Run {
    Window& window;
    explicit Run(Window& w) : window(w) { running = true; }
    ~Run() {
      running = false;
      window.drop();
    }
  } run(*this);
  for (std::size_t at = 0; at < calls_.size();) at += run_first(Calls(calls_).subspan(at));
}

bool Window::hold_back(const OpCall& call, const TensorList& out) {
  auto reads_last = [&] {
    const TensorImpl* last = calls_.back().out[0].impl();
    return std::any_of(call.in.begin(), call.in.end(),
                       [&](const Tensor& x) { return x.defined() && x.impl() == last; });
  };
  if (!calls_.empty()) {
    if (reads_last()) {
      push(call, out);
      if (begins_any(calls_)) return true;
      calls_.pop_back();
    }
    run();
  }
  if (!begins_any(call.op)) return false;
  push(call, out);
  return true;
}

void Window::push(const OpCall& call, const TensorList& out) {
  if (calls_.empty()) etna::detail::pending_work.fetch_add(1);
  calls_.push_back({&call.op, TensorList(call.in.begin(), call.in.end()), out, call.attrs, profile::Labels::now()});
}

bool running_held_back() { return running; }

void drop_recorded() { recorded.drop(); }

bool hold_back(const OpCall& call, Device device, const TensorList& out) {
  if (detail::computing()) return false;
  // Most ops begin no pattern, and usually nothing waits.
  if (etna::detail::pending_work.load(std::memory_order_acquire) == 0 && !begins_any(call.op)) return false;
  const bool records = capturing();
  const bool kernels = device.is_cpu() ? records && call.op.cpu != nullptr : gpu::runs_kernels(device);
  if (!enabled || !kernels || (!device.is_cpu() && (any_f64(call.in) || any_f64(out)))) {
    finish_pending();
    return false;
  }
  if (records) return recorded.hold_back(call, out);
  std::lock_guard lock(eager().mutex);
  return eager().window.hold_back(call, out);
}

namespace {
[[maybe_unused]] const bool registered = (set_pending_work(run_pending), true);
}

}  // namespace etna::fusion
