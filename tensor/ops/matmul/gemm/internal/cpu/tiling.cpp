#include <etna/device/internal/rounding.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/tiling.h>

#include <algorithm>
#include <initializer_list>

namespace etna::cpu {
namespace {

// Costs in multiply-adds of f32; a core with AVX2 does about 35 per nanosecond.
constexpr double kPack = 16;             // per element of an operand
constexpr double kStore = 4;             // per element of c
constexpr double kTask = 50e3;           // per call: threads synchronize, the library allocates
constexpr double kSum = 16;              // per element of a partial sum: written, read, added
constexpr double kCombine = 150e3;       // a second pass over c
constexpr double kStraggler = 0.027;     // of a task, for each further thread: the slowest core decides
constexpr double kWorstStraggler = 0.5;  // of a task
constexpr double kWorthThreads = 400e3;  // smaller gemms run on one thread

constexpr std::int64_t kShallowest = 256;       // chunk of k
constexpr std::int64_t kMostPartial = 3 << 20;  // elements of partial sums

}  // namespace

Tiling choose_tiling(const Gemm& g, int threads) {
  const auto m = static_cast<double>(g.m), n = static_cast<double>(g.n);
  Tiling best{g.m, g.n, g.k, 1};
  if (threads <= 1 || m * n * static_cast<double>(g.k) < kWorthThreads) return best;
  const double straggler = std::min(kWorstStraggler, kStraggler * (threads - 1));
  double least = -1;
  auto consider = [&](std::int64_t down, std::int64_t across, std::int64_t splits) {
    Tiling tiling{std::min(g.m, round_up(ceil_div(g.m, down), 8)), std::min(g.n, round_up(ceil_div(g.n, across), 16)),
                  std::min(g.k, round_up(ceil_div(g.k, splits), 64)), 1};
    tiling.splits = ceil_div(g.k, tiling.depth);
    std::int64_t tasks = ceil_div(g.m, tiling.rows) * ceil_div(g.n, tiling.columns) * tiling.splits;
    const auto waves = static_cast<double>(ceil_div(tasks, threads)), rows = static_cast<double>(tiling.rows),
               columns = static_cast<double>(tiling.columns), depth = static_cast<double>(tiling.depth);
    double task = rows * columns * (depth + kStore) + kPack * depth * (rows + columns) + kTask;
    double time = (waves + straggler) * task;
    if (tiling.splits > 1) time += kCombine + kSum * static_cast<double>(tiling.splits) * m * n / threads;
    if (least >= 0 && time >= least) return;
    least = time;
    best = tiling;
  };
  for (std::int64_t splits : {1, 2, 4, 8, 16}) {
    if (splits > 1 && (g.k / splits < kShallowest || (splits - 1) * g.m * g.n > kMostPartial)) break;
    for (std::int64_t waves : {1, 2, 4}) {
      const std::int64_t parts = std::max<std::int64_t>(1, waves * threads / splits);
      for (std::int64_t down = 1; down <= std::min(parts, ceil_div(g.m, 8)); ++down) {
        consider(down, std::min(parts / down, ceil_div(g.n, 16)), splits);
      }
    }
  }
  return best;
}

}  // namespace etna::cpu
