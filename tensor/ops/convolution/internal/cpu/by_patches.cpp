// Convolutions without oneDNN: gemms of patches (im2col). Bound by arithmetic if patches stay in cache, so a band of
// output lines is unrolled into patches and multiplied before the next band overwrites them. All patches at once would
// take the image's size times the number of taps, written to memory and read back. Vectors copy the dense lines of a
// patch: calling memcpy() for each costs more than the few floats it copies, in WebAssembly most of all.
#include <etna/tensor/ops/convolution/internal/cpu/convolution.h>

#include <algorithm>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/tensor/ops/convolution/internal/cpu/by_patches.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// to[i] = from[i], or to[i] += from[i], for i < n
template <bool Adds>
HWY_INLINE void move(const float* from, float* to, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::LoadU(d, from + i);
    if constexpr (Adds) v = hn::Add(hn::LoadU(d, to + i), v);
    hn::StoreU(v, d, to + i);
  }
  for (; i < n; ++i) to[i] = Adds ? to[i] + from[i] : from[i];
}

HWY_INLINE void zero(float* to, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Zero(d), d, to + i);
  for (; i < n; ++i) to[i] = 0;
}

/// Copies between an image and the patches of one line of output pixels. Back adds the patches to the image; otherwise
/// they are copied from it.
/// @param image [in..., c]   @param patches [out[2], kernel..., c]
template <bool Back>
HWY_INLINE void line_of_patches(const Convolution& c, std::int64_t out_z, std::int64_t out_y, float* image,
                                float* patches) {
  const std::int64_t row = c.kernel[0] * c.kernel[1] * c.kernel[2] * c.c, line = c.kernel[2] * c.c;
  const bool together = c.dilation[2] == 1;
  // Each iteration copies a whole line of the kernel, or one tap of it.
  const std::int64_t steps = together ? 1 : c.kernel[2], taps = together ? c.kernel[2] : 1;
  for (std::int64_t d = 0; d < c.kernel[0]; ++d) {
    const std::int64_t z = out_z * c.stride[0] - c.padding[0] + d * c.dilation[0];
    for (std::int64_t h = 0; h < c.kernel[1]; ++h) {
      const std::int64_t y = out_y * c.stride[1] - c.padding[1] + h * c.dilation[1];
      const bool inside = z >= 0 && z < c.in[0] && y >= 0 && y < c.in[1];
      if (!inside && Back) continue;
      float* slot = patches + (d * c.kernel[1] + h) * line;
      if (!inside) {
        for (std::int64_t o = 0; o < c.out[2]; ++o) zero(slot + o * row, line);
        continue;
      }
      float* pixels = image + (z * c.in[1] + y) * c.in[2] * c.c;
      for (std::int64_t o = 0; o < c.out[2]; ++o) {
        for (std::int64_t s = 0; s < steps; ++s) {
          const std::int64_t x = o * c.stride[2] - c.padding[2] + s * c.dilation[2];
          const std::int64_t first = std::clamp<std::int64_t>(-x, 0, taps) * c.c;
          const std::int64_t last = std::clamp<std::int64_t>(c.in[2] - x, 0, taps) * c.c;
          float *place = slot + o * row + s * c.c, *pixel = pixels + x * c.c;
          if constexpr (Back) {
            move<true>(place + first, pixel + first, last - first);
          } else {
            zero(place, first);
            move<false>(pixel + first, place + first, last - first);
            zero(place + last, taps * c.c - last);
          }
        }
      }
    }
  }
}

/// Unrolls lines [first, first + count) of all images' output lines.
void im2col_lines(const Convolution& c, const float* x, std::int64_t first, std::int64_t count, float* patches) {
  const std::int64_t size = c.in[0] * c.in[1] * c.in[2] * c.c;
  const std::int64_t row = c.kernel[0] * c.kernel[1] * c.kernel[2] * c.c;
  for (std::int64_t i = first; i < first + count; ++i, patches += c.out[2] * row) {
    const std::int64_t y = i % c.out[1], z = i / c.out[1] % c.out[0], image = i / c.out[1] / c.out[0];
    line_of_patches<false>(c, z, y, const_cast<float*>(x) + image * size, patches);
  }
}

void col2im_lines(const Convolution& c, float* patches, std::int64_t first, std::int64_t count, float* x) {
  const std::int64_t size = c.in[0] * c.in[1] * c.in[2] * c.c;
  const std::int64_t row = c.kernel[0] * c.kernel[1] * c.kernel[2] * c.c;
  for (std::int64_t i = first; i < first + count; ++i, patches += c.out[2] * row) {
    const std::int64_t y = i % c.out[1], z = i / c.out[1] % c.out[0], image = i / c.out[1] / c.out[0];
    line_of_patches<true>(c, z, y, x + image * size, patches);
  }
}

/// y [rows, n]: every row becomes x [n].
void repeat_row(const float* x, std::int64_t n, std::int64_t rows, float* y) {
  for (std::int64_t i = 0; i < rows; ++i) move<false>(x, y + i * n, n);
}

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {
namespace {

HWY_EXPORT(im2col_lines);
HWY_EXPORT(col2im_lines);
HWY_EXPORT(repeat_row);

std::int64_t taps_of(const Convolution& c) { return c.kernel[0] * c.kernel[1] * c.kernel[2]; }

/// The output lines of all images, divided into bands whose patches stay in the L2 cache.
struct Bands {
  std::int64_t lines, each, count;

  explicit Bands(const Convolution& c) : lines(c.n * c.out[0] * c.out[1]) {
    constexpr std::int64_t kMost = 1 << 15;  // floats
    each = std::clamp<std::int64_t>(kMost / (taps_of(c) * c.c * c.out[2]), 1, lines);
    count = (lines + each - 1) / each;
  }
  std::int64_t first(std::int64_t band) const { return band * each; }
  std::int64_t size(std::int64_t band) const { return std::min(each, lines - band * each); }
};

/// The weight as a matrix with strides `filter_step` between filters and `element_step` between elements of a filter.
Scratch<float> matrix_of(const Convolution& c, const StridedWeight& w, std::int64_t filter_step,
                         std::int64_t element_step) {
  Scratch<float> matrix(static_cast<std::size_t>(c.k * taps_of(c) * c.c));
  for (std::int64_t f = 0; f < c.k; ++f) {
    float* to = matrix.data() + f * filter_step;
    for (std::int64_t d = 0; d < c.kernel[0]; ++d) {
      for (std::int64_t h = 0; h < c.kernel[1]; ++h) {
        for (std::int64_t x = 0; x < c.kernel[2]; ++x) {
          const float* from = static_cast<const float*>(w.data) + f * w.strides[0] + d * w.strides[1] +
                              h * w.strides[2] + x * w.strides[3];
          for (std::int64_t i = 0; i < c.c; ++i, to += element_step) *to = from[i * w.strides[4]];
        }
      }
    }
  }
  return matrix;
}

}  // namespace

bool goes_by_patches(const Convolution& c) { return c.groups == 1 && !c.bf16; }

void patches_forward(const Convolution& c, const float* x, const StridedWeight& weight, const float* bias, float* y) {
  const std::int64_t row = taps_of(c) * c.c;
  const Scratch<float> w = matrix_of(c, weight, 1, c.k);
  const Bands bands(c);
  for_each_task(bands.count, [&](std::int64_t band) {
    const std::int64_t lines = bands.size(band), pixels = lines * c.out[2];
    Scratch<float> patches(static_cast<std::size_t>(pixels * row));
    HWY_DYNAMIC_DISPATCH(im2col_lines)(c, x, bands.first(band), lines, patches.data());
    float* to = y + bands.first(band) * c.out[2] * c.k;
    if (bias != nullptr) HWY_DYNAMIC_DISPATCH(repeat_row)(bias, c.k, pixels, to);
    gemm_one_thread({.m = pixels, .n = c.k, .k = row, .lda = row, .ldb = c.k, .ldc = c.k}, 1.0f, patches.data(),
                    w.data(), bias == nullptr ? 0.0f : 1.0f, to);
  });
}

void patches_input(const Convolution& c, const float* g, const StridedWeight& weight, float* x) {
  const std::int64_t row = taps_of(c) * c.c, size = c.in[0] * c.in[1] * c.in[2] * c.c;
  const Scratch<float> w = matrix_of(c, weight, row, 1);
  // Patches overlap, so a task owns whole images.
  Convolution image = c;
  image.n = 1;
  const Bands bands(image);
  for_each_task(c.n, [&](std::int64_t n) {
    std::fill_n(x + n * size, size, 0.0f);
    Scratch<float> patches(static_cast<std::size_t>(bands.each * c.out[2] * row));
    for (std::int64_t band = 0; band < bands.count; ++band) {
      const std::int64_t lines = bands.size(band), pixels = lines * c.out[2];
      gemm_one_thread({.m = pixels, .n = row, .k = c.k, .lda = c.k, .ldb = row, .ldc = row}, 1.0f,
                      g + (n * bands.lines + bands.first(band)) * c.out[2] * c.k, w.data(), 0.0f, patches.data());
      HWY_DYNAMIC_DISPATCH(col2im_lines)(image, patches.data(), bands.first(band), lines, x + n * size);
    }
  });
}

void patches_weight(const Convolution& c, const float* x, const float* g, float* weight) {
  const std::int64_t row = taps_of(c) * c.c, size = c.k * row;
  const Bands bands(c);
  const std::int64_t tasks = std::min<std::int64_t>(bands.count, workers());
  Scratch<float> sums(static_cast<std::size_t>((tasks - 1) * size));
  for_each_task(tasks, [&](std::int64_t task) {
    float* sum = task == 0 ? weight : sums.data() + (task - 1) * size;
    const std::int64_t begin = bands.count * task / tasks, end = bands.count * (task + 1) / tasks;
    Scratch<float> patches(static_cast<std::size_t>(bands.each * c.out[2] * row));
    for (std::int64_t band = begin; band < end; ++band) {
      const std::int64_t lines = bands.size(band), pixels = lines * c.out[2];
      HWY_DYNAMIC_DISPATCH(im2col_lines)(c, x, bands.first(band), lines, patches.data());
      gemm_one_thread({.transpose_a = true, .m = c.k, .n = row, .k = pixels, .lda = c.k, .ldb = row, .ldc = row}, 1.0f,
                      g + bands.first(band) * c.out[2] * c.k, patches.data(), band == begin ? 0.0f : 1.0f, sum);
    }
  });
  for (std::int64_t task = 1; task < tasks; ++task) {
    const float* sum = sums.data() + (task - 1) * size;
    for (std::int64_t i = 0; i < size; ++i) weight[i] += sum[i];
  }
}

}  // namespace etna::cpu
#endif
