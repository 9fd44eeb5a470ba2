#include <fmt/core.h>
#include <fmt/ranges.h>

#include <etna/device/device.h>
#include <etna/device/memory.h>

#include "commands.h"

namespace etna::cli {

int doctor() {
  Device chosen = select_device("auto");
  bool all_right = true;
  for (const AdapterInfo& a : adapters()) {
    fmt::print("{}: {}\n", a.device.str(), a.name);
    fmt::print("  kind      {}\n", a.kind);
    if (!a.driver.empty()) fmt::print("  driver    {}\n", a.driver);
    fmt::print("  memory    {}\n", readable_bytes(a.memory_bytes));
    if (!a.features.empty()) fmt::print("  features  {}\n", fmt::join(a.features, ", "));
    if (!a.limits.empty()) fmt::print("  limits    {}\n", fmt::join(a.limits, ", "));
    if (a.rejected.empty()) {
      std::string line;
      const bool right = check_matmul(a.device, line);
      all_right = all_right && right;
      fmt::print("  matmul    {}\n", line);
      if (a.device.is_cpu() && right) {
        for (const std::string& kernels : product_kernels()) fmt::print("  products  {}\n", kernels);
      }
    }
    fmt::print("  verdict   {}\n\n", verdict(a, chosen));
  }
  print_choice();
  return all_right ? 0 : 3;
}

}  // namespace etna::cli
