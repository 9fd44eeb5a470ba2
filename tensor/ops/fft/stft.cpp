#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/fft/fft.h>

// Short-time transforms. Frames overlap: a frame is c chunks of hop_length samples, and frames t, t + 1, ... start at
// chunks t, t + 1, ... So framing is c slices of the signal's chunks side by side, and adding up frames adds c shifted
// tensors; neither needs an index.
namespace etna::fft {
namespace {

struct Framing {
  std::int64_t n_fft, hop, chunks;
};

Framing framing(const char* op, std::int64_t n_fft, const StftOptions& options) {
  if (n_fft < 1) throw ShapeError(fmt::format("{}: n_fft is {}, it must be at least 1", op, n_fft));
  const std::int64_t hop = options.hop_length == 0 ? std::max<std::int64_t>(1, n_fft / 4) : options.hop_length;
  if (hop < 1) throw ShapeError(fmt::format("{}: hop_length is {}, it must be at least 1", op, hop));
  return {n_fft, hop, (n_fft + hop - 1) / hop};
}

/// The window, n_fft long.
Tensor whole_window(const char* op, const Tensor& window, const StftOptions& options, std::int64_t n_fft, DType dtype,
                    Device device) {
  const std::int64_t length = options.win_length == 0 ? n_fft : options.win_length;
  if (length < 1 || length > n_fft) {
    throw ShapeError(fmt::format("{}: win_length is {}, it must be between 1 and n_fft, {}", op, length, n_fft));
  }
  if (window.defined() && window.shape() != Shape{length}) {
    throw ShapeError(fmt::format("{}: the window is {}, it must be [{}]", op, str(window.shape()), length));
  }
  const Tensor given = window.defined() ? window : ones({length}, {dtype, device});
  if (length == n_fft) return given;
  const std::int64_t left = (n_fft - length) / 2;
  const TensorOptions like{given.dtype(), given.device()};
  return cat({zeros({left}, like), given, zeros({n_fft - length - left}, like)}, 0);
}

Tensor zeros_beside(const Tensor& x, int dim, std::int64_t n) {
  Shape shape = x.shape();
  shape[dim] = n;
  return zeros(shape, {x.dtype(), x.device()});
}

/// [B, T] → [B, p + T + p], reflected at the ends without repeating the first and the last sample.
Tensor reflected(const Tensor& x, std::int64_t p) {
  if (p == 0) return x;
  const Tensor back = (cumsum(ones({p}, {f32, x.device()}), 0, true) - 1.0).to(i32);
  const std::int64_t n = x.size(1);
  return cat({index_select(x.slice(1, 1, p + 1), 1, back), x, index_select(x.slice(1, n - p - 1, n - 1), 1, back)}, 1);
}

/// [B, T] → [B, frames, n_fft]
Tensor framed(const Tensor& x, const Framing& f, std::int64_t frames) {
  const std::int64_t blocks = frames + f.chunks - 1, wanted = blocks * f.hop;
  Tensor all;
  if (x.size(1) < wanted)
    all = cat({x, zeros_beside(x, 1, wanted - x.size(1))}, 1);
  else
    all = x.slice(1, 0, wanted);
  const Tensor chunks = all.reshape({x.size(0), blocks, f.hop});
  TensorList parts;
  for (std::int64_t j = 0; j < f.chunks; ++j) parts.push_back(chunks.slice(1, j, j + frames));
  return cat(parts, 2).slice(2, 0, f.n_fft);
}

/// [B, frames, n_fft] → [B, n_fft + (frames - 1) · hop]: adds up frames where they overlap.
Tensor overlapped(const Tensor& x, const Framing& f) {
  const std::int64_t frames = x.size(1), whole = f.chunks * f.hop;
  Tensor padded = x;
  if (whole > f.n_fft) padded = cat({x, zeros_beside(x, 2, whole - f.n_fft)}, 2);
  Tensor total;
  for (std::int64_t j = 0; j < f.chunks; ++j) {
    const Tensor part = padded.slice(2, j * f.hop, (j + 1) * f.hop);
    const Tensor placed = cat({zeros_beside(part, 1, j), part, zeros_beside(part, 1, f.chunks - 1 - j)}, 1);
    total = total.defined() ? total + placed : placed;
  }
  return total.reshape({x.size(0), (frames + f.chunks - 1) * f.hop}).slice(1, 0, f.n_fft + (frames - 1) * f.hop);
}

}  // namespace

Tensor stft(const Tensor& given, std::int64_t n_fft, const Tensor& window, const StftOptions& options) {
  detail::require_defined("stft", given);
  if (given.dim() != 1 && given.dim() != 2) {
    throw ShapeError(fmt::format("stft: the signal is {}, it must be [T] or [B, T]", str(given.shape())));
  }
  const Framing f = framing("stft", n_fft, options);
  Tensor x = given.dim() == 1 ? given.unsqueeze(0) : given;
  if (!is_floating(x.dtype())) x = x.to(f32);
  if (options.center) {
    if (x.size(1) <= n_fft / 2) {
      throw ShapeError(
          fmt::format("stft: a signal of {} samples cannot be reflected by n_fft / 2 = {}; make it longer, "
                      "or set center = false",
                      x.size(1), n_fft / 2));
    }
    x = reflected(x, n_fft / 2);
  }
  if (x.size(1) < n_fft) {
    throw ShapeError(fmt::format("stft: a signal of {} samples has no frame of n_fft = {}", x.size(1), n_fft));
  }
  const Tensor frames = framed(x, f, 1 + (x.size(1) - n_fft) / f.hop) *
                        whole_window("stft", window, options, n_fft, x.dtype(), x.device());
  const Norm norm = options.normalized ? Norm::ortho : Norm::backward;
  const Tensor y = options.onesided ? rfft(frames, {}, -1, norm) : fft(complex(frames), {}, -1, norm);
  const Tensor result = y.permute({0, 2, 1, 3});
  return given.dim() == 1 ? result.squeeze(0) : result;
}

Tensor istft(const Tensor& given, std::int64_t n_fft, const Tensor& window, const StftOptions& options,
             std::optional<std::int64_t> length) {
  detail::require_defined("istft", given);
  const Framing f = framing("istft", n_fft, options);
  const std::int64_t frequencies = options.onesided ? n_fft / 2 + 1 : n_fft;
  if ((given.dim() != 3 && given.dim() != 4) || given.size(-1) != 2 || given.size(-3) != frequencies ||
      given.size(-2) < 1 || !is_floating(given.dtype())) {
    throw ShapeError(
        fmt::format("istft: {} is not [(B,) {}, frames, 2] of floating numbers", str(given.shape()), frequencies));
  }
  const Tensor x = given.dim() == 3 ? given.unsqueeze(0) : given;
  const Norm norm = options.normalized ? Norm::ortho : Norm::backward;
  const Tensor spectrum = x.permute({0, 2, 1, 3});
  const Tensor frames = options.onesided ? irfft(spectrum, n_fft, -1, norm) : real(ifft(spectrum, {}, -1, norm));
  const Tensor w = whole_window("istft", window, options, n_fft, frames.dtype(), frames.device());
  const Tensor weights = overlapped(square(w).expand({1, frames.size(1), n_fft}), f);
  Tensor y = overlapped(frames * w, f);
  const std::int64_t covered = y.size(1), begin = options.center ? n_fft / 2 : 0;
  const std::int64_t end = std::min(covered, length ? begin + std::max<std::int64_t>(0, *length) : covered - begin);
  y = y.slice(1, begin, std::max(begin, end)) / weights.slice(1, begin, std::max(begin, end));
  if (length && y.size(1) < *length) y = cat({y, zeros_beside(y, 1, *length - y.size(1))}, 1);
  return given.dim() == 3 ? y.squeeze(0) : y;
}

}  // namespace etna::fft
