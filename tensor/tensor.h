#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/memory.h>
#include <etna/tensor/dtype.h>
#include <etna/tensor/shape.h>

namespace etna {

struct TensorImpl;
class AutogradMeta;

/// An n-dimensional array on one device: a shared handle to storage, with sizes, strides and a dtype. Copying a Tensor
/// copies the handle. Views share storage. Only methods that end in `_` change values.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return impl_ != nullptr; }

  // ---- what it is
  const Shape& shape() const;
  const Strides& strides() const;
  std::int64_t size(std::int64_t dim) const;
  int dim() const { return shape().rank(); }
  std::int64_t numel() const;
  DType dtype() const;
  Device device() const;
  bool is_contiguous() const;
  std::string str() const;  ///< printed the way PyTorch prints it

  // ---- memory
  const StoragePtr& storage() const;
  std::int64_t offset() const;  ///< of its first element in the storage, in elements
  /// Device address of the first element. Only for kernels.
  std::uint64_t address() const;
  /// Host pointer to the first element. The tensor must be on the CPU and hold T. Elements are `strides()` apart.
  /// @throws DtypeError, DeviceError
  template <typename T>
  T* data() const;
  const void* raw_data() const;
  void* raw_data();

  /// The only element, as T; waits for a GPU. @throws ShapeError unless there is exactly one.
  template <typename T = float>
  T item() const;
  /// All elements in row-major order, converted to T; waits for a GPU.
  template <typename T>
  std::vector<T> to_vector() const;

  // ---- copies on another device, in another dtype or layout
  Tensor to(Device device) const;
  Tensor to(DType dtype) const;
  Tensor to(Device device, DType dtype) const;
  Tensor contiguous() const;
  Tensor clone() const;

  // ---- views (no copies)
  Tensor reshape(Shape shape) const;  ///< one size may be -1; copies only where strides do not allow a view
  Tensor view(Shape shape) const;     ///< as reshape, but throws where a copy would be needed
  Tensor permute(Dims order) const;
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  Tensor t() const;  ///< the last two dimensions swapped
  Tensor slice(std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step = 1) const;
  Tensor select(std::int64_t dim, std::int64_t index) const;
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  Tensor expand(Shape shape) const;  ///< -1 keeps a size
  Tensor squeeze() const;
  Tensor squeeze(std::int64_t dim) const;
  Tensor unsqueeze(std::int64_t dim) const;
  Tensor flatten(std::int64_t first = 0, std::int64_t last = -1) const;
  std::vector<Tensor> split(std::int64_t size, std::int64_t dim = 0) const;
  std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, std::int64_t dim = 0) const;
  std::vector<Tensor> chunk(std::int64_t count, std::int64_t dim = 0) const;

  // ---- in place (not recorded; throws if the tensor requires grad while grad mode is on)
  Tensor& copy_(const Tensor& source);  ///< broadcasts, converts dtype and device
  Tensor& fill_(double value);
  Tensor& zero_() { return fill_(0); }
  Tensor& add_(const Tensor& other, double alpha = 1);
  Tensor& sub_(const Tensor& other, double alpha = 1) { return add_(other, -alpha); }
  Tensor& mul_(const Tensor& other);
  Tensor& mul_(double value);

  // ---- arithmetic as methods: the free functions of <etna/tensor/ops.h>
  Tensor sum(Dims dims = {}, bool keepdim = false) const;
  Tensor mean(Dims dims = {}, bool keepdim = false) const;
  Tensor matmul(const Tensor& other) const;

  // ---- autograd (implemented in autograd/)
  bool requires_grad() const;
  Tensor& requires_grad_(bool on = true);
  bool is_leaf() const;
  /// The gradient that backward() accumulated; undefined before backward().
  Tensor grad() const;
  void set_grad(const Tensor& grad);
  /// Differentiates a scalar (or any tensor, with `grad` of its shape) with respect to every leaf that requires grad.
  void backward(const Tensor& grad = {}, bool retain_graph = false, bool create_graph = false) const;
  /// The same values, detached from the tape; shares storage.
  Tensor detach() const;
  /// Calls `hook` with the complete gradient. If the hook returns a defined tensor, that tensor replaces the gradient.
  void register_hook(std::function<Tensor(const Tensor&)> hook) const;

  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& impl_ptr() const { return impl_; }

 private:
  std::shared_ptr<TensorImpl> impl_;
};

/// The per-tensor data of autograd/; tensor/ only stores the pointer.
class AutogradMeta {
 public:
  virtual ~AutogradMeta() = default;
};

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
  std::unique_ptr<AutogradMeta> autograd;
};

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// ---- creation. Defaults: f32, on the CPU.
struct TensorOptions {
  DType dtype = DType::f32;
  Device device = {};
};

Tensor empty(Shape shape, TensorOptions options = {});
Tensor full(Shape shape, double value, TensorOptions options = {});
Tensor zeros(Shape shape, TensorOptions options = {});
Tensor ones(Shape shape, TensorOptions options = {});
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor scalar(double value, TensorOptions options = {});
/// begin, begin + step, ... up to but not including end.
Tensor arange(double begin, double end, double step = 1, TensorOptions options = {DType::i64});
/// Copies `values`; their count must equal the shape's number of elements. @throws ShapeError
template <typename T>
Tensor from_vector(const std::vector<T>& values, Shape shape, Device device = {});
template <typename T>
Tensor from_vector(const std::vector<T>& values, Device device = {}) {
  return from_vector(values, Shape{static_cast<std::int64_t>(values.size())}, device);
}
/// Copies numel(shape) elements of `dtype` from host memory.
Tensor from_bytes(const void* bytes, Shape shape, DType dtype, Device device = {});

namespace detail {
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

}  // namespace etna
