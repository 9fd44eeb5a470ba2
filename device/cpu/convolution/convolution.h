#pragma once

#include <array>
#include <cstdint>

/// Convolutions of f32 on the host by oneDNN, channels last, on all threads: images are dealt out to tasks, and each
/// task calls the library on its own thread.
namespace etna::cpu {

/// x [n, in..., c] · weight [k, kernel..., c / groups] → y [n, out..., k]
struct Convolution {
  std::int64_t n = 0, c = 0, k = 0, groups = 1;
  std::array<std::int64_t, 3> in{}, out{}, kernel{}, stride{}, padding{}, padding_behind{}, dilation{};

  bool operator==(const Convolution&) const = default;
  bool operator<(const Convolution& other) const;
};

/// Each returns false if oneDNN is missing or has no worthwhile code for these sizes; nothing is written then.
/// @param bias [k] or null
bool convolution(const Convolution& c, const float* x, const float* weight, const float* bias, float* y);
bool convolution_input(const Convolution& c, const float* g, const float* weight, float* x);
/// The tasks' sums are added in order; the bits depend on the number of threads.
bool convolution_weight(const Convolution& c, const float* x, const float* g, float* weight);

}  // namespace etna::cpu
