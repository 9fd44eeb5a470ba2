#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/memory.h>
#include <etna/device/owned.h>
#include <etna/tensor/dtype.h>
#include <etna/tensor/shape.h>

namespace etna {

class Tensor;
struct TensorImpl;
class AutogradMeta;
class Index;
class IndexedTensor;
struct ValuesIndices;

/// An undefined tensor was used where values or a shape are needed.
struct UndefinedTensor : Error {
  explicit UndefinedTensor(const Tensor* used);
  UndefinedTensor(const char* op, std::size_t operand);
  const Tensor* used = nullptr;  ///< where it was when it was used
};

namespace detail {
/// The element type that item<T>() reads before it converts to T: for integers the widest.
template <typename T>
using ItemType = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::int64_t,
                                    std::conditional_t<kIsElement<T>, T, double>>;
}  // namespace detail

/// What registering a hook returns. Dropping it leaves the hook where it is.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// Removes the hook; nothing happens the second time, or where the tensor or module is gone.
  void remove() {
    if (remove_) remove_();
    remove_ = nullptr;
  }

 private:
  std::function<void()> remove_;
};

/// An n-dimensional array on one device: a shared handle to storage, with sizes, strides and a dtype. Copying a Tensor
/// copies the handle. Views share storage. Only methods that end in `_`, `+=` and its family, and assignment to a view
/// that an expression makes (`x[0] = y`) change values.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  /// A named tensor becomes another handle to `other`.
  Tensor& operator=(const Tensor& other) & = default;
  Tensor& operator=(Tensor&& other) & noexcept = default;
  /// `x[0] = y`, `x.slice(1, 0, 2) = y`, `x[0] = 3.0`: writes into the elements, as copy_() and fill_() do.
  Tensor& operator=(const Tensor& other) && { return copy_(other); }
  Tensor& operator=(Tensor&& other) && { return copy_(other); }
  Tensor& operator=(double value) && { return fill_(value); }

  /// False for a default-constructed tensor, which has neither shape nor storage.
  bool defined() const { return impl_ != nullptr; }

  // ---- what it is
  const Shape& shape() const;
  const Strides& strides() const;
  /// A negative dim counts from the end. @throws ShapeError if it is out of range
  std::int64_t size(std::int64_t dim) const;
  /// The number of dimensions.
  int dim() const { return shape().rank(); }
  /// The number of elements.
  std::int64_t numel() const;
  DType dtype() const;
  Device device() const;
  /// Whether elements are in row-major order without gaps.
  bool is_contiguous() const;
  std::string str() const;  ///< printed the way PyTorch prints it

  // ---- memory
  const StoragePtr& storage() const;
  std::int64_t offset() const;  ///< of its first element in the storage, in elements
  /// Device address of the first element. Only for kernels.
  std::uint64_t address() const;
  /// Host pointer to the first element, for reading. The tensor must be on the CPU and hold T. Elements are `strides()`
  /// apart. @throws DtypeError, DeviceError
  template <typename T>
  const T* data() const {
    return host<T>();
  }
  /// The same for writing. Counts as a change of the tensor at the time of the call, so that backward() refuses to use
  /// values that it saved before.
  template <typename T>
  T* mutable_data() {
    before_host_write();
    return host<T>();
  }
  const void* raw_data() const;
  void* mutable_raw_data() {
    before_host_write();
    return const_cast<void*>(raw_data());
  }
  /// Host pointers to the first element for writes that are counted elsewhere. Only for kernels.
  template <typename T>
  T* host() const;
  void* raw_host() const { return const_cast<void*>(raw_data()); }

  /// The only element, as T (any arithmetic type); waits for a GPU.
  /// @throws ShapeError unless there is exactly one; Error if an integer T cannot hold it, cut to an integer
  template <typename T = float>
  T item() const {
    const auto value = element<detail::ItemType<T>>();
    if constexpr (!std::is_same_v<T, bool> && std::is_integral_v<T>) {
      if (!std::in_range<T>(value)) does_not_fit(value);
    }
    return static_cast<T>(value);
  }
  /// All elements in row-major order, converted to T; waits for a GPU. @throws Error if T cannot hold an integer
  template <typename T>
  std::vector<T> to_vector() const;

  // ---- copies on another device, in another dtype or layout
  /// A copy there, or this tensor if it is there. Differentiable.
  Tensor to(Device device) const;
  Tensor to(std::string_view device) const { return to(Device::parse(device)); }  ///< "cpu", "vulkan:0"
  /// Converted as by cast(), or this tensor if it has the dtype. Differentiable.
  Tensor to(DType dtype) const;
  Tensor to(Device device, DType dtype) const;
  /// A copy in row-major order, or this tensor if it is.
  Tensor contiguous() const;
  /// A copy with storage of its own. Differentiable.
  Tensor clone() const;

  // ---- views (no copies)
  Tensor reshape(Shape shape) const;  ///< one size may be -1; copies only where strides do not allow a view
  Tensor view(Shape shape) const;     ///< as reshape, but throws where a copy would be needed
  /// Dimension i of the result is dimension order[i] of this tensor.
  Tensor permute(Dims order) const;
  /// Two dimensions swapped.
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  Tensor t() const;  ///< the last two dimensions swapped
  /// Every step-th element of one dimension from `begin` up to but not including `end`.
  Tensor slice(std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step = 1) const;
  /// One position of a dimension, which is dropped.
  Tensor select(std::int64_t dim, std::int64_t index) const;
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  /// `x[{Slice(1, 5, 2), None, Ellipsis, 3, mask, index}]`, `x[mask]`: read, or written to by assignment. Index and
  /// what follows are in <etna/tensor/ops/indexing/indexing.h>.
  IndexedTensor operator[](std::initializer_list<Index> indices) const;
  IndexedTensor operator[](const Tensor& index) const;
  /// The same elements, read at once; a view where integers, slices, None and Ellipsis allow it.
  Tensor index(const std::vector<Index>& indices) const;
  Tensor& index_put_(const std::vector<Index>& indices, const Tensor& values, bool accumulate = false);
  Tensor& index_put_(const std::vector<Index>& indices, double value);
  Tensor expand(Shape shape) const;  ///< -1 keeps a size
  /// Without the dimensions of size 1.
  Tensor squeeze() const;
  /// Without this dimension if its size is 1.
  Tensor squeeze(std::int64_t dim) const;
  /// With a dimension of size 1 at `dim`.
  Tensor unsqueeze(std::int64_t dim) const;
  /// Dimensions first ... last as one.
  Tensor flatten(std::int64_t first = 0, std::int64_t last = -1) const;
  /// Parts of `size` elements of a dimension; the last one may be smaller.
  std::vector<Tensor> split(std::int64_t size, std::int64_t dim = 0) const;
  /// Parts of these sizes. @throws ShapeError unless they add up to the dimension
  std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, std::int64_t dim = 0) const;
  /// At most `count` equal parts of a dimension; the last one may be smaller.
  std::vector<Tensor> chunk(std::int64_t count, std::int64_t dim = 0) const;

  // ---- in place. Recorded as PyTorch does: gradients flow through what is written, also into views and what they are
  // views of. A leaf that requires grad, or a view of one, is a GradError while grad mode is on. So is backward()
  // through an op that saved what was overwritten. A number that the tensor's dtype cannot hold is a DtypeError (sums
  // and products of integers wrap), and a tensor that expand() repeats a ShapeError.
  Tensor& copy_(const Tensor& source);  ///< broadcasts, converts dtype and device
  /// Sets every element.
  Tensor& fill_(double value);
  Tensor& zero_() { return fill_(0); }
  Tensor& add_(const Tensor& other, double alpha = 1);  ///< + alpha · other
  Tensor& add_(double value);
  Tensor& sub_(const Tensor& other, double alpha = 1);
  Tensor& sub_(double value);
  Tensor& mul_(const Tensor& other);
  Tensor& mul_(double value);
  Tensor& div_(const Tensor& other);  ///< floating tensors only
  Tensor& div_(double value);
  // Random numbers as the functions of <etna/tensor/ops/random/random.h> draw them; floating tensors only.
  Tensor& uniform_(double low = 0, double high = 1);
  Tensor& normal_(double mean = 0, double std = 1);
  Tensor& exponential_(double lambda = 1);
  Tensor& bernoulli_(double p = 0.5);
  Tensor& bernoulli_(const Tensor& p);
  /// `x += y` is x.add_(y): every handle and view sees it. `x = x + y` changes this handle alone.
#define ETNA_IN_PLACE(SYMBOL, METHOD)                                    \
  Tensor& operator SYMBOL(const Tensor& other) { return METHOD(other); } \
  Tensor& operator SYMBOL(double value) { return METHOD(value); }
  ETNA_IN_PLACE(+=, add_)
  ETNA_IN_PLACE(-=, sub_)
  ETNA_IN_PLACE(*=, mul_)
  ETNA_IN_PLACE(/=, div_)
#undef ETNA_IN_PLACE

  // ---- the free functions of <etna/tensor/ops.h> as methods
#define ETNA_METHOD_1(NAME) Tensor NAME() const;
#define ETNA_METHOD_1n(NAME) Tensor NAME(double number) const;
#define ETNA_METHOD_2(NAME)               \
  Tensor NAME(const Tensor& other) const; \
  Tensor NAME(double other) const;
#define ETNA_METHOD_2n(NAME)
#define ETNA_METHOD_3(NAME)
#define ETNA_ELEMENTWISE(NAME, ARITY, ...) ETNA_METHOD_##ARITY(NAME)
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
#undef ETNA_METHOD_1
#undef ETNA_METHOD_1n
#undef ETNA_METHOD_2n
#undef ETNA_METHOD_2
#undef ETNA_METHOD_3
  Tensor where(const Tensor& condition, const Tensor& other) const;  ///< condition ? this : other
  Tensor where(const Tensor& condition, double other) const;
  Tensor masked_fill(const Tensor& mask, double value) const;
  Tensor clamp(std::optional<double> lo, std::optional<double> hi = {}) const;
  Tensor clamp(const Tensor& lo, const Tensor& hi) const;
  Tensor sum(Dims dims = {}, bool keepdim = false) const;
  Tensor mean(Dims dims = {}, bool keepdim = false) const;
  Tensor max(Dims dims = {}, bool keepdim = false) const;
  Tensor min(Dims dims = {}, bool keepdim = false) const;
  template <std::integral Dim>
  ValuesIndices max(Dim dim, bool keepdim = false) const;  ///< in sorting.h
  template <std::integral Dim>
  ValuesIndices min(Dim dim, bool keepdim = false) const;  ///< in sorting.h
  Tensor prod(Dims dims = {}, bool keepdim = false) const;
  Tensor logsumexp(Dims dims = {}, bool keepdim = false) const;
  Tensor var(Dims dims = {}, bool keepdim = false, int correction = 1) const;
  Tensor std(Dims dims = {}, bool keepdim = false, int correction = 1) const;
  Tensor amax(Dims dims = {}, bool keepdim = false) const;
  Tensor amin(Dims dims = {}, bool keepdim = false) const;
  Tensor any(Dims dims = {}, bool keepdim = false) const;
  Tensor all(Dims dims = {}, bool keepdim = false) const;
  Tensor count_nonzero(Dims dims = {}) const;
  Tensor norm(double p = 2, Dims dims = {}, bool keepdim = false) const;
  Tensor nansum(Dims dims = {}, bool keepdim = false) const;
  Tensor nanmean(Dims dims = {}, bool keepdim = false) const;
  Tensor nan_to_num(double nan = 0, std::optional<double> posinf = {}, std::optional<double> neginf = {}) const;
  Tensor lerp(const Tensor& end, const Tensor& weight) const;
  Tensor lerp(const Tensor& end, double weight) const;
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;
  bool equal(const Tensor& other) const;
  Tensor argmax(std::optional<std::int64_t> dim = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<std::int64_t> dim = {}, bool keepdim = false) const;
  Tensor softmax(std::int64_t dim) const;
  Tensor log_softmax(std::int64_t dim) const;
  Tensor cumsum(std::int64_t dim, bool reverse = false) const;
  Tensor tril(std::int64_t diagonal = 0) const;
  Tensor triu(std::int64_t diagonal = 0) const;
  Tensor matmul(const Tensor& other) const;
  Tensor index_select(std::int64_t dim, const Tensor& index) const;
  Tensor gather(std::int64_t dim, const Tensor& index) const;
  Tensor scatter_add(std::int64_t dim, const Tensor& index, const Tensor& source) const;
  ValuesIndices sort(std::int64_t dim = -1, bool descending = false, bool stable = true) const;
  Tensor argsort(std::int64_t dim = -1, bool descending = false, bool stable = true) const;
  ValuesIndices topk(std::int64_t k, std::int64_t dim = -1, bool largest = true, bool sorted = true) const;
  ValuesIndices kthvalue(std::int64_t k, std::int64_t dim = -1, bool keepdim = false) const;
  Tensor median() const;
  ValuesIndices median(std::int64_t dim, bool keepdim = false) const;
  Tensor quantile(double q, std::optional<std::int64_t> dim = {}, bool keepdim = false) const;
  ValuesIndices cummax(std::int64_t dim) const;
  ValuesIndices cummin(std::int64_t dim) const;
  Tensor cumprod(std::int64_t dim) const;
  Tensor nonzero() const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor masked_scatter(const Tensor& mask, const Tensor& source) const;
  Tensor scatter(std::int64_t dim, const Tensor& index, const Tensor& source) const;
  Tensor scatter(std::int64_t dim, const Tensor& index, double value) const;
  Tensor index_add(std::int64_t dim, const Tensor& index, const Tensor& source, double alpha = 1) const;
  Tensor index_copy(std::int64_t dim, const Tensor& index, const Tensor& source) const;
  Tensor index_fill(std::int64_t dim, const Tensor& index, double value) const;
  Tensor take(const Tensor& index) const;
  Tensor take_along_dim(const Tensor& index, std::optional<std::int64_t> dim = {}) const;
  Tensor flip(Dims dims) const;
  Tensor roll(Dims shifts, Dims dims = {}) const;
  Tensor repeat(Dims repeats) const;
  Tensor tile(Dims repeats) const;
  Tensor repeat_interleave(std::int64_t repeats) const;
  Tensor repeat_interleave(std::int64_t repeats, std::int64_t dim) const;
  Tensor diagonal(std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1) const;
  Tensor diag(std::int64_t diagonal = 0) const;
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  std::vector<Tensor> unbind(std::int64_t dim = 0) const;
  Tensor unflatten(std::int64_t dim, Dims sizes) const;
  Tensor movedim(Dims source, Dims destination) const;
  Tensor swapaxes(std::int64_t a, std::int64_t b) const;
  Tensor broadcast_to(Shape shape) const;
  std::vector<Tensor> tensor_split(std::int64_t sections, std::int64_t dim = 0) const;
  std::vector<Tensor> tensor_split(const std::vector<std::int64_t>& indices, std::int64_t dim = 0) const;
  Tensor diff(std::int64_t n = 1, std::int64_t dim = -1) const;
  Tensor dist(const Tensor& other, double p = 2) const;
  Tensor renorm(double p, std::int64_t dim, double maxnorm) const;
  Tensor mm(const Tensor& other) const;
  Tensor bmm(const Tensor& other) const;
  Tensor mv(const Tensor& other) const;
  Tensor dot(const Tensor& other) const;
  Tensor outer(const Tensor& other) const;

  // ---- autograd (implemented in autograd/)
  /// Whether backward() computes a gradient for this tensor or through it.
  bool requires_grad() const;
  /// Makes a leaf that backward() accumulates a gradient in.
  /// @throws GradError if it is no leaf, DtypeError if it is not floating
  Tensor& requires_grad_(bool on = true);
  /// Whether no recorded op made this tensor.
  bool is_leaf() const;
  /// The gradient that backward() accumulated; undefined before backward().
  Tensor grad() const;
  /// Replaces what grad() returns; an undefined tensor drops it.
  void set_grad(const Tensor& grad);
  /// Differentiates a scalar (or any tensor, with `grad` of its shape) with respect to every leaf that requires grad.
  void backward(const Tensor& grad = {}, bool retain_graph = false, bool create_graph = false) const;
  /// The same values, detached from the tape; shares storage.
  Tensor detach() const;
  /// Takes this tensor off the tape: a leaf without gradient from now on. Results computed of it before stay recorded.
  /// @throws GradError for a view; detach() it
  Tensor& detach_();
  /// Calls `hook` with the complete gradient. If the hook returns a defined tensor, that tensor replaces the gradient.
  HookHandle register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// backward() then stores the gradient of this tensor too, which is no leaf, in grad(). It does nothing for a leaf.
  void retain_grad() const;
  bool retains_grad() const;

  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& impl_ptr() const { return impl_; }

 private:
  template <typename T>
  T element() const;
  [[noreturn]] static void does_not_fit(std::int64_t value, const char* method = "item");
  void before_host_write();

  std::shared_ptr<TensorImpl> impl_;
};

/// The per-tensor data of autograd/; tensor/ only stores the pointer.
class AutogradMeta {
 public:
  virtual ~AutogradMeta() = default;
};

/// What the handles of one tensor share.
struct TensorImpl {
  StoragePtr storage;  ///< null for a tensor that carries shape and dtype only
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;
  DType dtype = DType::f32;
  Device device;
  bool contiguous = true;
  bool requires_grad = false;
  bool ones = false;  ///< created by ones()
  Owned<AutogradMeta> autograd;
  /// A view's place in autograd. Off the tape: made with grad mode off, or by a user's op. Gradients would not follow a
  /// write through it.
  enum class View : std::uint8_t { recorded, off_tape, of_graph_off_tape } view = View::recorded;
  /// Of a base: how many writes into it, or a view of it, were recorded. Of a view: how many of them its node knows.
  std::uint32_t writes = 0;
  std::shared_ptr<TensorImpl> base;  ///< of a view: what it is a view of, itself no view
};

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// ---- creation. Defaults: f32, on the CPU.
/// `zeros({2}, f64)`, `zeros({2}, device)` or `zeros({2}, {f64, device})`.
struct TensorOptions {
  constexpr TensorOptions() = default;
  constexpr TensorOptions(DType t, Device d = {}) : dtype(t), device(d) {}
  constexpr TensorOptions(Device d) : device(d) {}

  DType dtype = DType::f32;
  Device device = {};
};

/// Elements are not initialized.
Tensor empty(Shape shape, TensorOptions options = {});
/// Every element is `value`.
/// @throws DtypeError for a number that the dtype cannot hold, as every op that writes one: beyond its range, or a
/// fraction of integers
Tensor full(Shape shape, double value, TensorOptions options = {});
Tensor zeros(Shape shape, TensorOptions options = {});
Tensor ones(Shape shape, TensorOptions options = {});
/// empty() of the shape, dtype and device of x.
Tensor empty_like(const Tensor& x);
/// zeros() of the shape, dtype and device of x.
Tensor zeros_like(const Tensor& x);
/// ones() of the shape, dtype and device of x.
Tensor ones_like(const Tensor& x);
/// A 0-d tensor.
Tensor scalar(double value, TensorOptions options = {});
/// begin, begin + step, ... up to but not including end: i64, or f32 where an argument is a floating number.
/// @throws DtypeError if an integer dtype is asked for numbers that are not whole
template <typename B, typename E, typename S = int>
requires(std::is_arithmetic_v<B>&& std::is_arithmetic_v<E>&& std::is_arithmetic_v<S>) Tensor
    arange(B begin, E end, S step = 1,
           TensorOptions options = {std::is_integral_v<B> && std::is_integral_v<E> && std::is_integral_v<S> ? i64
                                                                                                            : f32});
/// 0, 1, ... up to but not including end.
template <typename E>
requires(std::is_arithmetic_v<E>) Tensor arange(E end, TensorOptions options = {std::is_integral_v<E> ? i64 : f32});
/// Copies `values`; their count must equal the shape's number of elements. @throws ShapeError
template <typename T>
Tensor from_vector(const std::vector<T>& values, Shape shape, Device device = {});
template <typename T>
Tensor from_vector(const std::vector<T>& values, Device device = {}) {
  return from_vector(values, Shape{static_cast<std::int64_t>(values.size())}, device);
}
template <typename T>
Tensor from_vector(std::initializer_list<T> values, Shape shape, Device device = {}) {
  return from_vector(std::vector<T>(values), shape, device);
}
template <typename T>
Tensor from_vector(std::initializer_list<T> values, Device device = {}) {
  return from_vector(std::vector<T>(values), device);
}
/// Copies numel(shape) elements of `dtype` from host memory.
Tensor from_bytes(const void* bytes, Shape shape, DType dtype, Device device = {});

namespace detail {
/// Integers stay exact to 63 bits.
Tensor arange(std::int64_t begin, std::int64_t end, std::int64_t step, TensorOptions options);
Tensor arange(double begin, double end, double step, TensorOptions options);
/// etna::empty() with errors that name `op`.
Tensor empty(const char* op, const Shape& shape, TensorOptions options);
/// A tensor over existing storage; computes `contiguous`.
Tensor make_view(const StoragePtr& storage, Device device, DType dtype, Shape shape, Strides strides,
                 std::int64_t offset);
/// A second handle to the same values, off the tape.
Tensor alias(const Tensor& x);
/// True if every element is known to be 1: ones() made the tensor and nothing has written to it since.
bool holds_ones(const Tensor& x);
/// Shape, dtype and device without storage: what autograd keeps of an input whose values it does not need.
Tensor without_storage(const Tensor& x);
}  // namespace detail

template <typename B, typename E, typename S>
requires(std::is_arithmetic_v<B>&& std::is_arithmetic_v<E>&& std::is_arithmetic_v<S>) Tensor
    arange(B begin, E end, S step, TensorOptions options) {
  using Number =
      std::conditional_t<std::is_integral_v<B> && std::is_integral_v<E> && std::is_integral_v<S>, std::int64_t, double>;
  return detail::arange(static_cast<Number>(begin), static_cast<Number>(end), static_cast<Number>(step), options);
}
template <typename E>
requires(std::is_arithmetic_v<E>) Tensor arange(E end, TensorOptions options) { return arange(E{0}, end, 1, options); }

}  // namespace etna
