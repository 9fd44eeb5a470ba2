#pragma once

#include <optional>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna {

// Complex numbers are a last dimension of size 2, real and imaginary part, as PyTorch's view_as_real() returns. These
// functions take and return that layout.
Tensor complex(const Tensor& real, const Tensor& imaginary = {});  ///< [...] → [..., 2]; undefined: 0
Tensor real(const Tensor& x);                                      ///< [..., 2] → [...], a view
Tensor imag(const Tensor& x);
Tensor conj(const Tensor& x);
Tensor complex_mul(const Tensor& a, const Tensor& b);
Tensor complex_abs(const Tensor& x);  ///< [..., 2] → [...]; gradient 0 at 0

}  // namespace etna

/// Discrete Fourier transforms with PyTorch's names. A complex tensor has a last dimension of size 2, as above; `dim`
/// and `dims` do not count it, so they mean the same as in PyTorch: for x [8, 5, 2], dim -1 is the one of size 5. f16
/// and bf16 are computed in f32 and rounded once; integers become f32.
///
/// The CPU transforms any size in O(n log n). A GPU has a kernel for sizes up to 2048 and for products of two such
/// sizes; unless they are powers of two, it takes O(n) operations per element, where n is the larger. Other sizes
/// (large primes) fall back to the CPU, which is an error in strict mode.
namespace etna::fft {

/// The factors of forward and inverse transforms of n elements: 1 and 1/n (backward), 1/√n for both (ortho), or 1/n and
/// 1 (forward).
enum class Norm { backward, ortho, forward };

// n: the length to transform; x is cut, or padded with zeros. By default x's own length.
Tensor fft(const Tensor& x, std::optional<std::int64_t> n = {}, std::int64_t dim = -1, Norm norm = Norm::backward);
Tensor ifft(const Tensor& x, std::optional<std::int64_t> n = {}, std::int64_t dim = -1, Norm norm = Norm::backward);
/// Transforms a real tensor: returns the n / 2 + 1 frequencies that determine the others. @param x [...] @return [...,
/// n / 2 + 1, 2]
Tensor rfft(const Tensor& x, std::optional<std::int64_t> n = {}, std::int64_t dim = -1, Norm norm = Norm::backward);
/// The inverse of rfft. @param n length of the result, by default 2 · (size - 1); pass it if it is odd
Tensor irfft(const Tensor& x, std::optional<std::int64_t> n = {}, std::int64_t dim = -1, Norm norm = Norm::backward);
/// The real transform of a Hermitian signal given by its half; and its inverse.
Tensor hfft(const Tensor& x, std::optional<std::int64_t> n = {}, std::int64_t dim = -1, Norm norm = Norm::backward);
Tensor ihfft(const Tensor& x, std::optional<std::int64_t> n = {}, std::int64_t dim = -1, Norm norm = Norm::backward);

// Over several dimensions: `sizes` gives a length for each (-1: x's own), `dims` are by default the last ones, or all.
Tensor fftn(const Tensor& x, Dims sizes = {}, Dims dims = {}, Norm norm = Norm::backward);
Tensor ifftn(const Tensor& x, Dims sizes = {}, Dims dims = {}, Norm norm = Norm::backward);
Tensor rfftn(const Tensor& x, Dims sizes = {}, Dims dims = {}, Norm norm = Norm::backward);
Tensor irfftn(const Tensor& x, Dims sizes = {}, Dims dims = {}, Norm norm = Norm::backward);
Tensor fft2(const Tensor& x, Dims sizes = {}, Dims dims = {-2, -1}, Norm norm = Norm::backward);
Tensor ifft2(const Tensor& x, Dims sizes = {}, Dims dims = {-2, -1}, Norm norm = Norm::backward);
Tensor rfft2(const Tensor& x, Dims sizes = {}, Dims dims = {-2, -1}, Norm norm = Norm::backward);
Tensor irfft2(const Tensor& x, Dims sizes = {}, Dims dims = {-2, -1}, Norm norm = Norm::backward);

/// The frequencies of the results of fft() in cycles per unit, for samples with spacing d: 0, 1, ..., -1 over n · d.
Tensor fftfreq(std::int64_t n, double d = 1, TensorOptions options = {});
/// The same for rfft(): 0 ... n / 2.
Tensor rfftfreq(std::int64_t n, double d = 1, TensorOptions options = {});

/// The meaning of a tensor's last dimension.
enum class Layout { real, complex };
/// Moves frequency 0 from the front to the middle of each of `dims` (default: all); and the inverse.
Tensor fftshift(const Tensor& x, Layout layout, Dims dims = {});
Tensor ifftshift(const Tensor& x, Layout layout, Dims dims = {});

struct StftOptions {
  std::int64_t hop_length = 0;  ///< samples between frames; 0: n_fft / 4
  std::int64_t win_length = 0;  ///< 0: n_fft. A shorter window is padded with zeros on both sides.
  bool center = true;           ///< frame t is centered at t · hop_length, with the signal's ends reflected
  bool normalized = false;      ///< scaled by 1/√n_fft
  bool onesided = true;         ///< n_fft / 2 + 1 frequencies
};
/// Short-time Fourier transform. @param x [T] or [B, T] @param window [win_length] or undefined: ones
/// @return [(B,) frequencies, frames, 2]
Tensor stft(const Tensor& x, std::int64_t n_fft, const Tensor& window = {}, const StftOptions& options = {});
/// The least-squares inverse of stft() (Griffin & Lim 1984). @param length of the signal; by default as many samples as
/// the frames cover @return [T] or [B, T]
/// Samples that no window covers are NaN: it does not check whether the windows overlap enough.
Tensor istft(const Tensor& x, std::int64_t n_fft, const Tensor& window = {}, const StftOptions& options = {},
             std::optional<std::int64_t> length = {});

}  // namespace etna::fft
