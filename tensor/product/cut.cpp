#include <algorithm>

#include <etna/tensor/product/cut.h>

namespace etna::product {
namespace {

/// What a multiprocessor does with workgroups of a tile size. A multiprocessor multiplies 128 pairs a clock at best; the parts of
/// that and the clocks were fitted to 33 products on an H200, each cut in up to twelve ways. They meet the times within some 11 %,
/// and for 32 of the 33 they name the cut that was fastest; for 512 x 512 x 512 one that is 8 % slower.
struct Tile {
  std::int64_t edge;
  std::int64_t resident;  ///< workgroups that gain from running at once
  double alone, shared;   ///< part of the peak that one reaches, and that many reach together
  double start;           ///< clocks that pass before the first product and after the last
};
constexpr Tile kTiles[] = {{128, 2, 0.62, 0.79, 1140}, {64, 2, 0.49, 0.605, 770}, {32, 4, 0.305, 0.37, 810}};

constexpr double kBytesAClock = 13;   ///< of results, a multiprocessor
constexpr double kResultBytes = 8.5;  ///< that writing a result costs, in bytes of scratch written and read
constexpr double kSecondPass = 4100;  ///< clocks of a barrier and another dispatch
constexpr std::int64_t kMostSplits = 128, kShortest = 64, kMostPartials = std::int64_t{1} << 27;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double clocks(const Extent& e, std::int64_t units, const Tile& tile, std::int64_t splits) {
  std::int64_t groups = ceil_div(e.m, tile.edge) * ceil_div(e.n, tile.edge) * e.matrices * splits;
  double work = static_cast<double>(tile.edge * tile.edge) * static_cast<double>(ceil_div(e.k, splits)) / 128;
  // The first workgroups spread over all multiprocessors; later ones come in twos or fours, where others have ended together.
  std::int64_t waves = ceil_div(groups, units * tile.resident);
  std::int64_t together = std::min(tile.resident, ceil_div(groups, units));
  double others = static_cast<double>(together - 1) / static_cast<double>(tile.resident - 1);
  double rate = tile.alone + (tile.shared - tile.alone) * others;
  double time = static_cast<double>(waves) * (tile.start + static_cast<double>(together) * work / rate);
  double results = static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.matrices);
  double bytes = splits > 1 ? static_cast<double>(splits) * 8 : kResultBytes;
  return time + results * bytes / (kBytesAClock * static_cast<double>(units)) + (splits > 1 ? kSecondPass : 0);
}

}  // namespace

Cut choose_cut(const Extent& e, std::int64_t units) {
  Cut best;
  double least = -1;
  for (const Tile& tile : kTiles) {
    std::int64_t tiles = ceil_div(e.m, tile.edge) * ceil_div(e.n, tile.edge) * e.matrices;
    // Halves, quarters ... and what fills the multiprocessors once to four times.
    std::int64_t counts[12] = {1, 2, 4, 8, 16, 32, 64, kMostSplits};
    for (std::int64_t fill = 1; fill <= 4; ++fill) counts[7 + fill] = std::min(fill * units / tiles, kMostSplits);
    for (std::int64_t splits : counts) {
      bool allowed =
          splits == 1 || (splits > 1 && e.k / splits >= kShortest && e.m * e.n * e.matrices <= kMostPartials / splits);
      if (!allowed) continue;
      double estimate = clocks(e, units, tile, splits);
      if (least < 0 || estimate < least) best = {tile.edge, splits}, least = estimate;
    }
  }
  return best;
}

}  // namespace etna::product
