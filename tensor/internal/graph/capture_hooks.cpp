#include <etna/tensor/internal/capture_hooks.h>

#include <cstring>

#include <fmt/format.h>

#include <etna/device/internal/pending.h>
#include <etna/device/kernel.h>
#include <etna/tensor/internal/detours.h>
#include <etna/tensor/internal/graph/captured_step.h>

namespace etna {
namespace capture_hooks {

constinit thread_local detail::OfThread detail::of_thread;

void touch(const char* op, std::span<const Tensor> tensors) {
  if (CapturedStep* step = CapturedStep::current()) step->touch(op, tensors);
}

void forbid(const char* what, const char* why) {
  if (CapturedStep* step = CapturedStep::current(); step != nullptr && !step->in_kernel()) {
    throw CaptureError(fmt::format("{}: {} while a step is captured on {}, where a replay would not see it", what, why,
                                   step->device().str()));
  }
}

void run_cpu_kernel(const OpCall& call, std::span<Tensor> out) {
  etna::detail::count_cpu_kernel(call.op.name);
  CapturedStep* step = CapturedStep::current();
  // Writes in place come here without having been held back: they see what calls before them compute.
  if (step == nullptr) {
    finish_pending_on_host();
    call.op.cpu(call, out);
    return;
  }
  finish_pending();
  {
    struct InKernel {
      CapturedStep& step;
      ~InKernel() { step.kernel_ends(); }
    };
    step->kernel_begins();
    InKernel scope{*step};
    call.op.cpu(call, out);
  }
  step->ran(call, out);
}

void note_gradient(const Tensor& leaf, Touch touch) {
  if (CapturedStep* step = CapturedStep::current()) step->note_gradient(leaf, touch);
}

void note_setting(const Setting& setting, Touch touch, Described what) {
  if (CapturedStep* step = CapturedStep::current()) step->watched().note(setting, touch, std::move(what));
}

void note_requires_grad(const Tensor& leaf, Touch touch) {
  if (CapturedStep* step = CapturedStep::current()) step->watched().note_requires_grad(leaf, touch);
}

void guard(std::function<std::string()> check) {
  if (CapturedStep* step = CapturedStep::current()) step->watched().guard(std::move(check));
}

ObserveDevice::ObserveDevice(Device* device)
    : device_(device), outer_(std::exchange(detail::of_thread.observed, device)) {}
ObserveDevice::~ObserveDevice() {
  detail::of_thread.observed = outer_;
  observe(*device_);  // outer observers see it too
}
void observe(Device device) {
  Device* observed = detail::of_thread.observed;
  if (observed != nullptr && observed->is_cpu()) *observed = device;
}

}  // namespace capture_hooks

bool capturing() { return CapturedStep::current() != nullptr; }

void each_step(std::function<void()> f) {
  {
    NotCaptured now;
    f();
  }
  if (CapturedStep* step = CapturedStep::current()) step->each_replay(std::move(f));
}

namespace detail {

Tensor each_step_tensor(const Shape& shape, TensorOptions options, std::function<void(std::byte*)> fill) {
  auto now = [fill = std::move(fill)](std::byte* to) {
    NotCaptured outside;
    fill(to);
  };
  if (CapturedStep* step = CapturedStep::current()) {
    if (step->device() != options.device) {
      throw CaptureError(fmt::format("each_step: numbers for {} while a step is captured on {}", options.device.str(),
                                     step->device().str()));
    }
    return step->numbers(shape, options.dtype, now);
  }
  Tensor made = empty(shape, options);
  if (options.device.is_cpu()) {
    now(made.storage()->host());
    return made;
  }
  if (!gpu::runs_kernels(options.device)) {
    std::vector<std::byte> bytes(made.storage()->bytes());
    now(bytes.data());
    upload(bytes.data(), *made.storage(), 0, static_cast<std::size_t>(numel(shape)) * item_size(options.dtype));
    return made;
  }
  std::vector<std::byte> bytes((made.storage()->bytes() + 3) / 4 * 4);
  now(bytes.data());
  gpu::enqueue_update(options.device, *made.storage(), 0, bytes);
  return made;
}

}  // namespace detail

Tensor each_step(std::function<double()> value, TensorOptions options) {
  return detail::each_step_tensor({}, options, [value = std::move(value), t = options.dtype](std::byte* to) {
    visit(t, [&, number = detail::number_held("each_step", t, value())](auto zero) {
      using T = decltype(zero);
      T converted;
      if constexpr (sizeof(T) == 2)
        converted = T(static_cast<float>(number));
      else
        converted = static_cast<T>(number);
      std::memcpy(to, &converted, sizeof(T));
    });
  });
}

NotCaptured::NotCaptured() : step_(CapturedStep::leave()) {}
NotCaptured::~NotCaptured() {
  if (step_ != nullptr) step_->enter();
}

}  // namespace etna
