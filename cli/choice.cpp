#include <fmt/core.h>

#include <etna/device/error.h>
#include <etna/device/internal/backend.h>

#include "commands.h"

namespace etna::cli {

std::string verdict(const AdapterInfo& adapter, Device chosen) {
  if (!adapter.rejected.empty()) return "cannot be used: " + adapter.rejected;
  if (adapter.device == chosen) return "chosen by auto";
  if (adapter.kind == "software") return "usable when named; auto leaves software rasterizers out";
  if (adapter.kind == "fake") return "for tests (ETNA_FAKE_DEVICE): computes on the CPU, usable when named";
  if (adapter.kind == "virtual") return "usable when named; auto leaves virtual GPUs out";
  return fmt::format("usable when named; auto prefers {}", chosen.str());
}

void print_choice() {
  Device automatic = select_device("auto");
  fmt::print("auto takes {} ({})\n", automatic.str(), device_name(automatic));
  Backend& vulkan = backend(DeviceType::vulkan);
  if (vulkan.adapters().empty()) fmt::print("no GPU: {}; {}\n", vulkan.why_no_adapters(), vulkan.advice());
  // ETNA_DEVICE or the config file may choose another device, or name a missing one.
  Device here = select_device();
  if (here != automatic)
    fmt::print("without --device, {} is taken here (ETNA_DEVICE or the config file)\n", here.str());
}

}  // namespace etna::cli
