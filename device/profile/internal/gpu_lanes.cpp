#include <etna/device/profile/internal/gpu_lanes.h>

#include <cstdint>
#include <limits>

namespace etna::profile {

std::vector<int> gpu_lanes(const GpuProfile& gpu) {
  std::vector<std::int64_t> free_from;
  std::vector<int> lanes;
  for (const GpuSpan& span : gpu.spans) {
    std::size_t lane = 0;
    while (lane < free_from.size() && free_from[lane] > span.begin) ++lane;
    if (lane == free_from.size()) free_from.push_back(std::numeric_limits<std::int64_t>::min());
    free_from[lane] = span.end;
    lanes.push_back(static_cast<int>(lane));
  }
  return lanes;
}

}  // namespace etna::profile
