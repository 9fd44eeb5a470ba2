#include <algorithm>

#include <etna/device/internal/rounding.h>
#include <etna/tensor/ops/matmul/gemm/internal/tiling.h>

namespace etna::gemm {
namespace {

/// The peak is 128 f32 multiplications per clock and multiprocessor. The fractions of it and the clocks were fitted to
/// 33 gemms on an H200, each in up to twelve tilings. The model's times are within about 11 %. For 32 of the 33 gemms
/// it picks the fastest tiling; for 512 x 512 x 512 it picks one that is 8 % slower.
constexpr Tile kPlain[] = {{128, 128, 2, 0.62 * 128, 0.79 * 128, 1140},
                           {64, 64, 2, 0.49 * 128, 0.605 * 128, 770},
                           {32, 32, 4, 0.305 * 128, 0.37 * 128, 810}};

constexpr double kBytesAClock = 13;   ///< result bytes per clock and multiprocessor
constexpr double kResultBytes = 8.5;  ///< cost of writing a result, in bytes of scratch written and read
constexpr double kSecondPass = 4100;  ///< clocks of a barrier and a second dispatch
constexpr std::int64_t kMostSplitK = 128, kShortest = 64, kMostPartials = std::int64_t{1} << 27;

}  // namespace

std::span<const Tile> plain_tiles() { return kPlain; }

double estimated_clocks(const Extent& e, std::int64_t units, const Tile& tile, std::int64_t split_k) {
  std::int64_t groups = ceil_div(e.m, tile.m) * ceil_div(e.n, tile.n) * e.matrices * split_k;
  double work = static_cast<double>(tile.m * tile.n) * static_cast<double>(ceil_div(e.k, split_k));
  // The first workgroups spread over all multiprocessors. Later ones start two or four at a time, where others finished
  // together.
  std::int64_t waves = ceil_div(groups, units * tile.resident);
  std::int64_t together = std::min(tile.resident, ceil_div(groups, units));
  double others = static_cast<double>(together - 1) / static_cast<double>(std::max<std::int64_t>(1, tile.resident - 1));
  double rate = tile.alone + (tile.shared - tile.alone) * others;
  double time = static_cast<double>(waves) * (tile.start + static_cast<double>(together) * work / rate);
  double results = static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.matrices);
  double bytes = split_k > 1 ? static_cast<double>(split_k) * 8 : kResultBytes;
  return time + results * bytes / (kBytesAClock * static_cast<double>(units)) + (split_k > 1 ? kSecondPass : 0);
}

Tiling choose_tiling(const Extent& e, std::int64_t units, std::span<const Tile> tiles) {
  Tiling best;
  double least = -1;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    std::int64_t groups = ceil_div(e.m, tiles[t].m) * ceil_div(e.n, tiles[t].n) * e.matrices;
    // Split-K by 2, 4 ..., and by the counts that fill the multiprocessors one to four times.
    std::int64_t counts[12] = {1, 2, 4, 8, 16, 32, 64, kMostSplitK};
    for (std::int64_t fill = 1; fill <= 4; ++fill) counts[7 + fill] = std::min(fill * units / groups, kMostSplitK);
    for (std::int64_t split_k : counts) {
      bool allowed = split_k == 1 ||
                     (split_k > 1 && e.k / split_k >= kShortest && e.m * e.n * e.matrices <= kMostPartials / split_k);
      if (!allowed) continue;
      double estimate = estimated_clocks(e, units, tiles[t], split_k);
      if (least < 0 || estimate < least) best = {t, split_k}, least = estimate;
    }
  }
  return best;
}

}  // namespace etna::gemm
