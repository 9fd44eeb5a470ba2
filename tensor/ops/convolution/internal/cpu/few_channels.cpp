#include <algorithm>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/ops/convolution/internal/cpu/convolution.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

namespace etna::cpu {
namespace {

/// Adds the gemm result of one row of y to the rows of the image that its patches cover.
void add_row(const Convolution& c, const float* patches, std::int64_t row, float* image) {
  const std::int64_t taps = c.kernel[1] * c.kernel[2] * c.c, line = c.kernel[2] * c.c;
  for (std::int64_t i = 0; i < c.kernel[1]; ++i) {
    const std::int64_t y = row * c.stride[1] - c.padding[1] + i;
    if (y < 0 || y >= c.in[1]) continue;
    float* to = image + y * c.in[2] * c.c;
    for (std::int64_t o = 0; o < c.out[2]; ++o) {
      const float* from = patches + o * taps + i * line;
      const std::int64_t x = o * c.stride[2] - c.padding[2];
      const std::int64_t first = std::max<std::int64_t>(0, -x) * c.c;
      const std::int64_t last = std::min(c.kernel[2], c.in[2] - x) * c.c;
      float* at = to + x * c.c;
      for (std::int64_t j = first; j < last; ++j) at[j] += from[j];
    }
  }
}

template <typename T>
void image_gradient(const Convolution& c, const T* g, const T* weight, float* image) {
  const std::int64_t taps = c.kernel[1] * c.kernel[2] * c.c;
  // The gemm result of a band stays in the L2 cache.
  const std::int64_t rows = std::clamp<std::int64_t>((1 << 16) / (taps * c.out[2]), 1, c.out[1]);
  Scratch<float> patches(static_cast<std::size_t>(rows * c.out[2] * taps));
  std::fill_n(image, c.in[1] * c.in[2] * c.c, 0.0f);
  for (std::int64_t first = 0; first < c.out[1]; first += rows) {
    const std::int64_t count = std::min(rows, c.out[1] - first);
    gemm_one_thread({.m = count * c.out[2], .n = taps, .k = c.k, .lda = c.k, .ldb = taps, .ldc = taps}, 1.0f,
                    g + first * c.out[2] * c.k, weight, 0.0f, patches.data());
    for (std::int64_t r = 0; r < count; ++r) add_row(c, patches.data() + r * c.out[2] * taps, first + r, image);
  }
}

}  // namespace

bool has_few_channels(const Convolution& c) {
  const bool flat = c.in[0] == 1 && c.out[0] == 1 && c.kernel[0] == 1;
  const bool together = c.dilation == std::array<std::int64_t, 3>{1, 1, 1} && c.groups == 1;
  return c.c <= 4 && c.k >= 16 && flat && together && c.n >= workers();
}

void few_channels_input(const Convolution& c, const void* g, const void* weight, void* x) {
  const std::int64_t x_size = c.in[1] * c.in[2] * c.c, y_size = c.out[1] * c.out[2] * c.k;
  for_each_task(c.n, [&](std::int64_t image) {
    if (!c.bf16) {
      image_gradient(c, static_cast<const float*>(g) + image * y_size, static_cast<const float*>(weight),
                     static_cast<float*>(x) + image * x_size);
      return;
    }
    Scratch<float> sums(static_cast<std::size_t>(x_size));
    image_gradient(c, static_cast<const Bf16*>(g) + image * y_size, static_cast<const Bf16*>(weight), sums.data());
    narrow_bf16(sums.data(), static_cast<Bf16*>(x) + image * x_size, x_size);
  });
}

}  // namespace etna::cpu
