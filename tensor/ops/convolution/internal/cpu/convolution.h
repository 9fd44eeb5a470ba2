#pragma once

#include <array>
#include <cstdint>

/// Convolutions of f32 and bf16 on the host by oneDNN, channels last, on all threads. Tasks divide the images, or the
/// channels if there are more weights than results; each task calls the library on its own thread. Builds without
/// oneDNN multiply patches.
namespace etna::cpu {

/// x [n, in..., c] · weight [k, kernel..., c / groups] → y [n, out..., k]
struct Convolution {
  std::int64_t n = 0, c = 0, k = 0, groups = 1;
  std::array<std::int64_t, 3> in{}, out{}, kernel{}, stride{}, padding{}, padding_after{}, dilation{};
  bool bf16 = false;  ///< x, y and weight; sums, bias and the weight's gradient are f32

  bool operator==(const Convolution&) const = default;
  bool operator<(const Convolution& other) const;
};

/// A weight of any layout: strides, in elements, of k, the kernel's dimensions and c. None is 0.
struct StridedWeight {
  const void* data = nullptr;
  std::array<std::int64_t, 5> strides{};
};

/// True if the processor computes bf16. Otherwise callers convert to f32.
bool convolves_bf16();

/// Each returns false, having written nothing, if no implementation is worthwhile for these sizes.
/// @param bias f32 [k] or null
bool convolution(const Convolution& c, const void* x, const StridedWeight& weight, const float* bias, void* y);
bool convolution_input(const Convolution& c, const void* g, const StridedWeight& weight, void* x);
/// The tasks' sums are added in order; the bits depend on the number of threads.
/// @param weight [k, kernel..., c / groups]
bool convolution_weight(const Convolution& c, const void* x, const void* g, float* weight);

/// convolution_input() for a few input channels: runs a gemm for each band of rows and adds the result to the image.
/// oneDNN would compute 16 channels. Two-dimensional, without groups and dilation.
bool has_few_channels(const Convolution& c);
/// @param weight f32 or bf16, contiguous
void few_channels_input(const Convolution& c, const void* g, const void* weight, void* x);

/// The same without oneDNN, for f32 without groups. Reads patches from the image's lines if a kernel's lines are dense;
/// otherwise multiplies unrolled patches (im2col).
bool goes_direct(const Convolution& c);
void direct_forward(const Convolution& c, const float* x, const StridedWeight& weight, const float* bias, float* y);
void direct_weight(const Convolution& c, const float* x, const float* g, float* weight);
/// The gradient by x is a convolution as well only if all strides are 1.
bool input_goes_direct(const Convolution& c);
void direct_input(const Convolution& c, const float* g, const StridedWeight& weight, float* x);

bool goes_by_patches(const Convolution& c);
void patches_forward(const Convolution& c, const float* x, const StridedWeight& weight, const float* bias, float* y);
void patches_input(const Convolution& c, const float* g, const StridedWeight& weight, float* x);
void patches_weight(const Convolution& c, const float* x, const float* g, float* weight);

}  // namespace etna::cpu
