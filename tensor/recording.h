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

/// What the library itself does while a step is recorded. For users: <etna/tensor/capture.h>.
namespace etna::recording {

/// A storage that was there before the recording, which the program keeps alive.
struct External {
  StoragePtr storage;
  std::uint32_t version = 0;  ///< at first; later: how far each replay moves it
  bool shared = false;        ///< somebody else held it, too, when recording ended
};

/// A leaf whose gradient the step read or wrote.
struct LeafGradient {
  Tensor leaf;
  bool read_first = false;  ///< the step depends on what was there at its beginning
  StoragePtr before;        ///< what was: storage of the gradient, null without one
  Tensor after;             ///< what the step leaves; undefined: no gradient
};
enum class Touch { read, write };

/// What can be run again: the device's half of a program.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual void run(HostSteps& host) = 0;
  /// For the step that recording was: where ops run while they are recorded, it is done.
  virtual void run_first(HostSteps& host) { run(host); }
};

/// A recording under way in one thread.
class Session : public AllocationHook {
 public:
  Session(std::string name, Device device) : name_(std::move(name)), device_(device) {}

  /// That of this thread; null where there is none, or a NotCaptured lives.
  static Session* current();

  Device device() const { return device_; }
  HostSteps& host() { return *host_; }
  std::unique_ptr<HostSteps> take_host() { return std::move(host_); }
  std::unordered_map<const Storage*, External>& externals() { return externals_; }
  std::unordered_map<const TensorImpl*, LeafGradient>& gradients() { return gradients_; }

  /// An op or method is about to use these: all must be on the device. @throws CaptureError
  void touch(const char* op, std::span<const Tensor> tensors);
  void touch(const char* op, const Tensor& tensor) { touch(op, std::span(&tensor, 1)); }

  /// Gives storages made while recording their place. @throws CaptureError for another device than ours
  StoragePtr allocate(Device device, std::size_t bytes) final;

  /// Makes this the thread's, or takes it off.
  virtual void enter() { set_allocation_hook(this); }
  virtual void leave() { set_allocation_hook(nullptr); }

  /// The CPU ran an op: these are its final operands.
  virtual void ran(const OpCall& call, std::span<const Tensor> out);
  /// While a kernel runs, what it does inside is its own affair.
  virtual void kernel_begins() {}
  virtual void kernel_ends() {}
  virtual bool in_kernel() const { return false; }

  /// A contiguous tensor on the device whose bytes `fill` writes now and before each replay.
  virtual Tensor numbers(const Shape& shape, DType dtype, std::function<void(std::byte*)> fill) = 0;

  /// Plans and bakes. @param report gets its figures
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

/// Makes a session current for a scope.
class Entered {
 public:
  explicit Entered(Session& session);
  ~Entered();
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
};

/// The name of what runs in this thread, for messages: an op's, or a method's; `empty` in none, since only that takes
/// memory there. Scopes nest.
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

/// @throws CaptureError naming `what` while a step is recorded: it would happen once, and never again at a replay.
void forbid(const char* what, const char* why);

/// Runs a CPU kernel, `call.op.cpu`, and tells of it where a step is being recorded: of the kernel, not of the ops it
/// is made of.
void run_cpu_kernel(const OpCall& call, std::span<Tensor> out);

/// Autograd is about to read or replace a leaf's gradient.
void note_gradient(const Tensor& leaf, Touch touch);

/// While one lives, *device becomes the first GPU that an op of this thread runs on.
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
