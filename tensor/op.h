#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include <etna/tensor/tensor.h>

/// The definition of an op, and apply(), which runs it.
namespace etna {

using TensorList = std::vector<Tensor>;
struct OpDef;
struct FusionPattern;
namespace fusion {
struct Call;
struct Form;
struct Fused;
}  // namespace fusion

/// An op's non-tensor arguments (dims, flags, factors): any trivially copyable struct of at most 192 bytes, stored
/// inline.
class Attrs {
 public:
  Attrs() = default;
  template <typename T>
  static Attrs of(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kBytes);
    Attrs a;
    std::memcpy(a.bytes_.data(), &value, sizeof(T));
    return a;
  }
  template <typename T>
  T as() const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kBytes);
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    return value;
  }

 private:
  static constexpr std::size_t kBytes = 192;
  alignas(8) std::array<std::byte, kBytes> bytes_{};
};

/// One call of an op; the argument of the op's functions.
struct OpCall {
  const OpDef& op;
  std::span<const Tensor> in;  ///< an optional input that was left out is an undefined tensor
  const Attrs& attrs;
  template <typename T>
  T as() const {
    return attrs.as<T>();
  }
};

/// Shape and dtype of an output; apply() allocates it. `alias` ≥ 0: the output IS that input, updated in place.
struct OutputSpec {
  Shape shape;
  DType dtype = DType::f32;
  int alias = -1;
};

/// Which values backward needs. Inputs that are not saved keep only shape, dtype and device.
/// Of a product, each factor is needed if another needs a gradient; of a quotient, so is the dividend.
enum class Saved : unsigned { none = 0, inputs = 1, outputs = 2, both = 3, factors = 5, quotient = 9 };

/// The argument of vjp: the call (inputs have no storage unless saved), its outputs (likewise), the gradient of each
/// output (undefined if none arrived), and which inputs need a gradient.
struct VjpCall {
  const OpDef& op;
  std::span<const Tensor> in;
  std::span<const Tensor> out;
  std::span<const Tensor> grad;
  const Attrs& attrs;
  const std::vector<bool>& needs;
  template <typename T>
  T as() const {
    return attrs.as<T>();
  }
};

struct OpDef {
  const char* name = "";
  /// Checks shapes and dtypes and words the error. No other function does.
  std::vector<OutputSpec> (*infer)(const OpCall&) = nullptr;
  /// Writes every element of the outputs (contiguous, allocated). Inputs may be strided views.
  void (*cpu)(const OpCall&, std::span<Tensor> out) = nullptr;
  /// Queues the dispatches that do the same. Returns false if there is no kernel for these dtypes on this device: the
  /// op then falls back.
  bool (*gpu)(const OpCall&, std::span<Tensor> out) = nullptr;
  /// The same composed of base ops: the oracle in tests, and the fallback on a device without a kernel. Null for base
  /// ops.
  TensorList (*reference)(const OpCall&) = nullptr;
  /// Gradients of the inputs, written in public ops; undefined where not needed. Null: autograd differentiates the
  /// reference. If that is null too, the op is not differentiable.
  TensorList (*vjp)(const VjpCall&) = nullptr;
  /// Replaces vjp if only input 0 needs a gradient and it has accumulated one already: adds its gradient to `sum` in
  /// place. Returns false if it cannot. For gradients that are mostly zeros.
  bool (*vjp_into)(const VjpCall&, Tensor& sum) = nullptr;
  Saved saved = Saved::none;
  /// Of the inputs and outputs that `saved` names, those that backward needs: bit i for the i-th.
  std::uint32_t saved_inputs = ~0u, saved_outputs = ~0u;
  /// Replaces infer and the kernels: makes the outputs itself (views of in[0], copies to another device).
  TensorList (*direct)(const OpCall&) = nullptr;
  /// Consecutive calls of other ops that one call of this op can replace (tensor/internal/fusion.h).
  std::span<const FusionPattern> replaces = {};
  /// Makes a call read a form of its first input that a fused call made. Returns false if it cannot.
  bool (*read_form)(const fusion::Form&, fusion::Call&) = nullptr;
};

/// Consecutive calls that a fused op computes at once.
struct FusionPattern {
  /// Names of the ops in order, between blanks. `a|b`: either; `a?`: may be missing. Each call reads the first output
  /// of the one before it; `~a`: that, or a reshaped view of it; `^a`: that of any earlier one; `&a`: the first input
  /// of an earlier call of the same op.
  const char* calls = "";
  /// Writes the call that replaces `calls`. Its outputs are among theirs. Returns false if these calls do not fit.
  bool (*fuse)(std::span<const fusion::Call> calls, fusion::Fused& fused) = nullptr;
};

/// Runs an op: moves inputs to one device, infers, allocates, runs the kernel (or falls back), and tells autograd.
/// @throws what infer throws; DeviceError in strict mode if a tensor would move or the op would fall back.
TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs = {});
Tensor apply1(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs = {});
TensorList apply(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs = {});

namespace detail {
/// For functions that look at their operands before they apply an op. @throws UndefinedTensor naming `op`
template <typename... Operands>
void require_defined(const char* op, const Operands&... operands) {
  std::size_t position = 0;
  ((++position, operands.defined() ? void() : throw UndefinedTensor(op, position)), ...);
}
/// Kernels index with 31 bits, except CPU kernels over elements that exist in memory. An expanded tensor may claim any
/// number of elements.
/// @throws ShapeError naming `op` if repeated elements bring the tensor above 2^31.
void check_countable(const char* op, const Tensor& x);
}  // namespace detail

/// Every op definition, sorted by name. The build generates the list from the files of tensor/ops/; each file exports
/// `std::span<const OpDef* const> ops_in_<file>()`.
std::span<const OpDef* const> all_ops();

/// The interface through which tensor/ calls autograd/, which implements it.
class GradRecorder {
 public:
  virtual ~GradRecorder() = default;
  /// True if grad mode is on in this thread and some input requires grad.
  virtual bool wants(std::span<const Tensor> inputs) const = 0;
  virtual void record(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                      std::span<Tensor> outputs) = 0;
  /// Whether a write of `source` (undefined: of numbers) into x is recorded: if x, its base or source requires grad.
  /// @throws GradError where x is a leaf that requires grad, or a view whose place is unknown
  virtual bool wants_write(const char* op, const Tensor& x, const Tensor& source) const = 0;
  /// Writes result(x) into x, and gives x and what it is a view of their new place on the tape.
  virtual void record_write(const char* op, Tensor& x, const std::function<Tensor(const Tensor&)>& result) = 0;
};
GradRecorder& grad_recorder();

/// True while gradients are recorded in this thread; NoGrad (<etna/autograd/autograd.h>) turns it off.
bool grad_enabled();
void set_grad_enabled(bool on);

/// Sets grad mode for a scope.
class GradMode {
 public:
  explicit GradMode(bool on) : before_(grad_enabled()) { set_grad_enabled(on); }
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

}  // namespace etna
