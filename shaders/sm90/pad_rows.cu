// Copies rows to addresses that are multiples of 16 bytes, as the copy engine requires. The gradient of 50257 logits
// per token is read by two gemms, hundreds of times each; without the copy, slower kernels would have to do them.
// Bytes-bound: each thread stores 16 bytes. Its loads are as wide as an element, and neighbouring threads load from the
// same cache lines.
// kernel: cubin_pad_rows_2
// kernel: cubin_pad_rows_4
#include <cstdint>

struct Parameters {
  const void* from;
  void* to;
  std::uint32_t rows, columns;
  std::uint32_t from_leading, to_leading;  ///< in elements; rows of `to` are whole multiples of 16 bytes
};

template <typename Item>
__device__ __forceinline__ void pad_rows(const Parameters& p) {
  constexpr std::uint32_t kWide = 16 / sizeof(Item);
  for (std::uint32_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const Item* from = static_cast<const Item*>(p.from) + static_cast<std::size_t>(row) * p.from_leading;
    Item* to = static_cast<Item*>(p.to) + static_cast<std::size_t>(row) * p.to_leading;
#pragma unroll 2
    for (std::uint32_t c = threadIdx.x * kWide; c < p.columns; c += blockDim.x * kWide) {
      alignas(16) Item items[kWide];
#pragma unroll
      for (std::uint32_t i = 0; i < kWide; ++i) items[i] = c + i < p.columns ? from[c + i] : Item(0);
      *reinterpret_cast<uint4*>(to + c) = *reinterpret_cast<const uint4*>(items);
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) cubin_pad_rows_2(const __grid_constant__ Parameters p) {
  pad_rows<std::uint16_t>(p);
}
extern "C" __global__ void __launch_bounds__(256) cubin_pad_rows_4(const __grid_constant__ Parameters p) {
  pad_rows<std::uint32_t>(p);
}
