#include <etna/tensor/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include <etna/device/memory_control.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/kernels.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna {

UndefinedTensor::UndefinedTensor(const Tensor* t)
    : Error("an undefined tensor was used; it was never given a value (a missing gradient?)"), used(t) {}
UndefinedTensor::UndefinedTensor(const char* op, std::size_t operand)
    : Error(fmt::format("{}: operand {} is an undefined tensor; it was never given a value (a missing gradient?)", op,
                        operand)) {}

const Shape& Tensor::shape() const {
  if (!impl_) throw UndefinedTensor(this);
  return impl_->shape;
}
const Strides& Tensor::strides() const { return shape(), impl_->strides; }
std::int64_t Tensor::size(std::int64_t d) const { return shape()[wrap_dim(d, dim(), "size")]; }
std::int64_t Tensor::numel() const { return etna::numel(shape()); }
DType Tensor::dtype() const { return shape(), impl_->dtype; }
Device Tensor::device() const { return shape(), impl_->device; }
bool Tensor::is_contiguous() const { return shape(), impl_->contiguous; }
const StoragePtr& Tensor::storage() const {
  if (!shape().empty() && !impl_->storage) throw Error("this tensor carries no values, only its shape and dtype");
  return impl_->storage;
}
std::int64_t Tensor::offset() const { return shape(), impl_->offset; }
std::uint64_t Tensor::address() const {
  return storage()->address() + static_cast<std::uint64_t>(impl_->offset) * item_size(impl_->dtype);
}

const void* Tensor::raw_data() const {
  if (!device().is_cpu())
    throw DeviceError(fmt::format("data: the tensor is on {}; call .to(kCPU) first", device().str()));
  capture_hooks::forbid("data", "values are touched on the host");
  return storage()->host() + static_cast<std::size_t>(impl_->offset) * item_size(impl_->dtype);
}

void Tensor::before_host_write() {
  storage()->count_write("mutable_data");
  storage()->exposed = true;
}

template <typename T>
T* Tensor::host() const {
  if (dtype() != dtype_of<T>()) {
    throw DtypeError(fmt::format("data: the tensor holds {}, {} was asked for; convert it with .to({}) first",
                                 name(dtype()), name(dtype_of<T>()), name(dtype_of<T>())));
  }
  return static_cast<T*>(const_cast<void*>(raw_data()));
}

namespace detail {
namespace {
/// @throws Error unless an integer T can hold the value, cut to an integer
template <typename T>
void require_integer(const char* method, double value) {
  const double least = static_cast<double>(std::numeric_limits<T>::min()),
               beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!(std::trunc(value) >= least && value < beyond))
    throw Error(fmt::format("{}: {} does not fit in the type that was asked for", method, value));
}
}  // namespace
}  // namespace detail

template <typename T>
std::vector<T> Tensor::to_vector() const {
  detail::require_defined("to_vector", *this);
  capture_hooks::forbid("to_vector", "values are read on the host");
  const GradMode off(false);
  Tensor host = to(kCPU);
  if constexpr (std::is_integral_v<T>) {
    if (is_floating(dtype())) {
      for (const double value : host.to_vector<double>()) detail::require_integer<T>("to_vector", value);
    } else if (item_size(dtype()) > sizeof(T)) {
      for (const std::int64_t value : host.to_vector<std::int64_t>()) {
        if (!std::in_range<T>(value)) does_not_fit(value, "to_vector");
      }
    }
  }
  host = host.to(dtype_of<T>()).contiguous();
  const T* begin = host.data<T>();
  return std::vector<T>(begin, begin + host.numel());
}

void Tensor::does_not_fit(std::int64_t value, const char* method) {
  throw Error(fmt::format("{}: {} does not fit in the type that was asked for", method, value));
}

template <typename T>
T Tensor::element() const {
  detail::require_defined("item", *this);
  if (numel() != 1)
    throw ShapeError(
        fmt::format("item: the tensor has {} elements {}, item() wants exactly one", numel(), etna::str(shape())));
  capture_hooks::forbid("item", "a value is read on the host");
  const GradMode off(false);
  Tensor host = to(kCPU);
  if constexpr (std::is_same_v<T, std::int64_t>) {
    if (is_floating(dtype())) detail::require_integer<T>("item", *host.to(f64).data<double>());
  }
  host = host.to(dtype_of<T>());
  return *host.data<T>();
}

#define ETNA_INSTANTIATE(T)              \
  template T* Tensor::host<T>() const;   \
  template T Tensor::element<T>() const; \
  template Tensor from_vector<T>(const std::vector<T>&, Shape, Device);
ETNA_INSTANTIATE(double)
ETNA_INSTANTIATE(float)
ETNA_INSTANTIATE(Half)
ETNA_INSTANTIATE(BFloat16)
ETNA_INSTANTIATE(std::int64_t)
ETNA_INSTANTIATE(std::int32_t)
ETNA_INSTANTIATE(std::int8_t)
ETNA_INSTANTIATE(std::uint8_t)
ETNA_INSTANTIATE(bool)
#undef ETNA_INSTANTIATE
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;
template std::vector<std::int32_t> Tensor::to_vector<std::int32_t>() const;
template std::vector<std::uint8_t> Tensor::to_vector<std::uint8_t>() const;

Tensor Tensor::to(DType t) const {
  detail::require_defined("to", *this);
  return t == dtype() ? *this : cast(*this, t);
}
Tensor Tensor::to(Device d, DType t) const { return d.is_cpu() ? to(d).to(t) : to(t).to(d); }
Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }
Tensor Tensor::clone() const { return copy(*this); }

namespace detail {

Tensor make_view(const StoragePtr& storage, Device device, DType dtype, Shape shape, Strides strides,
                 std::int64_t offset) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = storage;
  impl->shape = shape;
  impl->strides = strides;
  impl->offset = offset;
  impl->dtype = dtype;
  impl->device = device;
  // Every view passes here, so this checks that the product of sizes fits for any tensor that has elements.
  const bool nothing = numel(shape, "view") == 0;
  std::int64_t expected = 1;
  bool contiguous = true;
  for (int i = shape.rank() - 1; i >= 0 && !nothing; --i) {
    if (shape[i] != 1) contiguous = contiguous && strides[i] == expected, expected *= shape[i];
  }
  impl->contiguous = contiguous;
  return Tensor(std::move(impl));
}

Tensor alias(const Tensor& x) {
  return make_view(x.storage(), x.device(), x.dtype(), x.shape(), x.strides(), x.offset());
}

Tensor without_storage(const Tensor& x) {
  if (!x.defined()) return x;
  return make_view(nullptr, x.device(), x.dtype(), x.shape(), contiguous_strides(x.shape()), 0);
}

}  // namespace detail

namespace detail {
Tensor empty(const char* op, const Shape& shape, TensorOptions options) {
  std::size_t bytes = byte_size(shape, item_size(options.dtype), op);
  const StoragePtr storage = allocate(options.device, bytes);
  if (watching_leaks()) note_maker(*storage, op, shape, options.dtype);
  return make_view(storage, options.device, options.dtype, shape, contiguous_strides(shape), 0);
}
}  // namespace detail

namespace {
Tensor tensor_filled(const char* op, const Shape& shape, double value, TensorOptions options) {
  value = detail::number_held(op, options.dtype, value);
  Tensor x = detail::empty(op, shape, options);
  x.fill_(value);
  return x;
}
}  // namespace

Tensor empty(Shape shape, TensorOptions options) { return detail::empty("empty", shape, options); }
Tensor full(Shape shape, double value, TensorOptions options) { return tensor_filled("full", shape, value, options); }
Tensor zeros(Shape shape, TensorOptions options) { return tensor_filled("zeros", shape, 0, options); }
Tensor ones(Shape shape, TensorOptions options) {
  Tensor x = tensor_filled("ones", shape, 1, options);
  x.impl()->ones = true;
  return x;
}
bool detail::holds_ones(const Tensor& x) {
  return x.impl()->ones && x.storage()->version == 1;  // version 1: after the fill, and no write since
}
Tensor empty_like(const Tensor& x) { return empty(x.shape(), {x.dtype(), x.device()}); }
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), {x.dtype(), x.device()}); }
Tensor ones_like(const Tensor& x) { return ones(x.shape(), {x.dtype(), x.device()}); }
Tensor scalar(double value, TensorOptions options) { return tensor_filled("scalar", {}, value, options); }

namespace {

/// Fills a range of `count` numbers on the host. A step that is being captured gets a copy at every replay, since the
/// caller may change it in place.
template <typename Number>
Tensor range(Number begin, Number step, std::int64_t count, TensorOptions options) {
  if (count > 0 && options.dtype != (std::is_integral_v<Number> ? i64 : f64)) {
    detail::number_held("arange", options.dtype, static_cast<double>(begin));
    detail::number_held("arange", options.dtype,
                        static_cast<double>(begin) + static_cast<double>(count - 1) * static_cast<double>(step));
  }
  Tensor x;
  {
    NotCaptured now;
    x = detail::empty("arange", {count}, {options.dtype, kCPU});
    visit(options.dtype, [&](auto zero) {
      using T = decltype(zero);
      T* p = x.host<T>();
      for (std::int64_t i = 0; i < count; ++i) {
        Number value;
        if constexpr (std::is_integral_v<Number>) {
          // Modulo 2^64: i * step alone may not fit where the sum does.
          value = static_cast<Number>(static_cast<std::uint64_t>(begin) +
                                      static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step));
        } else {
          value = begin + static_cast<Number>(i) * step;
        }
        if constexpr (sizeof(T) == 2)
          p[i] = T(static_cast<float>(value));
        else
          p[i] = static_cast<T>(value);
      }
    });
    x = x.to(options.device);
  }
  return capturing() ? copy(x) : x;
}

}  // namespace

Tensor detail::arange(std::int64_t begin, std::int64_t end, std::int64_t step, TensorOptions options) {
  if (step == 0)
    throw ShapeError(fmt::format("arange: begin {}, end {}, step 0: a step of 0 ends nowhere", begin, end));
  const bool some = step > 0 ? begin < end : begin > end;
  // In 64 bits without a sign: the distance of any two numbers fits.
  const auto low = static_cast<std::uint64_t>(begin), high = static_cast<std::uint64_t>(end);
  const std::uint64_t distance = !some ? 0 : step > 0 ? high - low : low - high;
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const std::uint64_t count = distance / stride + (distance % stride != 0 ? 1 : 0);
  if (!std::in_range<std::int64_t>(count)) {
    throw ShapeError(fmt::format("arange: begin {}, end {}, step {}: the number of elements does not fit in 63 bits",
                                 begin, end, step));
  }
  return range(begin, step, static_cast<std::int64_t>(count), options);
}

Tensor detail::arange(double begin, double end, double step, TensorOptions options) {
  if (step == 0 || !std::isfinite(begin) || !std::isfinite(end) || !std::isfinite(step)) {
    throw ShapeError(fmt::format("arange: begin {}, end {}, step {} do not describe a finite range", begin, end, step));
  }
  if (!is_floating(options.dtype) && (begin != std::trunc(begin) || step != std::trunc(step))) {
    throw DtypeError(fmt::format("arange: {} cannot hold the numbers from {} in steps of {}; ask for f32",
                                 name(options.dtype), begin, step));
  }
  const double steps = std::ceil((end - begin) / step);
  if (!(steps < 0x1p63)) {
    throw ShapeError(fmt::format("arange: begin {}, end {}, step {}: the number of elements does not fit in 63 bits",
                                 begin, end, step));
  }
  return range(begin, step, static_cast<std::int64_t>(std::max(0.0, steps)), options);
}

Tensor from_bytes(const void* bytes, Shape shape, DType dtype, Device device) {
  capture_hooks::forbid("from_bytes", "values come from the host");
  Tensor x = detail::empty("from_bytes", shape, {dtype, device});
  upload(bytes, *x.storage(), 0, static_cast<std::size_t>(x.numel()) * item_size(dtype));
  return x;
}

template <typename T>
Tensor from_vector(const std::vector<T>& values, Shape shape, Device device) {
  if (numel(shape, "from_vector") != static_cast<std::int64_t>(values.size())) {
    throw ShapeError(fmt::format("from_vector: {} values do not fill the shape {} of {} elements", values.size(),
                                 str(shape), numel(shape)));
  }
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<std::uint8_t> bytes(values.begin(), values.end());
    return from_bytes(bytes.data(), shape, boolean, device);
  } else {
    return from_bytes(values.data(), shape, dtype_of<T>(), device);
  }
}

}  // namespace etna
