#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/fft/internal/transform.h>

// The family of transforms, composed of the complex transform along one dimension.
namespace etna {

namespace {
void require_complex(const char* op, const Tensor& x) {
  detail::require_defined(op, x);
  if (x.dim() < 1 || x.size(-1) != 2) {
    throw ShapeError(
        fmt::format("{}: {} is not complex: its last dimension must have size 2; complex(x) makes a real "
                    "tensor complex",
                    op, str(x.shape())));
  }
}
}  // namespace

Tensor complex(const Tensor& real, const Tensor& imaginary) {
  detail::require_defined("complex", real);
  return stack({real, imaginary.defined() ? imaginary : zeros(real.shape(), {real.dtype(), real.device()})}, -1);
}
Tensor real(const Tensor& x) {
  require_complex("real", x);
  return x.select(-1, 0);
}
Tensor imag(const Tensor& x) {
  require_complex("imag", x);
  return x.select(-1, 1);
}
Tensor conj(const Tensor& x) {
  require_complex("conj", x);
  return complex(real(x), -imag(x));
}
Tensor complex_mul(const Tensor& a, const Tensor& b) {
  require_complex("complex_mul", a);
  require_complex("complex_mul", b);
  const Tensor ar = real(a), ai = imag(a), br = real(b), bi = imag(b);
  return complex(ar * br - ai * bi, ar * bi + ai * br);
}
Tensor complex_abs(const Tensor& x) {
  require_complex("complex_abs", x);
  const Tensor squared = square(real(x)) + square(imag(x)), zero = eq(squared, 0.0);
  return where(zero, 0.0, sqrt(masked_fill(squared, zero, 1)));
}

namespace fft {
namespace {

/// Checks for a complex tensor of a floating dtype.
Tensor checked(const char* op, const Tensor& x) {
  require_complex(op, x);
  if (x.dim() < 2) throw ShapeError(fmt::format("{}: {} has no dimension to transform", op, str(x.shape())));
  return is_floating(x.dtype()) ? x : x.to(f32);
}
Tensor checked_real(const char* op, const Tensor& x) {
  detail::require_defined(op, x);
  if (x.dim() < 1) throw ShapeError(fmt::format("{}: {} has no dimension to transform", op, str(x.shape())));
  return is_floating(x.dtype()) ? x : x.to(f32);
}

/// Cuts, or pads with zeros, to n elements along a dimension.
Tensor resized(const char* op, const Tensor& x, int dim, std::int64_t n) {
  if (n < 1) throw ShapeError(fmt::format("{}: the length is {}; it must be at least 1", op, n));
  const std::int64_t size = x.shape()[dim];
  if (size == n) return x;
  if (size > n) return x.slice(dim, 0, n);
  Shape rest = x.shape();
  rest[dim] = n - size;
  return cat({x, zeros(rest, {x.dtype(), x.device()})}, dim);
}

double scale_of(Norm norm, bool inverse, std::int64_t n) {
  const auto count = static_cast<double>(n);
  if (norm == Norm::ortho) return 1 / std::sqrt(count);
  return (norm == Norm::backward) == inverse ? 1 / count : 1;
}

Tensor along(const char* op, const Tensor& given, std::optional<std::int64_t> n, std::int64_t dim, Norm norm,
             bool inverse) {
  Tensor x = checked(op, given);
  const int d = wrap_dim(dim, x.dim() - 1, op);
  x = resized(op, x, d, n.value_or(x.shape()[d]));
  return transform(x, d, inverse, scale_of(norm, inverse, x.shape()[d]));
}

Tensor real_along(const char* op, const Tensor& given, std::optional<std::int64_t> n, std::int64_t dim, Norm norm,
                  bool inverse) {
  Tensor x = checked_real(op, given);
  const int d = wrap_dim(dim, x.dim(), op);
  x = resized(op, x, d, n.value_or(x.shape()[d]));
  const std::int64_t size = x.shape()[d];
  return transform(complex(x), d, inverse, scale_of(norm, inverse, size)).slice(d, 0, size / 2 + 1);
}

/// The other half of a Hermitian signal repeats the first half, conjugated, so each element of the first half counts
/// twice in the real part, except frequency 0 and, for an even n, n / 2.
Tensor half_along(const char* op, const Tensor& given, std::optional<std::int64_t> length, std::int64_t dim, Norm norm,
                  bool inverse) {
  Tensor x = checked(op, given);
  const int d = wrap_dim(dim, x.dim() - 1, op);
  const std::int64_t n = length.value_or(2 * (x.shape()[d] - 1));
  if (n < 1) throw ShapeError(fmt::format("{}: the length is {}; it must be at least 1", op, n));
  const std::int64_t half = n / 2 + 1, middle = (n + 1) / 2;
  x = resized(op, x, d, half);
  const Tensor first = x.slice(d, 0, 1);
  TensorList parts = {first};
  if (middle > 1) parts.push_back(x.slice(d, 1, middle) * 2.0);
  if (n % 2 == 0) parts.push_back(x.slice(d, half - 1, half));
  const Tensor whole = resized(op, parts.size() == 1 ? first : cat(parts, d), d, n);
  return real(transform(whole, d, inverse, scale_of(norm, inverse, n)));
}

struct Axes {
  Dims dims, sizes;  ///< sizes: -1 for a tensor's own
};

/// @param rank without the dimension of complex numbers
Axes axes_of(const char* op, int rank, const Dims& sizes, const Dims& dims) {
  Axes axes;
  if (dims.empty()) {
    const int count = sizes.empty() ? rank : sizes.rank();
    if (count > rank) throw ShapeError(fmt::format("{}: {} sizes for {} dimensions", op, count, rank));
    for (int d = rank - count; d < rank; ++d) axes.dims.push_back(d);
  }
  for (std::int64_t d : dims) {
    const int at = wrap_dim(d, rank, op);
    if (axes.dims.contains(at)) throw ShapeError(fmt::format("{}: dimension {} is named twice", op, at));
    axes.dims.push_back(at);
  }
  if (!sizes.empty() && sizes.rank() != axes.dims.rank()) {
    throw ShapeError(fmt::format("{}: {} sizes for {} dimensions", op, sizes.rank(), axes.dims.rank()));
  }
  axes.sizes = sizes.empty() ? Dims::filled(axes.dims.rank(), -1) : sizes;
  return axes;
}

std::optional<std::int64_t> length(const Axes& axes, int i) {
  return axes.sizes[i] == -1 ? std::nullopt : std::optional(axes.sizes[i]);
}

Tensor over(const char* op, const Tensor& given, const Dims& sizes, const Dims& dims, Norm norm, bool inverse) {
  Tensor x = checked(op, given);
  const Axes axes = axes_of(op, x.dim() - 1, sizes, dims);
  for (int i = axes.dims.rank() - 1; i >= 0; --i) x = along(op, x, length(axes, i), axes.dims[i], norm, inverse);
  return x;
}

Tensor real_over(const char* op, const Tensor& given, const Dims& sizes, const Dims& dims, Norm norm) {
  Tensor x = checked_real(op, given);
  const Axes axes = axes_of(op, x.dim(), sizes, dims);
  const int last = axes.dims.rank() - 1;
  x = real_along(op, x, length(axes, last), axes.dims[last], norm, false);
  for (int i = last - 1; i >= 0; --i) x = along(op, x, length(axes, i), axes.dims[i], norm, false);
  return x;
}

Tensor half_over(const char* op, const Tensor& given, const Dims& sizes, const Dims& dims, Norm norm) {
  Tensor x = checked(op, given);
  const Axes axes = axes_of(op, x.dim() - 1, sizes, dims);
  const int last = axes.dims.rank() - 1;
  for (int i = 0; i < last; ++i) x = along(op, x, length(axes, i), axes.dims[i], norm, true);
  return half_along(op, x, length(axes, last), axes.dims[last], norm, true);
}

Tensor shifted(const char* op, const Tensor& x, Layout layout, const Dims& dims, bool back) {
  if (layout == Layout::complex) require_complex(op, x);
  detail::require_defined(op, x);
  const int rank = x.dim() - (layout == Layout::complex ? 1 : 0);
  Tensor y = x;
  for (std::int64_t named : axes_of(op, rank, {}, dims).dims) {
    const auto d = static_cast<int>(named);
    const std::int64_t n = x.shape()[d], at = back ? n / 2 : n - n / 2;
    if (n > 1) y = cat({y.slice(d, at, n), y.slice(d, 0, at)}, d);
  }
  return y;
}

}  // namespace

using Length = std::optional<std::int64_t>;

Tensor fft(const Tensor& x, Length n, std::int64_t dim, Norm norm) { return along("fft", x, n, dim, norm, false); }
Tensor ifft(const Tensor& x, Length n, std::int64_t dim, Norm norm) { return along("ifft", x, n, dim, norm, true); }
Tensor rfft(const Tensor& x, Length n, std::int64_t dim, Norm norm) {
  return real_along("rfft", x, n, dim, norm, false);
}
Tensor irfft(const Tensor& x, Length n, std::int64_t dim, Norm norm) {
  return half_along("irfft", x, n, dim, norm, true);
}
Tensor hfft(const Tensor& x, Length n, std::int64_t dim, Norm norm) {
  return half_along("hfft", x, n, dim, norm, false);
}
Tensor ihfft(const Tensor& x, Length n, std::int64_t dim, Norm norm) {
  return real_along("ihfft", x, n, dim, norm, true);
}

Tensor fftn(const Tensor& x, Dims sizes, Dims dims, Norm norm) { return over("fftn", x, sizes, dims, norm, false); }
Tensor ifftn(const Tensor& x, Dims sizes, Dims dims, Norm norm) { return over("ifftn", x, sizes, dims, norm, true); }
Tensor rfftn(const Tensor& x, Dims sizes, Dims dims, Norm norm) { return real_over("rfftn", x, sizes, dims, norm); }
Tensor irfftn(const Tensor& x, Dims sizes, Dims dims, Norm norm) { return half_over("irfftn", x, sizes, dims, norm); }
Tensor fft2(const Tensor& x, Dims sizes, Dims dims, Norm norm) { return over("fft2", x, sizes, dims, norm, false); }
Tensor ifft2(const Tensor& x, Dims sizes, Dims dims, Norm norm) { return over("ifft2", x, sizes, dims, norm, true); }
Tensor rfft2(const Tensor& x, Dims sizes, Dims dims, Norm norm) { return real_over("rfft2", x, sizes, dims, norm); }
Tensor irfft2(const Tensor& x, Dims sizes, Dims dims, Norm norm) { return half_over("irfft2", x, sizes, dims, norm); }

namespace {
Tensor frequencies(const char* op, std::int64_t n, bool half, double d, TensorOptions options) {
  if (n < 1) throw ShapeError(fmt::format("{}: n is {}, it must be at least 1", op, n));
  if (!is_floating(options.dtype)) {
    throw DtypeError(fmt::format("{}: got dtype {}; frequencies are floating", op, name(options.dtype)));
  }
  std::vector<double> list;
  for (std::int64_t i = 0; i < (half ? n / 2 + 1 : n); ++i) {
    const std::int64_t k = !half && i > (n - 1) / 2 ? i - n : i;
    list.push_back(static_cast<double>(k) / (static_cast<double>(n) * d));
  }
  return from_vector(list).to(options.dtype).to(options.device);
}
}  // namespace

Tensor fftfreq(std::int64_t n, double d, TensorOptions options) { return frequencies("fftfreq", n, false, d, options); }
Tensor rfftfreq(std::int64_t n, double d, TensorOptions options) {
  return frequencies("rfftfreq", n, true, d, options);
}

Tensor fftshift(const Tensor& x, Layout layout, Dims dims) { return shifted("fftshift", x, layout, dims, false); }
Tensor ifftshift(const Tensor& x, Layout layout, Dims dims) { return shifted("ifftshift", x, layout, dims, true); }

}  // namespace fft
}  // namespace etna
