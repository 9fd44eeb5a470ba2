#include <etna/tensor/capture.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/backend.h>
#include <etna/device/internal/log.h>
#include <etna/device/kernel.h>
#include <etna/device/memory_control.h>
#include <etna/device/profile/profiler.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/graph/captured_step.h>

namespace etna {
namespace {

/// Maximum number of captures per captured function; there is one for each combination of argument shapes and of
/// modes.
constexpr std::size_t kMostSteps = 16;

/// What two calls must share to use the same capture.
struct Signature {
  struct Argument {
    Shape shape;
    DType dtype;
    bool operator==(const Argument&) const = default;
  };
  std::vector<Argument> arguments;
  bool grad_mode = true;
  DType precision = DType::f32;  ///< autocast's
  bool operator==(const Signature&) const = default;
};

Signature signature_of(const TensorList& arguments) {
  Signature s;
  for (const Tensor& x : arguments) s.arguments.push_back({x.shape(), x.dtype()});
  s.grad_mode = grad_enabled();
  s.precision = autocast_dtype();
  return s;
}

/// "argument 0 is [16, 64] i32 now, was [32, 64] i32"
std::string difference(const Signature& before, const Signature& now) {
  if (before.arguments.size() != now.arguments.size()) {
    return fmt::format("{} arguments now, {} before", now.arguments.size(), before.arguments.size());
  }
  for (std::size_t i = 0; i < now.arguments.size(); ++i) {
    const auto &a = before.arguments[i], &b = now.arguments[i];
    if (!(a == b)) {
      return fmt::format("argument {} is {} {} now, was {} {}", i, str(b.shape), name(b.dtype), str(a.shape),
                         name(a.dtype));
    }
  }
  if (before.precision != now.precision)
    return fmt::format("autocast is {} now, was {}", name(now.precision), name(before.precision));
  return fmt::format("grad mode is {} now", now.grad_mode ? "on" : "off");
}

bool enabled() {
  const char* value = std::getenv("ETNA_CAPTURE");
  return value == nullptr || std::strcmp(value, "0") != 0;
}

void require_plain(const std::string& name, const TensorList& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].defined()) throw CaptureError(fmt::format("capture '{}': argument {} is undefined", name, i));
    if (arguments[i].requires_grad()) {
      throw CaptureError(
          fmt::format("capture '{}': argument {} {} requires grad; a step works on a copy of its arguments, so no "
                      "gradient would reach it: use it inside the function instead",
                      name, i, str(arguments[i].shape())));
    }
  }
}

TensorList off_the_tape(const TensorList& results) {
  TensorList plain;
  for (const Tensor& x : results) plain.push_back(x.defined() ? x.detach() : x);
  return plain;
}

std::uint64_t barriers_of(Device device) { return gpu::queue_stats(device).barriers; }

}  // namespace

struct Captured::State {
  CaptureOptions options;
  bool warm = false;  ///< a call has run eagerly since the start, or since the device changed
  Device device;      ///< the device of the first call's ops
  bool told = false;  ///< has reported that the backend captures no steps
  std::uint64_t barriers_eager = 0;
  struct Kept {
    Signature signature;
    std::unique_ptr<CapturedStep> step;
    bool ends_step = false;  ///< an optimizer steps in it (memory_leaks.h)
  };
  std::vector<Kept> steps;         ///< most recently used first
  std::vector<StoragePtr> shared;  ///< planned memory: only one of them runs at a time
  std::int64_t captures = 0, replays = 0;

  void say(const std::string& text) const { log().warn("capture '{}': {}", options.name, text); }

  TensorList run_eagerly(const TensorList& arguments, const Function& function);
  TensorList capture(const Signature& signature, const TensorList& arguments, const Function& function);
};

Captured::Captured(CaptureOptions options) : state_(std::make_unique<State>()) { state_->options = std::move(options); }
Captured::~Captured() = default;
Captured::Captured(Captured&&) noexcept = default;
Captured& Captured::operator=(Captured&&) noexcept = default;

bool Captured::captured() const { return !state_->steps.empty(); }
std::int64_t Captured::captures() const { return state_->captures; }
std::int64_t Captured::replays() const { return state_->replays; }

const CaptureReport& Captured::report() const {
  if (!captured()) {
    throw CaptureError(fmt::format("capture '{}': nothing is captured yet; the second call is", state_->options.name));
  }
  return state_->steps.front().step->report();
}

void Captured::reset() {
  state_->steps.clear();
  state_->shared.clear();
  state_->warm = false;
}

TensorList Captured::State::run_eagerly(const TensorList& arguments, const Function& function) {
  TensorList in = arguments;
  if (options.device) {
    for (Tensor& x : in) x = x.to(*options.device);
  }
  Device seen = options.device.value_or(kCPU);
  const std::uint64_t before = barriers_of(seen);
  TensorList results;
  {
    capture_hooks::ObserveDevice observe(&seen);
    results = off_the_tape(function(in));
  }
  device = seen;
  if (options.device) barriers_eager = barriers_of(seen) - before;
  return results;
}

TensorList Captured::State::capture(const Signature& signature, const TensorList& arguments, const Function& function) {
  profile::Scope scope("capture");
  const Device on = options.device.value_or(device);
  capture_hooks::observe(on);
  if (backend(on).graph_form() == GraphForm::none) {
    if (!std::exchange(told, true)) say(fmt::format("{} captures no steps; every step runs eagerly", on.str()));
    return run_eagerly(arguments, function);
  }
  auto step = std::make_unique<CapturedStep>(options.name, on,
                                             GraphOptions{.one_by_one = options.one_by_one, .shared = &shared});
  const std::int64_t steps_before = detail::steps_ended();
  step->capture(
      arguments, [&](const TensorList& inputs) { return off_the_tape(function(inputs)); },
      static_cast<std::int64_t>(barriers_eager));
  ++captures;
  TensorList results = step->outputs();
  steps.insert(steps.begin(), Kept{signature, std::move(step), detail::steps_ended() > steps_before});
  if (steps.size() > kMostSteps) {
    say(fmt::format("more than {} combinations of shapes and modes; the capture used longest ago goes", kMostSteps));
    steps.pop_back();
  }
  return results;
}

TensorList Captured::run(const TensorList& arguments, const Function& function) {
  State& s = *state_;
  require_plain(s.options.name, arguments);
  // Inside another captured step, or with capture off, this is an ordinary function.
  if (capturing()) return function(arguments);
  detail::FreshCasts fresh;
  if (!enabled()) return s.run_eagerly(arguments, function);

  const Signature signature = signature_of(arguments);
  std::string changed;  // what differs from the last capture for these arguments
  const auto found = std::find_if(s.steps.begin(), s.steps.end(), [&](const State::Kept& r) {
    if (!(r.signature == signature)) return false;
    std::string difference = r.step->difference();
    const bool same = difference.empty();
    if (changed.empty()) changed = std::move(difference);
    return same;
  });
  if (found != s.steps.end()) {
    if (std::string why = found->step->stale(); !why.empty()) {
      s.say(why + "; it is captured again");
      s.steps.erase(found);
      // Only an eager call shows which device the tensors are on now.
      s.warm = s.options.device.has_value();
    } else {
      std::rotate(s.steps.begin(), found, found + 1);
      ++s.replays;
      CapturedStep& step = *s.steps.front().step;
      capture_hooks::observe(step.device());
      step.replay(arguments);
      if (s.steps.front().ends_step) end_step();
      return step.outputs();
    }
  } else if (!changed.empty()) {
    s.say(changed + "; it is captured again for that");
    std::erase_if(s.steps, [](const State::Kept& r) { return !r.step->stale().empty(); });
  } else if (!s.steps.empty() && !s.options.varied_shapes) {
    s.say(difference(s.steps.front().signature, signature) + "; it is captured again for that");
  }
  if (!s.warm) {
    TensorList results = s.run_eagerly(arguments, function);
    s.warm = true;
    return results;
  }
  return s.capture(signature, arguments, function);
}

}  // namespace etna
