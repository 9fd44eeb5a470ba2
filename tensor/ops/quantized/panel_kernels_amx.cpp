#include <etna/tensor/ops/quantized/row_kernels_targets.h>

#ifdef ETNA_ROWS_BY_AMX

// GCC 12 takes the intrinsics' own undefined operands for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
// What a lambda of a wider target returns never crosses a call: it is always inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include <algorithm>
#include <cstring>
#include <string_view>

#include <cpuid.h>

#include <etna/device/os/process.h>
#include <etna/tensor/ops/quantized/panels_avx512.h>

// GCC's intrinsics take a stride as long, which has 32 bits on Windows and is no index there.
#if defined(_WIN32) && defined(__GNUC__) && !defined(__clang__)
#undef _tile_loadd
#undef _tile_stored
#define _tile_loadd(tile, from, stride)                \
  __asm__ volatile("tileloadd\t(%0,%1,1), %%tmm" #tile \
                   :                                   \
                   : "r"(static_cast<const void*>(from)), "r"(static_cast<std::int64_t>(stride)))
#define _tile_stored(tile, to, stride)                                                   \
  __asm__ volatile("tilestored\t%%tmm" #tile ", (%0,%1,1)"                               \
                   :                                                                     \
                   : "r"(static_cast<void*>(to)), "r"(static_cast<std::int64_t>(stride)) \
                   : "memory")
#endif

#define ETNA_AMX_TARGET \
  __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")))

// Many rows of x in codes of 8 bits by tiles (AMX-INT8). The panels of panels_avx512.h are tiles as they lie: words of
// four codes, sixteen rows of a weight beside each other. A scale lasts for 32 elements (16 in some formats), so a tile
// holds 32 bytes of a row instead of the 64 it could, and each product of tiles goes through memory to be scaled with
// AVX-512. Bound by that: some 5 instructions for 16 sums, where VNNI takes 8 more to make them.
namespace etna::quantized::amx {
namespace {

using namespace avx512;

/// Elements that share a scale: what one product of tiles takes.
template <typename F>
inline constexpr int kAtOnce = kSixteens<F> ? 16 : 32;

/// What a tile holds; see LDTILECFG.
struct TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// Tiles of the thread. 0 and 1: sixteen rows of x and the others. 2 and 3: sixteen rows of the weight each. 4 to 7:
/// sums of 0 · 2, 0 · 3, 1 · 2 and 1 · 3.
template <typename F>
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ETNA_AMX_TARGET ~Session() { _tile_release(); }

  /// @param rows of x that multiply_block() will be given
  ETNA_AMX_TARGET void begin(std::int64_t rows) {
    if (rows == rows_) return;
    rows_ = rows;
    TileConfig config;
    const auto set = [&](int tile, std::int64_t tile_rows, int bytes) {
      config.rows[tile] = static_cast<std::uint8_t>(std::clamp<std::int64_t>(tile_rows, 1, 16));
      config.row_bytes[tile] = static_cast<std::uint16_t>(bytes);
    };
    for (int half = 0; half < 2; ++half) {
      set(half, rows - 16 * half, kAtOnce<F>);
      set(2 + half, kAtOnce<F> / 4, 64);
      set(4 + 2 * half, rows - 16 * half, 64);
      set(5 + 2 * half, rows - 16 * half, 64);
    }
    // GCC's intrinsic says that it reads eight bytes.
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
  }

 private:
  std::int64_t rows_ = 0;
};

/// Products of elements `from` ... from + kAtOnce - 1 of a group. @param to [rows, 32]
template <typename F>
ETNA_AMX_TARGET ETNA_INLINE void multiply_tiles(const Packed& packed, int from, const RoundedGroup* x,
                                                std::int64_t rows, std::int32_t* to) {
  constexpr int kStep = kLanes * sizeof(std::int32_t);
  _tile_loadd(2, packed.halves[0].codes + 16 * from, 64);
  _tile_loadd(3, packed.halves[1].codes + 16 * from, 64);
  _tile_loadd(0, x[0].codes + from, sizeof(RoundedGroup));
  _tile_zero(4);
  _tile_zero(5);
  _tile_dpbsud(4, 0, 2);
  _tile_dpbsud(5, 0, 3);
  if (rows > 16) {
    _tile_loadd(1, x[16].codes + from, sizeof(RoundedGroup));
    _tile_zero(6);
    _tile_zero(7);
    _tile_dpbsud(6, 1, 2);
    _tile_dpbsud(7, 1, 3);
  }
  _tile_stored(4, to, kStep);
  _tile_stored(5, to + 16, kStep);
  if (rows <= 16) return;
  _tile_stored(6, to + 16 * kLanes, kStep);
  _tile_stored(7, to + 16 * kLanes + 16, kStep);
}

/// Adds the products of block c of a group with rows of x, of which there are at most 32. @param sums [rows, 32]
template <typename F>
ETNA_AMX_TARGET void multiply_block(const Packed& packed, int c, const RoundedGroup* x, std::int64_t rows,
                                    float* sums) {
  alignas(64) std::int32_t products[32 / kAtOnce<F>][32 * kLanes];
  // GCC's intrinsics do not say that they read memory.
  __asm__ volatile("" : : : "memory");
  for (int part = 0; part < 32 / kAtOnce<F>; ++part)
    multiply_tiles<F>(packed, 32 * c + 16 * part, x, rows, products[part]);
  __asm__ volatile("" : : : "memory");
  for (int half = 0; half < 2; ++half) {
    const Factors factors(packed.halves[half], c);
    for (std::int64_t m = 0; m < rows; ++m) {
      const std::int64_t at = kLanes * m + 16 * half;
      const __m512i low = _mm512_load_si512(products[0] + at);
      const __m512i high =
          kSixteens<F> ? _mm512_load_si512(products[32 / kAtOnce<F> - 1] + at) : _mm512_setzero_si512();
      factors.add<F>(low, high, x[m], c, sums + at);
    }
  }
}

#include <etna/tensor/ops/quantized/panel_kernels.inc>

}  // namespace

bool available() {
  static const bool found = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kXgetbv = 1u << 27, kTileAndInt8 = 3u << 24, kTileState = 3u << 17;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kXgetbv) == 0) return false;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTileAndInt8) != kTileAndInt8) return false;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a & kTileState) == kTileState && os::request_tile_registers();
  }();
  return found;
}

RowKernels kernels(std::string_view format) {
  RowKernels made = avx512::kernels(format);
  if (made.panel != nullptr) made.panel = find(format);
  return made;
}

}  // namespace etna::quantized::amx

#endif
