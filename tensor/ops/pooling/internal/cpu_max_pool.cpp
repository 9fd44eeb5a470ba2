// Bound by loads: maxima and positions stay in registers for all elements of a window.
#include <etna/tensor/ops/pooling/internal/cpu_max_pool.h>

#include <algorithm>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/tensor/ops/pooling/internal/cpu_max_pool.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <etna/device/internal/cpu/vector_math.inc>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {

using Places = hn::RebindToSigned<D>;
using P = hn::Vec<Places>;

struct Best {
  V value;
  P place;
};

HWY_INLINE void take(Best& best, V value, P place) {
  const auto larger = hn::Or(hn::Gt(value, best.value), hn::Not(hn::Eq(value, value)));
  best.value = hn::IfThenElse(larger, value, best.value);
  best.place = hn::IfThenElse(hn::RebindMask(Places(), larger), place, best.place);
}

/// Elements 0, stride, 2 · stride ... of x.
template <int kStride>
HWY_INLINE V load_strided(const float* x, P steps) {
  const D d;
  if constexpr (kStride == 1) return hn::LoadU(d, x);
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kStride == 2) return hn::ConcatEven(d, hn::LoadU(d, x + hn::Lanes(d)), hn::LoadU(d, x));
#endif
  return hn::GatherIndex(d, x, steps);
}

template <int kStride>
HWY_INLINE void row_of(const PoolRow& row, const std::int32_t* first, float* best, std::int32_t* where) {
  const D d;
  const Places places;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const P steps = hn::Mul(hn::Iota(places, 0), hn::Set(places, static_cast<std::int32_t>(row.stride)));
  for (std::int64_t o = 0; o < row.windows; o += lanes) {
    Best b{hn::Set(d, -std::numeric_limits<float>::infinity()), hn::LoadU(places, first + o)};
    for (std::int64_t j = 0; j < row.count; ++j) {
      for (std::int64_t k = 0; k < row.kernel; ++k) {
        const std::int64_t at = o * row.stride + k * row.step;
        take(b, load_strided<kStride>(row.lines[j] + at, steps),
             hn::Add(steps, hn::Set(places, row.places[j] + static_cast<std::int32_t>(at))));
      }
    }
    const std::int64_t rest = row.windows - o;
    if (rest >= lanes) {
      hn::StoreU(b.value, d, best + o);
      hn::StoreU(b.place, places, where + o);
      continue;
    }
    HWY_ALIGN float values[hn::MaxLanes(D())];
    HWY_ALIGN std::int32_t at[hn::MaxLanes(D())];
    hn::Store(b.value, d, values);
    hn::Store(b.place, places, at);
    std::copy_n(values, rest, best + o);
    std::copy_n(at, rest, where + o);
  }
}

void pool_row(const PoolRow& row, const std::int32_t* first, float* best, std::int32_t* where) {
  if (row.stride == 1)
    row_of<1>(row, first, best, where);
  else if (row.stride == 2)
    row_of<2>(row, first, best, where);
  else
    row_of<0>(row, first, best, where);
}

HWY_INLINE V load(const float* x) { return hn::LoadU(D(), x); }
HWY_INLINE void store(V v, float* y) { hn::StoreU(v, D(), y); }
HWY_INLINE V load(const std::uint16_t* x) {
  const hn::RebindToUnsigned<D> u32_tag;
  const hn::Rebind<std::uint16_t, D> u16_tag;
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(u32_tag, hn::LoadU(u16_tag, x))));
}
HWY_INLINE void store(V v, std::uint16_t* y) {
  const hn::RebindToUnsigned<D> u32_tag;
  const hn::RebindToSigned<D> whole;
  const hn::Rebind<std::uint16_t, D> u16_tag;
  hn::StoreU(hn::DemoteTo(u16_tag, hn::BitCast(whole, hn::ShiftRight<16>(hn::BitCast(u32_tag, v)))), u16_tag, y);
}
HWY_INLINE float wide(float x) { return x; }
HWY_INLINE float wide(std::uint16_t x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
  float y;
  std::memcpy(&y, &bits, sizeof(y));
  return y;
}

template <typename T>
HWY_INLINE void pixels_of(const T* const* pixels, const std::int32_t* places, std::size_t count, std::size_t channels,
                          std::int32_t first, T* best, std::int32_t* where) {
  const D d;
  const Places of_place;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t c = 0;
  for (; c + lanes <= channels; c += lanes) {
    Best b{hn::Set(d, -std::numeric_limits<float>::infinity()), hn::Set(of_place, first)};
    for (std::size_t i = 0; i < count; ++i) take(b, load(pixels[i] + c), hn::Set(of_place, places[i]));
    store(b.value, best + c);
    hn::StoreU(b.place, of_place, where + c);
  }
  for (; c < channels; ++c) {
    float most = -std::numeric_limits<float>::infinity();
    std::int32_t place = first;
    std::size_t from = count;
    for (std::size_t i = 0; i < count; ++i) {
      const float value = wide(pixels[i][c]);
      if (value > most || value != value) most = value, place = places[i], from = i;
    }
    where[c] = place;
    if (from < count)
      best[c] = pixels[from][c];
    else if constexpr (sizeof(T) == 4)
      best[c] = most;
    else
      best[c] = 0xff80;  // -∞
  }
}

void pool_pixels(const float* const* pixels, const std::int32_t* places, std::size_t count, std::size_t channels,
                 std::int32_t first, float* best, std::int32_t* where) {
  pixels_of(pixels, places, count, channels, first, best, where);
}
void pool_pixels_bf16(const std::uint16_t* const* pixels, const std::int32_t* places, std::size_t count,
                      std::size_t channels, std::int32_t first, std::uint16_t* best, std::int32_t* where) {
  pixels_of(pixels, places, count, channels, first, best, where);
}

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {

HWY_EXPORT(pool_row);
HWY_EXPORT(pool_pixels);
HWY_EXPORT(pool_pixels_bf16);

void max_pool_row(const PoolRow& row, const std::int32_t* first, float* best, std::int32_t* where) {
  HWY_DYNAMIC_DISPATCH(pool_row)(row, first, best, where);
}
void max_pool_pixels(const float* const* pixels, const std::int32_t* places, std::int64_t count, std::int64_t channels,
                     std::int32_t first, float* best, std::int32_t* where) {
  HWY_DYNAMIC_DISPATCH(pool_pixels)
  (pixels, places, static_cast<std::size_t>(count), static_cast<std::size_t>(channels), first, best, where);
}
void max_pool_pixels(const std::uint16_t* const* pixels, const std::int32_t* places, std::int64_t count,
                     std::int64_t channels, std::int32_t first, std::uint16_t* best, std::int32_t* where) {
  HWY_DYNAMIC_DISPATCH(pool_pixels_bf16)
  (pixels, places, static_cast<std::size_t>(count), static_cast<std::size_t>(channels), first, best, where);
}

}  // namespace etna::cpu
#endif
