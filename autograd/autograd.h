#pragma once

#include <any>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/tensor.h>

/// Reverse-mode differentiation over an eager tape. Tensor::backward() and related methods are declared in
/// <etna/tensor/tensor.h>.
namespace etna {

/// While one lives, nothing in this thread is recorded.
///     NoGrad off;
class NoGrad : public GradMode {
 public:
  /// `NoGrad();` ends at once, so the compiler warns of it.
  [[nodiscard]] NoGrad() : GradMode(false) {}
};

/// While one lives, ops are recorded, also inside a NoGrad.
class EnableGrad : public GradMode {
 public:
  [[nodiscard]] EnableGrad() : GradMode(true) {}
};

/// grad_enabled() under PyTorch's name.
inline bool is_grad_enabled() { return grad_enabled(); }

namespace autograd {

/// Gradients of `outputs` with respect to `inputs`; leaves every .grad() alone. With create_graph, prefer this to
/// Tensor::backward(): there, a leaf and its gradient own each other until the gradient is dropped.
/// @param grad_outputs one for each output, of its shape; empty: ones, for scalar outputs
/// @param allow_unused an input that no output depends on gets an undefined gradient. PyTorch's default is false, which
/// makes that an error: here models with unused inputs are no surprise, and undefined is easy to see.
/// @return one for each input
/// @throws GradError if no output requires grad
TensorList grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                std::span<const Tensor> grad_outputs = {}, bool retain_graph = false, bool create_graph = false,
                bool allow_unused = true);

struct Node;

/// What a user-defined op keeps for its backward.
class Context {
 public:
  /// In forward: keeps tensors. Inputs and outputs of the op come back linked to the tape, so that its backward can be
  /// differentiated again. Later calls add to earlier ones.
  void save_for_backward(const TensorList& tensors);
  /// In backward: what was saved, in order. @throws GradError if a tensor was modified in place since
  TensorList saved_tensors() const;
  /// Which inputs need a gradient; backward may leave the others undefined.
  const std::vector<bool>& needs_input_grad() const { return needs_; }

 private:
  friend TensorList custom(const TensorList&, const std::function<TensorList(Context&, const TensorList&)>&,
                           std::function<TensorList(const Context&, const TensorList&)>, std::string);
  struct Saved {
    Tensor tensor;
    std::uint32_t version = 0;
    int output = -1;  ///< which output of the op it is
    int input = -1;   ///< which input
  };

  std::string name_;
  std::vector<Saved> saved_;
  std::vector<bool> needs_;
  std::weak_ptr<Node> node_;  ///< owns this
};

/// A user-defined op. `forward` computes without being recorded. `backward` gets the gradient of each output and
/// returns one for each input (undefined: none).
///     Tensor y = custom(
///         {x},
///         [](Context& context, const TensorList& in) {
///           context.save_for_backward(in);
///           return TensorList{in[0] * in[0] * in[0]};
///         },
///         [](const Context& context, const TensorList& grad) {
///           const Tensor x = context.saved_tensors()[0];
///           return TensorList{grad[0] * x * x * 3.0};
///         })[0];
TensorList custom(const TensorList& inputs, const std::function<TensorList(Context&, const TensorList&)>& forward,
                  std::function<TensorList(const Context&, const TensorList& grad)> backward,
                  std::string name = "custom");
/// For ops whose backward needs no tensors of forward. A backward that captures a detached tensor cannot be
/// differentiated with respect to it: save it in a Context.
TensorList custom(const TensorList& inputs, const std::function<TensorList(const TensorList&)>& forward,
                  std::function<TensorList(const TensorList& grad)> backward, std::string name = "custom");

/// Runs `f` without saving what its backward needs, and runs it again during backward (Chen et al. 2016). Only one
/// checkpointed part occupies memory at a time, at the cost of one more forward pass. Parameters used in `f` get their
/// gradients as usual. Dropout repeats its masks.
/// @param inputs at least one must require grad, otherwise nothing inside is differentiated
TensorList checkpoint(const std::function<TensorList(const TensorList&)>& f, const TensorList& inputs);

/// checkpoint() for a chain of functions: each of `segments` parts of about equal length but the last runs again during
/// backward. @throws Error unless there are between 1 and functions.size() segments
Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions, std::int64_t segments,
                             const Tensor& x);

/// While one lives, backward() throws GradError naming the op whose gradient first contains a NaN or an infinity, and,
/// if one lived when the op was called too, where that was: the NameScopes around it, and the functions that called it
/// as far as symbols are exported (link with -rdynamic; addr2line reads the offsets of others). Slow: it reads every
/// gradient.
class DetectAnomaly {
 public:
  DetectAnomaly();
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  bool before_;
};

/// Names a part of the program for DetectAnomaly: `NameScope scope("decoder")`. Scopes nest.
class [[nodiscard]] NameScope {
 public:
  explicit NameScope(std::string name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
};

struct GradcheckOptions {
  double step = 1e-6;         ///< step of the central difference
  double absolute = 1e-5;     ///< allowed |analytic - numeric| is this, plus
  double relative = 1e-4;     ///< this share of |numeric|
  bool second_order = false;  ///< also check the gradient of the gradient
};

/// Compares gradients with central differences for every element of every floating input that requires grad. Inputs
/// should be f64, on the CPU.
/// @return an empty string if all agree, else a description of the first disagreement
std::string gradcheck(const std::function<TensorList(const TensorList&)>& f, const TensorList& inputs,
                      GradcheckOptions options = {});
/// The second order alone: compares the gradient of the gradient with differences of the gradient.
std::string gradgradcheck(const std::function<TensorList(const TensorList&)>& f, const TensorList& inputs,
                          GradcheckOptions options = {});

}  // namespace autograd
}  // namespace etna

namespace etna::autograd {

/// While one lives, each tensor that a recorded op of this thread saves for backward is replaced by what `pack`
/// returns, and `unpack` makes it again when backward needs it: on the host, in a file, compressed. The innermost of
/// nested hooks applies. Tensors that a Context saves (custom()) stay as they are.
///     SavedTensorHooks on_disk([](const Tensor& x) { return std::any(write_file(x)); },
///                              [](const std::any& path) { return read_file(std::any_cast<Path>(path)); });
/// @param unpack returns a tensor of the same shape, dtype and device, else backward throws GradError
class SavedTensorHooks {
 public:
  using Pack = std::function<std::any(const Tensor&)>;
  using Unpack = std::function<Tensor(const std::any&)>;
  SavedTensorHooks(Pack pack, Unpack unpack);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

  /// The innermost of this thread; null: none.
  static const SavedTensorHooks* current();
  const Pack& pack() const { return pack_; }
  const Unpack& unpack() const { return unpack_; }

 private:
  Pack pack_;
  Unpack unpack_;
  const SavedTensorHooks* outer_;
};

/// Keeps what is saved for backward in host memory instead of the GPU's. Not in captured steps: a replay moves nothing
/// between devices.
class SaveOnCpu : public SavedTensorHooks {
 public:
  [[nodiscard]] SaveOnCpu();
};

}  // namespace etna::autograd
