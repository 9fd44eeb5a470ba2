#include <array>
#include <cmath>
#include <complex>
#include <numbers>

#define EIGEN_DONT_PARALLELIZE
#include <unsupported/Eigen/FFT>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/fft/internal/transform.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// The complex transform along one dimension, times a factor. It is linear and its matrix is symmetric, so its gradient
// is the transform in the other direction with the same factor. On the CPU kissfft computes in f64; a size with a large
// prime factor is computed as a convolution whose size is a power of two (Bluestein 1970).
namespace etna {
namespace fft {
namespace {

struct FftAttrs {
  int dim = 0;
  bool inverse = false;
  double scale = 1;
};

using Complex = std::complex<double>;
using Line = std::vector<Complex>;

std::vector<OutputSpec> fft_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("fft: the tensor holds {}, it must be floating", name(x.dtype())));
  if (x.dim() < 2 || x.size(-1) != 2) {
    throw ShapeError(fmt::format("fft: {} is not complex: that is a last dimension of size 2 after at least one other",
                                 str(x.shape())));
  }
  return {{x.shape(), x.dtype()}};
}

std::int64_t largest_prime_factor(std::int64_t n) {
  std::int64_t largest = 1;
  for (std::int64_t p = 2; p * p <= n; ++p) {
    while (n % p == 0) largest = p, n /= p;
  }
  return std::max(largest, n);
}

/// Transforms of one length and direction. Not thread-safe.
class Transform {
 public:
  Transform(std::int64_t n, bool inverse) : n_(n), inverse_(inverse) {
    engine_.SetFlag(Eigen::FFT<double>::Unscaled);
    if (largest_prime_factor(n) <= 128) return;
    while (padded_ < 2 * n - 1) padded_ *= 2;
    chirp_.resize(static_cast<std::size_t>(n));
    Line filter(static_cast<std::size_t>(padded_));
    for (std::int64_t k = 0; k < n; ++k) {
      // k² modulo 2n, without overflow for n < 2^31
      const auto turns = static_cast<double>(k * k % (2 * n)) / static_cast<double>(n);
      const Complex c = std::polar(1.0, (inverse ? 1 : -1) * std::numbers::pi * turns);
      chirp_[static_cast<std::size_t>(k)] = c;
      filter[static_cast<std::size_t>(k)] = filter[static_cast<std::size_t>((padded_ - k) % padded_)] = std::conj(c);
    }
    filter_.resize(filter.size());
    engine_.fwd(filter_.data(), filter.data(), padded_);
  }

  void operator()(const Line& x, Line& y) {
    if (n_ == 1) {
      y[0] = x[0];
    } else if (filter_.empty()) {
      inverse_ ? engine_.inv(y.data(), x.data(), n_) : engine_.fwd(y.data(), x.data(), n_);
    } else {
      convolve(x, y);
    }
  }

 private:
  void convolve(const Line& x, Line& y) {
    Line a(filter_.size()), b(filter_.size());
    for (std::size_t k = 0; k < chirp_.size(); ++k) a[k] = x[k] * chirp_[k];
    engine_.fwd(b.data(), a.data(), padded_);
    for (std::size_t k = 0; k < b.size(); ++k) b[k] *= filter_[k];
    engine_.inv(a.data(), b.data(), padded_);
    for (std::size_t k = 0; k < chirp_.size(); ++k) y[k] = a[k] * chirp_[k] / static_cast<double>(padded_);
  }

  std::int64_t n_, padded_ = 1;
  bool inverse_;
  Eigen::FFT<double> engine_;
  Line chirp_, filter_;
};

struct LineLayout {
  std::int64_t outer = 1, n = 1, inner = 1;
  LineLayout(const Tensor& x, int dim) : n(x.shape()[dim]) {
    for (int d = 0; d < dim; ++d) outer *= x.shape()[d];
    for (int d = dim + 1; d < x.dim() - 1; ++d) inner *= x.shape()[d];
  }
};

void fft_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto attrs = call.as<FftAttrs>();
  const Tensor x = call.in[0].contiguous();
  if (x.numel() == 0) return;
  const LineLayout layout(x, attrs.dim);
  const std::int64_t n = layout.n, inner = layout.inner;
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.host<T>();
    T* to = out[0].host<T>();
    cpu::parallel_for(
        layout.outer * inner, std::max<std::int64_t>(1, 4096 / n), [&](std::int64_t begin, std::int64_t end) {
          Transform transform(n, attrs.inverse);
          Line line(static_cast<std::size_t>(n)), result(static_cast<std::size_t>(n));
          for (std::int64_t r = begin; r < end; ++r) {
            const std::int64_t first = (r / inner * n * inner + r % inner) * 2, step = 2 * inner;
            for (std::int64_t i = 0; i < n; ++i) {
              const T* at = from + first + i * step;
              line[static_cast<std::size_t>(i)] = {rows::convert<double>(at[0]), rows::convert<double>(at[1])};
            }
            transform(line, result);
            for (std::int64_t i = 0; i < n; ++i) {
              const Complex y = result[static_cast<std::size_t>(i)] * attrs.scale;
              T* at = to + first + i * step;
              at[0] = rows::convert<T>(y.real()), at[1] = rows::convert<T>(y.imag());
            }
          }
        });
  });
}

constexpr std::int64_t kMost = 2048;  // most elements of a workgroup

bool power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

/// A factor of n near its root, such that neither it nor n divided by it exceeds kMost; 0: there is none.
std::int64_t factor_of(std::int64_t n) {
  for (auto k = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n))) + 1; k > 1; --k) {
    if (n % k == 0 && k <= kMost && n / k <= kMost) return k;
  }
  return 0;
}

/// One dispatch of shaders/fft/fft.comp, which explains the arguments.
void launch(const OpCall& call, const Tensor& x, const Tensor& y, const LineLayout& layout,
            std::array<std::int64_t, 3> two_steps, double scale) {
  const std::int64_t lines = layout.outer * layout.inner, each = kMost / layout.n;
  gpu::Kernel(shaders::fft, call)
      .spec(x.dtype(), y.dtype(), !power_of_two(layout.n))
      .read(x)
      .write(y)
      .u32(lines, layout.n, layout.inner, each)
      .u32(two_steps[0], two_steps[1], two_steps[2])
      .f32(call.as<FftAttrs>().inverse ? 1.0f : -1.0f)
      .f32(static_cast<float>(scale))
      .dispatch(gpu::grid(lines, each));
}

bool fft_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto attrs = call.as<FftAttrs>();
  Tensor& y = out[0];
  if (y.dtype() == f64) return false;
  if (y.numel() == 0) return true;
  const Tensor x = call.in[0].contiguous();
  const LineLayout layout(x, attrs.dim);
  if (layout.n <= kMost) {
    launch(call, x, y, layout, {0, 0, 1}, attrs.scale);
    return true;
  }
  const std::int64_t n1 = factor_of(layout.n), n2 = n1 == 0 ? 0 : layout.n / n1;
  if (n1 == 0) return false;
  const Tensor between = empty(x.shape(), {f32, x.device()});
  LineLayout first = layout, second = layout;
  first.n = n1, first.inner = checked_product(n2, layout.inner, "fft");
  second.n = n2, second.outer = checked_product(layout.outer, n1, "fft");
  launch(call, x, between, first, {layout.n, layout.inner, 1}, 1);
  launch(call, between, y, second, {0, 0, n1}, attrs.scale);
  return true;
}

TensorList fft_vjp(const VjpCall& call) {
  const auto attrs = call.as<FftAttrs>();
  return {transform(call.grad[0], attrs.dim, !attrs.inverse, attrs.scale)};
}

const OpDef kFft = {.name = "fft", .infer = fft_infer, .cpu = fft_cpu, .gpu = fft_gpu, .vjp = fft_vjp};

}  // namespace

Tensor transform(const Tensor& x, int dim, bool inverse, double scale) {
  return apply1(kFft, {x}, Attrs::of(FftAttrs{dim, inverse, scale}));
}

}  // namespace fft

std::span<const OpDef* const> ops_in_fft() {
  static const OpDef* const list[] = {&fft::kFft};
  return list;
}

}  // namespace etna
