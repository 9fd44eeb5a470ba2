#include <etna/tensor/op.h>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <etna/device/memory.h>
#include <etna/device/memory_control.h>
#include <etna/device/profile/profiler.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/detours.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/internal/kernels.h>
#include <etna/tensor/internal/overrides.h>

namespace etna {
namespace {

/// What a thread's calls of ops depend on.
struct OpState {
  bool grad_mode = true;
  int kernels = 0;  ///< that run, one in another
};
constinit thread_local OpState op_state;

constexpr std::int64_t kMostElements = 0x7fffffff;  ///< the most that kernels can index
/// Results of more bytes take memory at once, so that OutOfMemory is an error of the call that asked for them.
constexpr std::int64_t kMostBytesWhenUsed = std::int64_t{16} << 20;

/// The device an op runs on: the first GPU among its inputs, else the CPU.
Device device_of(const OpDef& op, std::span<const Tensor> inputs) {
  Device device;
  for (const Tensor& x : inputs) {
    if (!x.defined() || x.device().is_cpu()) continue;
    if (device.is_cpu()) device = x.device();
    if (device != x.device()) {
      throw DeviceError(
          fmt::format("{}: inputs on {} and {}; move one with .to(device)", op.name, device.str(), x.device().str()));
    }
  }
  return device;
}

/// Copies host inputs to the op's device and counts the transfers. Returns true if the op must use `moved` instead of
/// its inputs.
bool move_inputs(const OpDef& op, std::span<const Tensor> inputs, Device device, TensorList& moved) {
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || inputs[i].device() == device) continue;
    detail::count_moved_tensor(op.name, fmt::format("input {} {} is on {}, another is on {}", i, str(inputs[i].shape()),
                                                    inputs[i].device().str(), device.str()));
    if (!any) moved.assign(inputs.begin(), inputs.end());
    any = true;
    moved[i] = inputs[i].to(device);
  }
  return any;
}

/// @param later the kernel may run later, or never
TensorList allocate_outputs(const OpCall& call, Device device, const std::vector<OutputSpec>& specs, bool later) {
  TensorList out;
  out.reserve(specs.size());
  for (const OutputSpec& spec : specs) {
    if (spec.alias >= 0) {
      out.push_back(call.in[static_cast<std::size_t>(spec.alias)]);
      out.back().storage()->count_write(call.op.name);
    } else {
      const std::int64_t elements = numel(spec.shape, call.op.name);
      if (elements > kMostElements) {
        throw ShapeError(
            fmt::format("{}: the result {} has more than 2^31 elements, which kernels do not index; split it",
                        call.op.name, str(spec.shape)));
      }
      const TensorOptions options{spec.dtype, device};
      const bool when_used = later && elements * static_cast<std::int64_t>(item_size(spec.dtype)) <= kMostBytesWhenUsed;
      out.push_back(when_used ? detail::empty_when_used(call.op.name, spec.shape, options)
                              : detail::empty(call.op.name, spec.shape, options));
    }
  }
  return out;
}

/// True if no output has elements and one has no valid strides: kernels must not compute products of its sizes.
bool nothing_to_compute(const TensorList& out) {
  bool strides = true;
  for (const Tensor& y : out) {
    if (y.numel() > 0) return false;
    strides = strides && has_strides(y.shape());
  }
  return !strides;
}

/// The op's infer(); an undefined operand that it needs is named.
std::vector<OutputSpec> op_infer(const OpCall& call) {
  try {
    return call.op.infer(call);
  } catch (const UndefinedTensor& error) {
    const auto used = std::find_if(call.in.begin(), call.in.end(), [&](const Tensor& x) { return &x == error.used; });
    const auto first = std::find_if(call.in.begin(), call.in.end(), [](const Tensor& x) { return !x.defined(); });
    const auto operand = used != call.in.end() ? used : first;
    if (operand == call.in.end()) throw;
    throw UndefinedTensor(call.op.name, static_cast<std::size_t>(operand - call.in.begin()) + 1);
  }
}

/// Runs the reference and writes its results to the op's outputs.
void compose(const OpCall& call, TensorList& out) {
  TensorList composed = call.op.reference(call);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].copy_(composed[i]);
}

/// Without a kernel: runs the reference, or computes on the CPU and copies the outputs back.
void fall_back(const OpCall& call, Device device, TensorList& out) {
  if (call.op.reference != nullptr) {
    detail::count_fallback(call.op.name,
                           fmt::format("no kernel on {} for these dtypes, composed of others", device.str()));
    detail::count_detour(Detour::reference, device, call.op.name);
    compose(call, out);
    return;
  }
  detail::count_fallback(call.op.name,
                         fmt::format("no kernel on {} for these dtypes, computed on the CPU", device.str()));
  detail::count_detour(Detour::fallback, device, call.op.name);
  detail::count_cpu_kernel(call.op.name);
  TensorList host(call.in.begin(), call.in.end());
  for (Tensor& x : host) {
    if (x.defined()) x = detail::host_copy(x);
  }
  TensorList host_out;
  for (const Tensor& y : out) host_out.push_back(empty(y.shape(), {y.dtype(), kCPU}));
  std::vector<OutputSpec> specs = call.op.infer({call.op, host, call.attrs});
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].alias >= 0) host_out[i] = host[static_cast<std::size_t>(specs[i].alias)];
  }
  call.op.cpu({call.op, host, call.attrs}, host_out);
  for (std::size_t i = 0; i < out.size(); ++i) detail::write_back(host_out[i].contiguous(), out[i]);
}

/// Inside a kernel, a fallback or a reference.
class Computing {
 public:
  explicit Computing(const char* op) : running_(op), off_(false), as_given_(f32) { ++op_state.kernels; }
  ~Computing() { --op_state.kernels; }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

 private:
  capture_hooks::Running running_;
  GradMode off_;
  Autocast as_given_;
};

/// Runs f; an OutOfMemory in it names the op.
auto naming(const char* op, auto&& f) {
  try {
    return f();
  } catch (const OutOfMemory& error) {
    std::string_view what = error.what();
    std::string prefix = fmt::format("{}: ", op);
    if (what.starts_with(prefix)) throw;
    throw OutOfMemory(prefix + std::string(what));
  }
}

/// Notes in a result what it is a view of.
void note_view(const Tensor& x, const Tensor& y, bool recorded) {
  TensorImpl &of = *x.impl(), &view = *y.impl();
  if (view.storage != of.storage || &view == &of || !of.storage) return;
  using View = TensorImpl::View;
  if (!recorded || of.view != View::recorded) {
    const bool of_graph = of.view == View::of_graph_off_tape || (!recorded && x.requires_grad());
    view.view = of_graph ? View::of_graph_off_tape : View::off_tape;
    return;
  }
  view.base = of.base != nullptr ? of.base : x.impl_ptr();
  view.writes = view.base->writes;
}

TensorList op_run(const OpCall& call, Device device) {
  capture_hooks::Running running(call.op.name);
  if (const auto* on_op = overrides().on_op) (*on_op)(call.op);
  if (call.op.direct != nullptr) {
    // Not Computing: a copy to another device must first wait for the calls held back.
    const bool recorded = grad_enabled();
    GradMode off(false);
    Autocast as_given(f32);
    TensorList out = call.op.direct(call);
    for (const Tensor& y : out) note_view(call.in[0], y, recorded);
    return out;
  }
  for (const Tensor& x : call.in) {
    if (x.defined()) detail::check_countable(call.op.name, x);
  }
  std::vector<OutputSpec> specs = op_infer(call);
  const bool later = fusion::may_hold_back(call.op);
  TensorList out = naming(call.op.name, [&] { return allocate_outputs(call, device, specs, later); });
  if (nothing_to_compute(out)) return out;
  if (later && fusion::hold_back(call, device, out)) return out;
  detail::compute(call, device, out);
  return out;
}

}  // namespace

Tensor detail::empty_when_used(const char* op, const Shape& shape, TensorOptions options) {
  const StoragePtr storage = allocate_when_used(options.device, byte_size(shape, item_size(options.dtype), op));
  if (watching_leaks()) note_maker(*storage, op, shape, options.dtype);
  return make_view(storage, options.device, options.dtype, shape, contiguous_strides(shape), 0);
}

void detail::note_maker(const Storage& storage, const char* op, const Shape& shape, DType dtype) {
  const bool plain = std::string_view(op) == "empty";
  note_tensor(&storage, plain ? capture_hooks::Running::name() : op, fmt::format("{} {}", str(shape), name(dtype)));
}

bool detail::computing() { return op_state.kernels > 0; }

bool detail::compute_by_kernel(const OpCall& call, Device device, TensorList& out) {
  Computing computing(call.op.name);
  return naming(call.op.name, [&] {
    if (!device.is_cpu()) return run_kernel(call, device, out);
    if (call.op.cpu != nullptr) capture_hooks::run_cpu_kernel(call, out);
    return call.op.cpu != nullptr;
  });
}

void detail::compute(const OpCall& call, Device device, TensorList& out) {
  Computing computing(call.op.name);
  naming(call.op.name, [&] {
    if (overrides().compose_ops && call.op.reference != nullptr && !fusion::running_held_back()) {
      detail::count_detour(Detour::reference, device, call.op.name);
      compose(call, out);
    } else if (device.is_cpu() && call.op.cpu == nullptr) {
      detail::count_detour(Detour::composed, device, call.op.name);
      out = call.op.reference(call);
    } else if (!compute_by_kernel(call, device, out)) {
      fall_back(call, device, out);
    }
  });
}

void detail::check_countable(const char* op, const Tensor& x) {
  const std::int64_t n = x.numel();
  if (n <= kMostElements || !x.impl()->storage) return;
  if (static_cast<std::uint64_t>(n) <= x.storage()->bytes() / item_size(x.dtype())) return;
  throw ShapeError(fmt::format(
      "{}: {} repeats its elements to more than 2^31, which kernels do not index; expand less, or use it in parts", op,
      str(x.shape())));
}

bool grad_enabled() { return op_state.grad_mode; }
void set_grad_enabled(bool on) { op_state.grad_mode = on; }

TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  profile::Scope scope(op.name, profile::Category::op);
  Device device = device_of(op, inputs);
  TensorList moved;
  if (capturing()) {
    capture_hooks::touch(op.name, inputs);
  } else if (!device.is_cpu()) {
    capture_hooks::observe(device);
    if (move_inputs(op, inputs, device, moved)) inputs = moved;
  }
  TensorList out = op_run({op, inputs, attrs}, device);
  GradRecorder& recorder = grad_recorder();
  if (recorder.wants(inputs)) recorder.record(op, inputs, attrs, out);
  return out;
}

TensorList apply(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs) {
  return apply(op, std::span(inputs.begin(), inputs.size()), attrs);
}

Tensor apply1(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs) {
  return std::move(apply(op, std::span(inputs.begin(), inputs.size()), attrs)[0]);
}

}  // namespace etna
