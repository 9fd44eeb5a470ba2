// A few rows times a packed matrix. Bound by multiply-adds if a tile of the panel, once in cache, serves enough rows:
// eight with 32 vector registers, four with 16. Two vectors of columns make sixteen (eight) independent sums, which
// hide the latency of a multiply-add.
#include <etna/tensor/ops/matmul/gemm/internal/cpu/weight_panels.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/tensor/ops/matmul/gemm/internal/cpu/weight_panels.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <etna/device/internal/cpu/vector_math.inc>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {

HWY_INLINE V load_column(const float* x) { return hn::LoadU(D(), x); }
HWY_INLINE V load_column(const std::uint16_t* x) {
  const hn::RebindToUnsigned<D> u32_tag;
  const hn::Rebind<std::uint16_t, D> u16_tag;
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(u32_tag, hn::LoadU(u16_tag, x))));
}

/// `rows` ≤ kRows rows times kVectors vectors of a tile that is `width` columns wide.
template <std::size_t kRows, std::size_t kVectors, typename S>
HWY_INLINE void block(const float* a, std::size_t lda, std::size_t k, const S* b, std::size_t width, float* out,
                      std::size_t ldo) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  V sums[kRows][kVectors];
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = constant(0.0f);
  }
  for (std::size_t i = 0; i < k; ++i, b += width) {
    V column[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) column[v] = load_column(b + v * lanes);
    for (std::size_t r = 0; r < kRows; ++r) {
      const V value = hn::Set(d, a[r * lda + i]);
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(value, column[v], sums[r][v]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, out + r * ldo + v * lanes);
  }
}

template <std::size_t kVectors, typename S>
HWY_INLINE void blocks(const float* a, std::size_t lda, std::size_t rows, std::size_t k, const S* b, std::size_t width,
                       float* out, std::size_t ldo) {
  constexpr std::size_t kMost = hn::MaxLanes(D()) >= 16 ? 8 : 4;
  std::size_t r = 0;
  for (; r + kMost <= rows; r += kMost) block<kMost, kVectors>(a + r * lda, lda, k, b, width, out + r * ldo, ldo);
  for (; r + 4 <= rows; r += 4) block<4, kVectors>(a + r * lda, lda, k, b, width, out + r * ldo, ldo);
  for (; r + 2 <= rows; r += 2) block<2, kVectors>(a + r * lda, lda, k, b, width, out + r * ldo, ldo);
  for (; r < rows; ++r) block<1, kVectors>(a + r * lda, lda, k, b, width, out + r * ldo, ldo);
}

template <typename S>
HWY_INLINE void tiles(const float* a, std::size_t lda, std::size_t rows, std::size_t k, const S* panel,
                      std::size_t columns, float* out, std::size_t ldo) {
  const std::size_t lanes = hn::Lanes(D()), tile = static_cast<std::size_t>(kPanelTile);
  for (std::size_t c = 0; c < columns; c += tile, panel += tile * k) {
    const std::size_t width = std::min(tile, columns - c);
    std::size_t v = 0;
    for (; v + 2 * lanes <= width; v += 2 * lanes) blocks<2>(a, lda, rows, k, panel + v, width, out + c + v, ldo);
    for (; v < width; v += lanes) blocks<1>(a, lda, rows, k, panel + v, width, out + c + v, ldo);
  }
}

void multiply_panel_of(const float* a, std::size_t lda, std::size_t rows, std::size_t k, const float* panel,
                       std::size_t columns, float* out, std::size_t ldo) {
  tiles(a, lda, rows, k, panel, columns, out, ldo);
}
void multiply_bf16_panel_of(const float* a, std::size_t lda, std::size_t rows, std::size_t k,
                            const std::uint16_t* panel, std::size_t columns, float* out, std::size_t ldo) {
  tiles(a, lda, rows, k, panel, columns, out, ldo);
}

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {

HWY_EXPORT(multiply_panel_of);
HWY_EXPORT(multiply_bf16_panel_of);
void multiply_panel(const float* a, std::int64_t lda, std::int64_t rows, std::int64_t k, const std::uint16_t* panel,
                    std::int64_t columns, float* out, std::int64_t ldo) {
  HWY_DYNAMIC_DISPATCH(multiply_bf16_panel_of)
  (a, static_cast<std::size_t>(lda), static_cast<std::size_t>(rows), static_cast<std::size_t>(k), panel,
   static_cast<std::size_t>(columns), out, static_cast<std::size_t>(ldo));
}
void multiply_panel(const float* a, std::int64_t lda, std::int64_t rows, std::int64_t k, const float* panel,
                    std::int64_t columns, float* out, std::int64_t ldo) {
  HWY_DYNAMIC_DISPATCH(multiply_panel_of)
  (a, static_cast<std::size_t>(lda), static_cast<std::size_t>(rows), static_cast<std::size_t>(k), panel,
   static_cast<std::size_t>(columns), out, static_cast<std::size_t>(ldo));
}

void multiply_panel(const double* a, std::int64_t lda, std::int64_t rows, std::int64_t k, const double* panel,
                    std::int64_t columns, double* out, std::int64_t ldo) {
  for (std::int64_t c = 0; c < columns; c += kPanelTile) {
    const std::int64_t width = std::min(kPanelTile, columns - c);
    for (std::int64_t r = 0; r < rows; ++r) {
      double sums[kPanelTile] = {};
      for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t j = 0; j < width; ++j) sums[j] += a[r * lda + i] * panel[i * width + j];
      }
      std::copy_n(sums, width, out + r * ldo + c);
    }
    panel += width * k;
  }
}

}  // namespace etna::cpu
#endif
