#include <etna/tensor/internal/fusion.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>

#include <etna/device/internal/pending.h>
#include <etna/device/kernel.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/fusion_patterns.h>
#include <etna/tensor/internal/kernels.h>
#include <etna/tensor/internal/overrides.h>

namespace etna::fusion {
namespace {

bool enabled_in_process() {
  static const bool on = [] {
    const char* value = std::getenv("ETNA_FUSE_OPS");
    return value == nullptr || std::strcmp(value, "0") != 0;
  }();
  return on;
}

/// What a thread holds back of its own.
struct OfThread {
  Window captured;  ///< of the step that it captures
  Window on_cpu;    ///< its eager calls on the CPU, where it fuses them
  bool fuses_on_cpu = false;
  bool running = false;  ///< runs held back calls
};
thread_local OfThread of_thread;

/// All threads that capture nothing share one window: a tensor may go from thread to thread. The last reference to a
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
  if (of_thread.running || detail::computing()) return;
  if (capturing()) return of_thread.captured.run();
  of_thread.on_cpu.run();
  std::lock_guard lock(eager().mutex);
  eager().window.run();
}

void run_pending_on_host() {
  if (of_thread.fuses_on_cpu && !of_thread.running && !detail::computing()) of_thread.on_cpu.run();
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
  profile::WithLabels labels(call.labels);
  TensorList out = call.out;
  detail::compute({*call.op, call.in, call.attrs}, out[0].device(), out);
}

bool same_storage(const Tensor& x, const Tensor& y) {
  return x.defined() && y.defined() && x.impl()->storage == y.impl()->storage;
}

bool any_same_storage(std::span<const Tensor> all, const Tensor& x) {
  return std::any_of(all.begin(), all.end(), [&](const Tensor& y) { return same_storage(x, y); });
}

/// Whether `call` reads or overwrites what `later` computes, or overwrites what it reads.
bool must_follow(const Call& call, const Call& later) {
  for (const Tensor& y : later.out)
    if (any_same_storage(call.in, y) || any_same_storage(call.out, y)) return true;
  return std::any_of(later.in.begin(), later.in.end(), [&](const Tensor& x) { return any_same_storage(call.out, x); });
}

struct DropOnError {
  Window& window;
  bool failed = true;
  ~DropOnError() {
    if (failed) window.drop();
  }
};

/// Marks the thread as one that runs held back calls.
class Running {
 public:
  Running() { of_thread.running = true; }
  ~Running() { of_thread.running = false; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

}  // namespace

bool dead(Calls calls, std::size_t i) {
  const Tensor& x = calls[i].out[0];
  return x.impl_ptr().use_count() == 2 && x.storage().use_count() == 1;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return false;
  if (a.impl() == b.impl()) return true;
  return a.impl()->storage == b.impl()->storage && a.offset() == b.offset() && a.numel() == b.numel() &&
         a.dtype() == b.dtype() && a.is_contiguous() && b.is_contiguous();
}

bool rounds_when_stored(const Tensor& x) { return x.device().is_cpu() && item_size(x.dtype()) == 2; }

Tensor added_to(Calls calls, std::size_t i) {
  const TensorList& in = calls[i].in;
  const TensorImpl* before = calls[i - 1].out[0].impl();
  if (!in[0].defined() || !in[1].defined() || (in[0].impl() == before) == (in[1].impl() == before)) return {};
  return in[0].impl() == before ? in[1] : in[0];
}

long owners(const Tensor& x) {
  const long of_storage = owners(x.storage());
  return std::max(x.impl_ptr().use_count(), of_storage);
}

long owners(const StoragePtr& storage) {
  finish_pending();
  return storage.use_count();
}

OnCpu::OnCpu(Device device) : active_(device.is_cpu() && !capturing() && !of_thread.fuses_on_cpu) {
  if (active_) of_thread.fuses_on_cpu = true;
}
OnCpu::~OnCpu() noexcept(false) {
  if (!active_) return;
  of_thread.fuses_on_cpu = false;
  // After an error, what is held back is dropped.
  std::uncaught_exceptions() == 0 ? of_thread.on_cpu.run() : of_thread.on_cpu.drop();
}

Window::~Window() { drop(); }

void Window::count() {
  const bool any = !calls_.empty() || !later_.empty() || !forms_.empty();
  if (any == counted_) return;
  counted_ = any;
  any ? etna::detail::pending_work.fetch_add(1) : etna::detail::pending_work.fetch_sub(1);
}

void Window::drop() {
  // What they own may call ops when it is destroyed, so they go last.
  const std::vector<Call> calls = std::exchange(calls_, {}), later = std::exchange(later_, {});
  const std::vector<KeptForm> forms = std::exchange(forms_, {});
  count();
}

/// Nobody but this window refers to x. Copies in a call that is held back count as readers.
bool Window::dead(const Tensor& x) const {
  long own = 0;
  for (const Call& call : later_)
    own += std::count_if(call.out.begin(), call.out.end(), [&](const Tensor& y) { return y.impl() == x.impl(); });
  for (const KeptForm& kept : forms_) own += kept.form.of.impl() == x.impl() ? 1 : 0;
  return x.impl_ptr().use_count() == own && x.storage().use_count() == 1;
}

/// @param gone gets what is dropped, to be destroyed when the window is at rest
void Window::drop_dead(std::vector<Call>& gone) {
  for (bool more = true; std::exchange(more, false);) {
    // The last one may be the only reader of what the one before it computes.
    for (std::size_t i = later_.size(); i-- > 0;) {
      if (!std::all_of(later_[i].out.begin(), later_[i].out.end(), [&](const Tensor& x) { return dead(x); })) continue;
      gone.push_back(std::move(later_[i]));
      later_.erase(later_.begin() + static_cast<std::ptrdiff_t>(i));
      more = true;
    }
    std::erase_if(forms_, [&](const KeptForm& kept) {
      if (!dead(kept.form.of) && std::none_of(gone.begin(), gone.end(), [&](const Call& call) {
            return call.out[0].impl() == kept.form.of.impl();
          }))
        return false;
      Call& last = gone.emplace_back();
      last.in = kept.form.data;
      last.out = {kept.form.of};
      return more = true;
    });
  }
}

/// Computes later_[i], and first what it reads.
void Window::run_later(std::size_t i) {
  const Call call = std::move(later_[i]);
  later_.erase(later_.begin() + static_cast<std::ptrdiff_t>(i));
  run_before(call);
  const Running now;
  run_one(call);
}

/// Computes what was left out and must be there before `call` runs.
void Window::run_before(const Call& call) {
  for (std::size_t i = 0; i < later_.size();) {
    if (!must_follow(call, later_[i])) {
      ++i;
      continue;
    }
    run_later(i);
    i = 0;
  }
}

/// Makes a call read its first input in another form, where there is one.
void Window::adopt(Call& call) const {
  if (call.op->read_form == nullptr) return;
  for (const KeptForm& kept : forms_) {
    const Form& form = kept.form;
    if (same_elements(form.of, call.in[0]) && form.of.storage()->version == kept.version &&
        form.data[0].storage()->version == kept.data_version && call.op->read_form(form, call))
      return;
  }
}

/// Keeps what a fused call leaves behind.
void Window::keep(Fused& fused) {
  for (Call& call : fused.later) later_.push_back(std::move(call));
  for (Form& form : fused.forms) {
    const std::uint32_t version = form.of.storage()->version, data_version = form.data[0].storage()->version;
    forms_.push_back({std::move(form), version, data_version});
  }
}

/// Runs the longest match at the beginning of the calls. @param done gets the calls that it replaced, to be destroyed
/// when the window is at rest
void Window::run_first(std::vector<Call>& done) {
  const Calls calls(calls_);
  std::size_t count = 0;
  {
    const Running now;
    const profile::WithLabels labels(calls[0].labels);
    for (std::size_t n = calls.size(); n > 1 && count == 0; --n) {
      for (const Pattern& p : patterns(*calls[0].op)) {
        if (p.steps.size() != n || !p.begins_with(calls.first(n))) continue;
        Fused fused;
        fused.op = p.fused;
        fused.replaces = n;
        const bool fits = p.fuse(calls.first(n), fused);
        if (!fits || (fused.op != nullptr && !run_fused(fused))) {
          if (logs()) log_refused(calls.first(n), *p.fused, fits ? "there is no kernel for it" : fused.why);
          continue;
        }
        if (logs()) log_fused(calls.first(n), fused);
        count = fused.replaces;
        keep(fused);
        break;
      }
    }
    if (count == 0) {
      run_one(calls[0]);
      count = 1;
    }
  }
  const auto end = calls_.begin() + static_cast<std::ptrdiff_t>(count);
  done.insert(done.end(), std::make_move_iterator(calls_.begin()), std::make_move_iterator(end));
  calls_.erase(calls_.begin(), end);
  for (Call& call : calls_) {
    adopt(call);
    run_before(call);
  }
}

void Window::run() {
  DropOnError guard{*this};
  // Whatever is destroyed on the way may be the last reader of what was left out.
  while (!calls_.empty() || !later_.empty()) {
    std::vector<Call> done;
    if (!calls_.empty()) {
      run_first(done);
      continue;
    }
    drop_dead(done);
    if (done.empty()) run_later(0);
  }
  const std::vector<KeptForm> forms = std::exchange(forms_, {});
  guard.failed = false;
  count();
}

bool Window::hold_back(const OpCall& call, const TensorList& out) {
  DropOnError guard{*this};
  std::vector<Call> done;
  drop_dead(done);
  Call next{&call.op, TensorList(call.in.begin(), call.in.end()), out, call.attrs, profile::Labels::now()};
  bool held = false;
  for (;;) {
    adopt(next);
    run_before(next);
    held = calls_.empty() && !patterns(call.op).empty();
    if (calls_.empty()) {
      if (held) calls_.push_back(std::move(next));
      break;
    }
    calls_.push_back(std::move(next));
    held = begins_any(calls_);
    if (held) break;
    next = std::move(calls_.back());
    calls_.pop_back();
    run_first(done);
  }
  guard.failed = false;
  count();
  return held;
}

bool running_held_back() { return of_thread.running; }

void drop_captured() { of_thread.captured.drop(); }

bool may_hold_back(const OpDef& op) {
  if (detail::computing()) return false;
  // Most ops begin no pattern, and usually nothing waits.
  return etna::detail::pending_work.load(std::memory_order_acquire) > 0 || !patterns(op).empty();
}

bool hold_back(const OpCall& call, Device device, const TensorList& out) {
  const bool captures = capturing();
  const bool kernels =
      device.is_cpu() ? (captures || of_thread.fuses_on_cpu) && call.op.cpu != nullptr : gpu::runs_kernels(device);
  const bool fuses = overrides().fuse_calls && !overrides().compose_ops && enabled_in_process();
  if (!fuses || !kernels || (!device.is_cpu() && (any_f64(call.in) || any_f64(out)))) {
    finish_pending();
    return false;
  }
  if (captures) return of_thread.captured.hold_back(call, out);
  if (device.is_cpu()) return of_thread.on_cpu.hold_back(call, out);
  std::lock_guard lock(eager().mutex);
  return eager().window.hold_back(call, out);
}

namespace {
[[maybe_unused]] const bool registered = (set_pending_work(run_pending, run_pending_on_host), true);
}

}  // namespace etna::fusion
