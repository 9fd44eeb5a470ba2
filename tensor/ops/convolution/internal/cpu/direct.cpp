// Convolutions without oneDNN if a kernel's lines are dense: two-dimensional, without groups and without dilation along
// a line. Bound by arithmetic. The image's lines are copied once with their padding; a tile then reads the patches of
// its pixels in place, each line of the kernel as one run. So patches are never unrolled (im2col took 1.5 times as long
// for 16 channels in, 32 out). Images are processed in bands of lines that stay in cache.
#include <etna/tensor/ops/convolution/internal/cpu/convolution.h>

#include <algorithm>
#include <vector>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/transpose.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/flush_subnormals.h>

// GCC 12 mistakes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#ifndef ETNA_CONVOLUTION_BAND
#define ETNA_CONVOLUTION_BAND
namespace etna::cpu {

/// Output lines of one image, and the input lines that they read.
struct Band {
  std::int64_t image = 0, first = 0, count = 0;  ///< output lines [first, first + count)
  const float* lines = nullptr;                  ///< the first line read, from the first column read
  std::int64_t line = 0;                         ///< elements from one line to the next
};

}  // namespace etna::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/tensor/ops/convolution/internal/cpu/direct.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include <etna/device/internal/rounding.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/tile.inc>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {

std::int64_t panel_width() { return kColumns; }

/// @param panels [k / kColumns, kernel..., c, kColumns], zero-padded
void pack_weight(const Convolution& c, const StridedWeight& w, float* panels) {
  for (std::int64_t v = 0; v < c.k; v += kColumns) {
    for (std::int64_t h = 0; h < c.kernel[1]; ++h) {
      for (std::int64_t x = 0; x < c.kernel[2]; ++x) {
        const float* tap = static_cast<const float*>(w.data) + v * w.strides[0] + h * w.strides[2] + x * w.strides[3];
        for (std::int64_t i = 0; i < c.c; ++i, panels += kColumns) {
          for (std::int64_t f = 0; f < kColumns; ++f)
            panels[f] = v + f < c.k ? tap[f * w.strides[0] + i * w.strides[4]] : 0.0f;
        }
      }
    }
  }
}

/// @param y [count, out[2], k]
void forward_band(const Convolution& c, const Band& band, const float* panels, float beta, float* y) {
  const std::int64_t run = c.kernel[2] * c.c, pixels = band.count * c.out[2];
  Steps s;
  s.segments = c.kernel[1], s.depth = run;
  s.a_segment = c.dilation[1] * band.line, s.b_segment = run * kColumns;
  for (std::int64_t v = 0; v < c.k; v += kColumns, panels += c.kernel[1] * run * kColumns) {
    std::int64_t x = 0;
    const float* line = band.lines;
    for (std::int64_t p = 0; p < pixels; p += kRows) {
      const std::int64_t rows = std::min<std::int64_t>(kRows, pixels - p);
      const float* a[kRows] = {};
      for (std::int64_t r = 0; r < rows; ++r) {
        a[r] = line + x * c.stride[2] * c.c;
        if (++x == c.out[2]) x = 0, line += c.stride[1] * band.line;
      }
      const Target t{1.0f, beta, y + p * c.k + v, c.k};
      any_tile<false>(rows, s, a, panels, t, std::min(kColumns, c.k - v));
    }
  }
}

/// @param g [count, out[2], k] with row stride `leading`, whole vectors   @param sums [kernel..., c, k]
void weight_band(const Convolution& c, const Band& band, const float* g, std::int64_t leading, float beta,
                 float* sums) {
  const std::int64_t run = c.kernel[2] * c.c;
  Steps s;
  s.segments = band.count, s.depth = c.out[2];
  s.a_step = c.stride[2] * c.c, s.a_segment = c.stride[1] * band.line;
  s.b_step = leading, s.b_segment = c.out[2] * leading;
  for (std::int64_t v = 0; v < c.k; v += kColumns) {
    for (std::int64_t h = 0; h < c.kernel[1]; ++h) {
      for (std::int64_t e = 0; e < run; e += kRows) {
        const float* a[kRows] = {band.lines + h * c.dilation[1] * band.line + e};
        const Target t{1.0f, beta, sums + (h * run + e) * c.k + v, c.k};
        any_tile<true>(std::min<std::int64_t>(kRows, run - e), s, a, g + v, t, std::min(kColumns, c.k - v));
      }
    }
  }
}

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {
namespace {

HWY_EXPORT(panel_width);
HWY_EXPORT(pack_weight);
HWY_EXPORT(forward_band);
HWY_EXPORT(weight_band);

/// y [rows, n]: every row becomes x [n]. Each copy doubles the filled part, since a short copy costs as much as a long
/// one.
void repeat(const float* x, std::int64_t n, std::int64_t rows, float* y) {
  std::copy_n(x, n, y);
  for (std::int64_t done = 1; done < rows; done *= 2) std::copy_n(y, std::min(done, rows - done) * n, y + done * n);
}

/// The bands of all images.
class Bands {
 public:
  explicit Bands(const Convolution& c) : c_(c) {
    width_ = (c.out[2] - 1) * c.stride[2] + c.kernel[2];
    constexpr std::int64_t kMost = 1 << 14;  // floats of a band's lines
    const std::int64_t lines = kMost / (width_ * c.c), reach = (c.kernel[1] - 1) * c.dilation[1] + 1;
    each_ = std::clamp<std::int64_t>((lines - reach) / c.stride[1] + 1, 1, c.out[1]);
    per_image_ = (c.out[1] + each_ - 1) / each_;
    in_place_ =
        c.padding[1] == 0 && c.padding[2] == 0 && width_ <= c.in[2] && (c.out[1] - 1) * c.stride[1] + reach <= c.in[1];
  }

  std::int64_t count() const { return c_.n * per_image_; }
  std::int64_t largest() const { return each_; }

  /// @param copy buffer for the lines with their padding, if there is any
  Band band(std::int64_t index, const float* x, Scratch<float>& copy) const {
    Band b{.image = index / per_image_, .first = index % per_image_ * each_};
    b.count = std::min(each_, c_.out[1] - b.first);
    const float* image = x + b.image * c_.in[1] * c_.in[2] * c_.c;
    const std::int64_t begin = b.first * c_.stride[1] - c_.padding[1];
    if (in_place_) {
      b.line = c_.in[2] * c_.c;
      b.lines = image + begin * b.line;
      return b;
    }
    b.line = width_ * c_.c;
    const std::int64_t lines = (b.count - 1) * c_.stride[1] + (c_.kernel[1] - 1) * c_.dilation[1] + 1;
    copy.resize(static_cast<std::size_t>(lines * b.line));
    const std::int64_t before = std::min(c_.padding[2], width_) * c_.c;
    const std::int64_t inside = std::min(c_.in[2] * c_.c, b.line - before);
    for (std::int64_t i = 0; i < lines; ++i) {
      float* to = copy.data() + i * b.line;
      const std::int64_t y = begin + i;
      if (y < 0 || y >= c_.in[1]) {
        std::fill_n(to, b.line, 0.0f);
        continue;
      }
      std::fill_n(to, before, 0.0f);
      std::copy_n(image + y * c_.in[2] * c_.c, inside, to + before);
      std::fill_n(to + before + inside, b.line - before - inside, 0.0f);
    }
    b.lines = copy.data();
    return b;
  }

 private:
  Convolution c_;
  std::int64_t width_, each_, per_image_;
  bool in_place_;
};

}  // namespace

bool goes_direct(const Convolution& c) {
  const bool flat = c.in[0] == 1 && c.out[0] == 1 && c.kernel[0] == 1;
  return flat && c.groups == 1 && c.dilation[2] == 1 && !c.bf16 && c.padding[1] >= 0 && c.padding[2] >= 0;
}

void direct_forward(const Convolution& c, const float* x, const StridedWeight& weight, const float* bias, float* y) {
  const std::int64_t row = c.kernel[1] * c.kernel[2] * c.c;
  Scratch<float> panels(static_cast<std::size_t>(round_up(c.k, HWY_DYNAMIC_DISPATCH(panel_width)()) * row));
  HWY_DYNAMIC_DISPATCH(pack_weight)(c, weight, panels.data());
  const Bands bands(c);
  for_each_task(bands.count(), [&](std::int64_t index) {
    Scratch<float> copy;
    const Band band = bands.band(index, x, copy);
    float* to = y + (band.image * c.out[1] + band.first) * c.out[2] * c.k;
    if (bias != nullptr) repeat(bias, c.k, band.count * c.out[2], to);
    const FlushSubnormals flush;
    HWY_DYNAMIC_DISPATCH(forward_band)(c, band, panels.data(), bias == nullptr ? 0.0f : 1.0f, to);
  });
}

bool input_goes_direct(const Convolution& c) {
  const auto padding_after = [&](std::size_t d) { return (c.kernel[d] - 1) * c.dilation[d] - c.padding[d]; };
  return goes_direct(c) && c.stride[1] == 1 && c.stride[2] == 1 && padding_after(1) >= 0 && padding_after(2) >= 0;
}

void direct_input(const Convolution& c, const float* g, const StridedWeight& weight, float* x) {
  Convolution back = c;
  std::swap(back.c, back.k);
  std::swap(back.in, back.out);
  for (std::size_t d = 1; d < 3; ++d) back.padding[d] = (c.kernel[d] - 1) * c.dilation[d] - c.padding[d];
  // All taps of g that reached a pixel, from the last to the first.
  const auto& s = weight.strides;
  const float* last = static_cast<const float*>(weight.data) + (c.kernel[1] - 1) * s[2] + (c.kernel[2] - 1) * s[3];
  direct_forward(back, g, {last, {s[4], s[1], -s[2], -s[3], s[0]}}, nullptr, x);
}

void direct_weight(const Convolution& c, const float* x, const float* g, float* weight) {
  const std::int64_t row = c.kernel[1] * c.kernel[2] * c.c, size = row * c.k;
  const std::int64_t leading = round_up(c.k, HWY_DYNAMIC_DISPATCH(panel_width)());
  const Bands bands(c);
  const std::int64_t tasks = std::min<std::int64_t>(bands.count(), workers());
  Scratch<float> sums(static_cast<std::size_t>(tasks * size));
  for_each_task(tasks, [&](std::int64_t task) {
    const std::int64_t begin = bands.count() * task / tasks, end = bands.count() * (task + 1) / tasks;
    Scratch<float> copy, padded;
    if (leading != c.k) padded.resize(static_cast<std::size_t>(bands.largest() * c.out[2] * leading));
    for (std::int64_t index = begin; index < end; ++index) {
      const Band band = bands.band(index, x, copy);
      const float* from = g + (band.image * c.out[1] + band.first) * c.out[2] * c.k;
      for (std::int64_t p = 0; p < band.count * c.out[2] && leading != c.k; ++p) {
        for (std::int64_t i = 0; i < leading; ++i)
          padded[static_cast<std::size_t>(p * leading + i)] = i < c.k ? from[p * c.k + i] : 0.0f;
      }
      const FlushSubnormals flush;
      HWY_DYNAMIC_DISPATCH(weight_band)
      (c, band, leading == c.k ? from : padded.data(), leading, index == begin ? 0.0f : 1.0f,
       sums.data() + task * size);
    }
  });
  for (std::int64_t task = 1; task < tasks; ++task) {
    const float* sum = sums.data() + task * size;
    for (std::int64_t i = 0; i < size; ++i) sums[static_cast<std::size_t>(i)] += sum[i];
  }
  transpose(sums.data(), c.k, weight, row, c.k, row, sizeof(float));
}

}  // namespace etna::cpu
#endif
