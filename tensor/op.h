#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include <etna/tensor/tensor.h>

/// The definition of an op and the one function that runs it.
namespace etna {

using TensorList = std::vector<Tensor>;
struct OpDef;

/// An op's own arguments besides tensors (dims, flags, factors): any trivially copyable struct of at most 192 bytes,
/// kept inline.
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

/// One use of an op: what its functions get.
struct OpCall {
  const OpDef& op;
  std::span<const Tensor> in;  ///< an optional input that was left out is an undefined tensor
  const Attrs& attrs;
  template <typename T>
  T as() const {
    return attrs.as<T>();
  }
};

/// Shape and dtype of an output; allocated by apply(). `alias` ≥ 0: the output IS that input, updated in place.
struct OutputSpec {
  Shape shape;
  DType dtype = DType::f32;
  int alias = -1;
};

/// Which values backward needs. Inputs that are not saved keep shape, dtype and device only.
enum class Saved : unsigned { none = 0, inputs = 1, outputs = 2, both = 3 };

/// What vjp gets: the call (inputs without storage unless saved), its outputs (likewise), the gradient of each output
/// (undefined where none arrived), and which inputs want one.
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
  /// The one place that checks shapes and dtypes and words the error.
  std::vector<OutputSpec> (*infer)(const OpCall&) = nullptr;
  /// Writes every element of the outputs (contiguous, allocated). Inputs may be strided views.
  void (*cpu)(const OpCall&, std::span<Tensor> out) = nullptr;
  /// Records dispatches that do the same. False where it has no kernel for these dtypes on this device: the op then
  /// falls back.
  bool (*gpu)(const OpCall&, std::span<Tensor> out) = nullptr;
  /// The same composed of base ops: the oracle in tests, the fallback on a device without a kernel. Null for base ops.
  TensorList (*reference)(const OpCall&) = nullptr;
  /// Gradients of the inputs, by public ops only; undefined where not wanted. Null: differentiate the reference, or,
  /// where there is none either, not differentiable.
  TensorList (*vjp)(const VjpCall&) = nullptr;
  /// Instead of vjp, where input 0 alone wants a gradient and has gathered some already: adds its gradient to `sum`, in
  /// place. False where it cannot. For gradients that are mostly zeros.
  bool (*vjp_into)(const VjpCall&, Tensor& sum) = nullptr;
  Saved saved = Saved::none;
  /// Of the inputs and outputs that `saved` names, those that backward does need: bit i for the i-th.
  std::uint32_t saved_inputs = ~0u, saved_outputs = ~0u;
  /// Instead of infer and kernels: makes the outputs itself (views of in[0], copies to another device).
  TensorList (*direct)(const OpCall&) = nullptr;
};

/// Runs an op: brings inputs to one device, infers, allocates, runs the kernel (or falls back), tells autograd.
/// @throws what infer throws; DeviceError under strict mode where a tensor would move or the op would fall back.
TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs = {});
Tensor apply1(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs = {});
TensorList apply(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs = {});

namespace detail {
/// Kernels count in 31 bits, but for those of the CPU over what lies in memory. An expanded tensor may have any number
/// of elements.
/// @throws ShapeError naming `op` for one that repeats what it holds to more than 2^31.
void check_countable(const char* op, const Tensor& x);
}  // namespace detail

/// Every definition, sorted by name. The build makes the list from the files of tensor/ops/: each exports
/// `std::span<const OpDef* const> ops_in_<file>()`.
std::span<const OpDef* const> all_ops();

/// What a test hangs on apply() in its thread: `seen` is told of every op that runs; under `compose` ops that have a
/// reference run that instead of their kernels.
struct ApplyProbe {
  std::function<void(const OpDef&)> seen;
  bool compose = false;
};
/// Null takes it off.
void set_apply_probe(const ApplyProbe* probe);

/// What tensor/ asks of autograd/, which implements it.
class GradRecorder {
 public:
  virtual ~GradRecorder() = default;
  /// True where grad mode is on in this thread and some input requires grad.
  virtual bool wants(std::span<const Tensor> inputs) const = 0;
  virtual void record(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                      std::span<Tensor> outputs) = 0;
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
