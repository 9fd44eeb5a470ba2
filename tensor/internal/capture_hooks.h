#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <etna/tensor/capture.h>
#include <etna/tensor/op.h>

/// What the library itself calls while a step is captured (tensor/internal/graph/). Users include
/// <etna/tensor/capture.h>.
namespace etna::capture_hooks {

/// While a step is captured: an op or method is about to use these tensors, which must all be on the step's device.
/// @throws CaptureError
void touch(const char* op, std::span<const Tensor> tensors);
inline void touch(const char* op, const Tensor& tensor) { touch(op, std::span(&tensor, 1)); }

namespace detail {
struct OfThread {
  const char* running = nullptr;  ///< op or method
  Device* observed = nullptr;     ///< by the innermost ObserveDevice
  CapturedStep* step = nullptr;   ///< CapturedStep::current()
};
extern constinit thread_local OfThread of_thread;
}  // namespace detail

/// The name of the op or method that runs in this thread, for messages. Outside any it is `empty`, the only function
/// that allocates there. Scopes nest.
class Running {
 public:
  explicit Running(const char* name) : before_(std::exchange(detail::of_thread.running, name)) {}
  ~Running() { detail::of_thread.running = before_; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  static const char* name() {
    const char* running = detail::of_thread.running;
    return running != nullptr ? running : "empty";
  }

 private:
  const char* before_;
};

/// @throws CaptureError naming `what` while a step is captured: it would happen once and not at replays.
void forbid(const char* what, const char* why);

/// Runs a CPU kernel, `call.op.cpu`. A capture notes the kernel, not the ops it calls.
void run_cpu_kernel(const OpCall& call, std::span<Tensor> out);

/// Called before autograd reads or replaces a leaf's gradient.
enum class Touch { read, write };
void note_gradient(const Tensor& leaf, Touch touch);

/// A number that decides what the host does: whether a module trains.
using Setting = std::shared_ptr<std::int64_t>;
/// A setting in words, for a message: "Dropout is in eval mode now".
using Described = std::function<std::string(std::int64_t now)>;
/// Called before a setting is read or written. A capture is not replayed while a setting that it read first has
/// another value; a replay leaves a setting that the capture wrote as the capture did.
void note_setting(const Setting& setting, Touch touch, Described what);
/// The same of whether a leaf requires grad.
void note_requires_grad(const Tensor& leaf, Touch touch);
/// Called after a setting, or what requires grad, has changed.
void changed();
/// While a step is captured: `check` runs before each replay and says why the capture no longer does what its
/// function would; empty if it does.
void guard(std::function<std::string()> check);

/// While one lives, *device is set to the first GPU on which this thread runs an op.
class ObserveDevice {
 public:
  explicit ObserveDevice(Device* device);
  ~ObserveDevice();
  ObserveDevice(const ObserveDevice&) = delete;
  ObserveDevice& operator=(const ObserveDevice&) = delete;

 private:
  Device *device_, *outer_;
};
void observe(Device device);

}  // namespace etna::capture_hooks
