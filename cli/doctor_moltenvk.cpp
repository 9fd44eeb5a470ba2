#include <cstddef>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <etna/device/error.h>
#include <etna/device/internal/moltenvk.h>
#include <etna/shaders/all.h>

#include "commands.h"

namespace etna::cli {

#ifdef ETNA_HAS_VULKAN
int doctor_moltenvk() {
  const MoltenVkReport report = moltenvk_report(shaders::all());
  std::size_t lost = 0;
  for (const auto& group : report.left_out) lost += group.kernels.size();
  fmt::print(
      "macOS by MoltenVK, as its sources and user guide tell ({} of 2025); nothing was run there\n"
      "  adapter   {}\n"
      "  kernels   {} of {} would run\n",
      kMoltenVkCommit,
      report.missing.empty() ? "has what the library needs, with an Apple chip and macOS 13 or newer"
                             : "lacks " + report.missing,
      report.kernels - lost, report.kernels);
  for (const auto& group : report.left_out)
    fmt::print("  without   {} for lack of {}: {}\n", group.kernels.size(), group.lacks,
               fmt::join(group.kernels, ", "));
  if (report.unbuilt > 0) fmt::print("  unknown   {} kernels that this build left out\n", report.unbuilt);
  fmt::print("  verdict   {}\n", !report.missing.empty() ? "cannot run"
                                 : lost == 0             ? "should run"
                                                         : "should run; other kernels or the CPU take their place");
  return report.missing.empty() ? 0 : 3;
}
#else
int doctor_moltenvk() { throw DeviceError("doctor --moltenvk: this build is without Vulkan, so it has no kernels"); }
#endif

}  // namespace etna::cli
