#include <etna/tensor/recording.h>

#include <cstring>

#include <fmt/format.h>

#include <etna/device/kernel.h>
#include <etna/device/pending.h>
#include <etna/tensor/fusion.h>

namespace etna {
namespace recording {
namespace {

thread_local Session* current_session = nullptr;
thread_local Device* observed_device = nullptr;

}  // namespace

thread_local const char* Running::name_ = nullptr;

Session* Session::current() { return current_session; }

void Session::touch(const char* op, std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors) {
    if (!x.defined() || !x.impl()->storage) continue;
    if (x.device() != device_) {
      throw CaptureError(
          fmt::format("{}: an operand {} is on {} while '{}' is captured on {}; move it there before, or pass it as an "
                      "argument",
                      op, str(x.shape()), x.device().str(), name_, device_.str()));
    }
    const StoragePtr& storage = x.impl()->storage;
    if (made_here(*storage)) continue;
    auto [at, added] = externals_.try_emplace(storage.get());
    if (added) at->second = {storage, storage->version, false};
  }
}

StoragePtr Session::allocate(Device device, std::size_t bytes) {
  if (device != device_) {
    throw CaptureError(
        fmt::format("{}: takes {} bytes on {} while '{}' is captured on {}, which no plan covers; make it "
                    "before, or pass it as an argument",
                    Running::name(), bytes, device.str(), name_, device_.str()));
  }
  return place(bytes);
}

void Session::ran(const OpCall&, std::span<const Tensor>) {}

Entered::Entered(Session& session) {
  current_session = &session;
  session.enter();
}
Entered::~Entered() {
  if (current_session != nullptr) current_session->leave();
  current_session = nullptr;
  fusion::drop_recorded();
}

void forbid(const char* what, const char* why) {
  if (Session* session = current_session; session != nullptr && !session->in_kernel()) {
    throw CaptureError(fmt::format("{}: {} while a step is captured on {}, where a replay would not see it", what, why,
                                   session->device().str()));
  }
}

void run_cpu_kernel(const OpCall& call, std::span<Tensor> out) {
  Session* session = current_session;
  if (session == nullptr) {
    call.op.cpu(call, out);
    return;
  }
  finish_pending();
  session->kernel_begins();
  try {
    call.op.cpu(call, out);
  } catch (...) {
    session->kernel_ends();
    throw;
  }
  session->kernel_ends();
  session->ran(call, out);
}

void note_gradient(const Tensor& leaf, Touch touch) {
  Session* session = current_session;
  if (session == nullptr || session->gradients().contains(leaf.impl())) return;
  LeafGradient& note = session->gradients()[leaf.impl()];  // create the note first: grad() calls this function again
  note.leaf = leaf;
  note.read_first = touch == Touch::read;
  if (!note.read_first) return;
  if (Tensor grad = leaf.grad(); grad.defined()) note.before = grad.storage();
}

ObserveDevice::ObserveDevice(Device* device) : device_(device), outer_(std::exchange(observed_device, device)) {}
ObserveDevice::~ObserveDevice() {
  observed_device = outer_;
  observe(*device_);  // outer observers see it too
}
void observe(Device device) {
  if (observed_device != nullptr && observed_device->is_cpu()) *observed_device = device;
}

}  // namespace recording

using recording::current_session;
using recording::Session;

bool capturing() { return current_session != nullptr; }

void each_step(std::function<void()> f) {
  {
    NotCaptured now;
    f();
  }
  if (current_session != nullptr) current_session->host().add(std::move(f));
}

namespace detail {

Tensor each_step_tensor(const Shape& shape, TensorOptions options, std::function<void(std::byte*)> fill) {
  auto now = [fill = std::move(fill)](std::byte* to) {
    NotCaptured outside;
    fill(to);
  };
  if (current_session != nullptr) {
    if (current_session->device() != options.device) {
      throw CaptureError(fmt::format("each_step: numbers for {} while a step is captured on {}", options.device.str(),
                                     current_session->device().str()));
    }
    return current_session->numbers(shape, options.dtype, now);
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
  gpu::record_update(options.device, *made.storage(), 0, bytes);
  return made;
}

}  // namespace detail

Tensor each_step(std::function<double()> value, TensorOptions options) {
  return detail::each_step_tensor({}, options, [value = std::move(value), t = options.dtype](std::byte* to) {
    visit(t, [&, number = value()](auto zero) {
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

NotCaptured::NotCaptured() : session_(current_session) {
  finish_pending();
  if (current_session != nullptr) current_session->leave();
  current_session = nullptr;
}
NotCaptured::~NotCaptured() {
  current_session = static_cast<Session*>(session_);
  if (current_session != nullptr) current_session->enter();
}

}  // namespace etna
