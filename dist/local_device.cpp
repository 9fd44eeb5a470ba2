#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/device/device.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/group.h>
#include <etna/dist/internal/local_device.h>

namespace etna::distributed {

Device local_device(std::string_view requested, int rank, int ranks) {
  const Device chosen = select_device(requested);
  if (chosen.is_cpu()) return chosen;
  std::string_view asked = requested;
  if (const char* variable = std::getenv("ETNA_DEVICE"); asked.empty() && variable != nullptr) asked = variable;
  if (asked.find(':') != std::string_view::npos) return chosen;  // this very one, for every rank
  const std::vector<AdapterInfo> all = adapters();
  std::string kind;
  for (const AdapterInfo& one : all)
    if (one.device == chosen) kind = one.kind;
  std::vector<Device> equal;
  for (const AdapterInfo& one : all)
    if (one.device.type == chosen.type && one.kind == kind && one.rejected.empty()) equal.push_back(one.device);
  if (kind == "software") return chosen;
  if (static_cast<std::size_t>(ranks) > equal.size()) {
    throw DeviceError(
        fmt::format("{} processes run on this computer, which has {} GPU{} for them; start fewer, or name "
                    "the one that they share: --device {}",
                    ranks, equal.size(), equal.size() == 1 ? "" : "s", chosen.str()));
  }
  return equal[static_cast<std::size_t>(rank)];
}

Device select_local_device(std::string_view requested) {
  if (!is_distributed()) return select_device(requested);
  const Device device = local_device(requested, local_rank(), local_size());
  // Its engine begins here, so that groups of some ranks have one, too.
  if (!device.is_cpu()) require_group("select_local_device").engine_on(device);
  return device;
}

}  // namespace etna::distributed
