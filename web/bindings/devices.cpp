// Devices and their memory.
#include <etna/device/memory.h>
#include <etna/tensor/ops.h>

#include "call.h"

namespace etna::web {
namespace {

Json list_devices(const Json&) {
  Json list = Json::array();
  for (const AdapterInfo& adapter : adapters()) {
    list.push_back({{"name", adapter.device.str()},
                    {"product", adapter.name},
                    {"kind", adapter.kind},
                    {"driver", adapter.driver},
                    {"rejected", adapter.rejected},
                    {"features", adapter.features},
                    {"limits", adapter.limits}});
  }
  return {{"devices", list}};
}

Json wait_for(const Json& args) {
  synchronize(device_of(args));
  return Json::object();
}

Json memory(const Json& args) {
  const MemoryStats stats = memory_stats(device_of(args));
  return {{"in_use", stats.in_use}, {"cached", stats.cached}, {"peak", stats.peak}};
}

Json set_seed(const Json& args) {
  manual_seed(args.at("seed").get<std::uint64_t>());
  return Json::object();
}

}  // namespace

void add_device_methods(Methods& methods) {
  methods["devices"] = list_devices;
  methods["synchronize"] = wait_for;
  methods["memory"] = memory;
  methods["manual_seed"] = set_seed;
}

}  // namespace etna::web
