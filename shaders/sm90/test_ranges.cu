// target[i] = source[i] * factor + addend: the counterpart of test_ranges.comp for the recorder's tests.
// kernel: cubin_test_ranges
#include <cstdint>

struct Parameters {
  const std::uint32_t* source;
  std::uint32_t* target;
  std::uint32_t count, factor, addend;
};

extern "C" __global__ void cubin_test_ranges(const __grid_constant__ Parameters p) {
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += gridDim.x * blockDim.x) {
    p.target[i] = p.source[i] * p.factor + p.addend;
  }
}
