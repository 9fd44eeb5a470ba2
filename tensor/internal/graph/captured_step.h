#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <etna/device/internal/graph/graph.h>
#include <etna/device/kernel_counts.h>
#include <etna/device/profile/profiler.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/graph/watched.h>
#include <etna/tensor/op.h>

namespace etna {

/// A step that is captured once and run many times: its graph, and what the host knows and does around it.
///
/// While it is captured it serves all allocations of its thread and sees every op (tensor/internal/capture_hooks.h).
class CapturedStep final : public AllocationHook {
 public:
  using Function = std::function<TensorList(const TensorList&)>;

  /// @param device one whose backend captures steps (Backend::graph_form())
  CapturedStep(std::string name, Device device, const GraphOptions& options);
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;

  /// Runs `function` on copies of the arguments, captures what it does, compiles that, and completes the step.
  /// @param function returns detached tensors
  /// @throws what the function throws; CaptureError; OutOfMemory if the plan does not fit
  void capture(const TensorList& arguments, const Function& function, std::int64_t barriers_eager);

  /// Why a replay would no longer do what the function does; empty if it would.
  std::string stale() const;
  /// What the function would read differently now, so that another capture is needed; empty if nothing.
  std::string difference() const { return watched_.difference(); }
  /// Runs one step. @param arguments of the same number, shapes and dtypes as when it was captured
  void replay(const TensorList& arguments);

  const TensorList& outputs() const { return outputs_; }
  const CaptureReport& report() const { return graph_.report(); }

  /// ---- while it is captured.
  /// The step that this thread captures; null if there is none, or while a NotCaptured lives.
  static CapturedStep* current();
  /// Makes this step the one that this thread captures.
  void enter() { set_current(this); }
  /// Runs what it holds back, then makes none that one. @returns it
  static CapturedStep* leave();

  Device device() const { return graph_.device(); }
  void touch(const char* op, std::span<const Tensor> tensors);
  /// Allocates storages made while capturing. @throws CaptureError for a device other than the step's
  StoragePtr allocate(Device device, std::size_t bytes) override;
  Watched& watched() { return watched_; }
  void note_gradient(const Tensor& leaf, capture_hooks::Touch touch);
  /// The host does this before each replay, in the order of these calls.
  void each_replay(std::function<void()> f) { host_steps_.push_back(std::move(f)); }
  /// A contiguous tensor on the device whose bytes `fill` writes now and before each replay.
  Tensor numbers(const Shape& shape, DType dtype, std::function<void(std::byte*)> fill);

  /// Brackets a CPU kernel: ops called inside it are not captured.
  void kernel_begins() { ++kernels_; }
  void kernel_ends() { --kernels_; }
  /// An op that has no kernel of its own was called.
  void note_detour(Detour detour, const char* op) { detours_.emplace_back(detour, op); }
  bool runs_while_captured() const { return graph_.form() == GraphForm::calls; }
  bool in_kernel() const { return kernels_ > 0 && graph_.form() == GraphForm::calls; }
  /// The CPU ran the kernel of an op, with these operands.
  void ran(const OpCall& call, std::span<const Tensor> out);

 private:
  /// A storage that existed before the capture, kept alive.
  struct External {
    StoragePtr storage;
    std::uint32_t version = 0;  ///< at first the version itself, later how far each replay advances it
    bool shared = false;        ///< something else also held it when the capture ended
  };
  /// A leaf whose gradient the step reads or writes.
  struct LeafGradient {
    Tensor leaf;
    bool read_first = false;  ///< the step depends on the value at its beginning
    StoragePtr before;        ///< storage of the gradient at the beginning, null without one
    Tensor after;             ///< the gradient at the end; undefined: none
  };

  static CapturedStep* set_current(CapturedStep* step);
  Tensor on_proxy(const Tensor& x) const;
  void compile();
  void run();
  void count_run();
  void drop_gradients_without_bytes();

  std::string name_;
  TensorList inputs_, outputs_;
  std::vector<External> externals_;
  std::vector<LeafGradient> gradients_;
  Watched watched_;
  std::unordered_set<const void*> noted_;  ///< while capturing: what is in those two already
  std::vector<std::function<void()>> host_steps_;
  std::vector<std::pair<Detour, const char*>> detours_;
  std::vector<std::byte> numbers_;  ///< the block that goes to the device in one upload, in whole words
  Graph graph_;
  std::unique_ptr<Executable> executable_;  ///< waits for its last run where it ends, before what it uses

  int kernels_ = 0;                              ///< of the CPU that run now, one in another
  std::vector<StoragePtr> workspace_;            ///< proxies of what the running kernel allocated
  std::optional<profile::KeepLabels> labels_{};  ///< while capturing: replays may be profiled later
};

/// Copies an argument's values into a step's input; counted as a transfer if they cross the bus.
void copy_argument(const Tensor& argument, const Tensor& input);

}  // namespace etna
