#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <etna/tensor/capture.h>
#include <etna/tensor/host_steps.h>
#include <etna/tensor/op.h>

/// What the library itself calls while a step is recorded. Users include <etna/tensor/capture.h>.
namespace etna::recording {

/// A storage that existed before the recording; the program keeps it alive.
struct External {
  StoragePtr storage;
  std::uint32_t version = 0;  ///< at first the version itself, later how far each replay advances it
  bool shared = false;        ///< something else also held it when recording ended
};

/// A leaf whose gradient the step reads or writes.
struct LeafGradient {
  Tensor leaf;
  bool read_first = false;  ///< the step depends on the value at its beginning
  StoragePtr before;        ///< storage of the gradient at the beginning, null without one
  Tensor after;             ///< the gradient at the end; undefined: none
};
enum class Touch { read, write };

/// The device's half of a program: what each replay runs.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual void run(HostSteps& host) = 0;
  /// Completes the step during which it was recorded. Does nothing where ops already ran while they were recorded.
  virtual void run_first(HostSteps& host) { run(host); }
};

/// A recording in progress in one thread.
class Session : public AllocationHook {
 public:
  Session(std::string name, Device device) : name_(std::move(name)), device_(device) {}

  /// The session of this thread; null if there is none, or while a NotCaptured lives.
  static Session* current();

  Device device() const { return device_; }
  HostSteps& host() { return *host_; }
  std::unique_ptr<HostSteps> take_host() { return std::move(host_); }
  std::unordered_map<const Storage*, External>& externals() { return externals_; }
  std::unordered_map<const TensorImpl*, LeafGradient>& gradients() { return gradients_; }

  /// An op or method is about to use these tensors: all must be on the session's device. @throws CaptureError
  void touch(const char* op, std::span<const Tensor> tensors);
  void touch(const char* op, const Tensor& tensor) { touch(op, std::span(&tensor, 1)); }

  /// Allocates storages made while recording. @throws CaptureError for a device other than the session's
  StoragePtr allocate(Device device, std::size_t bytes) final;

  /// Makes this session the thread's current one; leave() undoes it.
  virtual void enter() { set_allocation_hook(this); }
  virtual void leave() { set_allocation_hook(nullptr); }

  /// Called after the CPU ran an op, with its final operands.
  virtual void ran(const OpCall& call, std::span<const Tensor> out);
  /// Brackets a kernel: ops called inside it are not recorded.
  virtual void kernel_begins() {}
  virtual void kernel_ends() {}
  virtual bool in_kernel() const { return false; }

  /// A contiguous tensor on the device whose bytes `fill` writes now and before each replay.
  virtual Tensor numbers(const Shape& shape, DType dtype, std::function<void(std::byte*)> fill) = 0;

  /// Plans and compiles the program. @param report receives the figures
  virtual std::unique_ptr<Replay> finish(ProgramReport& report) = 0;

 protected:
  virtual StoragePtr place(std::size_t bytes) = 0;
  virtual bool made_here(const Storage& storage) const = 0;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  Device device_;
  std::unique_ptr<HostSteps> host_ = std::make_unique<HostSteps>();
  std::unordered_map<const Storage*, External> externals_;
  std::unordered_map<const TensorImpl*, LeafGradient> gradients_;
};

/// Makes a session current in its scope.
class Entered {
 public:
  explicit Entered(Session& session);
  ~Entered();
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
};

/// The name of the op or method that runs in this thread, for messages. Outside any it is `empty`, the only function
/// that allocates there. Scopes nest.
class Running {
 public:
  explicit Running(const char* name) : before_(std::exchange(name_, name)) {}
  ~Running() { name_ = before_; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  static const char* name() { return name_ != nullptr ? name_ : "empty"; }

 private:
  static thread_local const char* name_;
  const char* before_;
};

/// @throws CaptureError naming `what` while a step is recorded: it would happen once and not at replays.
void forbid(const char* what, const char* why);

/// Runs a CPU kernel, `call.op.cpu`. A recording notes the kernel, not the ops it calls.
void run_cpu_kernel(const OpCall& call, std::span<Tensor> out);

/// Called before autograd reads or replaces a leaf's gradient.
void note_gradient(const Tensor& leaf, Touch touch);

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

}  // namespace etna::recording
