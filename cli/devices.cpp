#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <etna/device/memory.h>

#include "commands.h"
#include "output.h"

namespace etna::cli {

namespace {

/// An array with an object for each adapter.
int print_devices_as_json(Device chosen) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const AdapterInfo& a : adapters()) {
    nlohmann::ordered_json device = {{"device", a.device.str()}, {"name", a.name},     {"kind", a.kind},
                                     {"memory", a.memory_bytes}, {"driver", a.driver}, {"usable", a.rejected.empty()}};
    if (!a.rejected.empty()) device["rejected"] = a.rejected;
    device["chosen_by_auto"] = a.device == chosen;
    device["features"] = a.features;
    device["limits"] = a.limits;
    all.push_back(std::move(device));
  }
  print_all(all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  return 0;
}

/// Prints one line per adapter: what it is, whether it is usable, and which one `auto` takes.
int devices(bool json) {
  Device chosen = select_device("auto");
  if (json) return print_devices_as_json(chosen);
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows{{"device", "name", "kind", "memory", "driver", ""}};
  for (const AdapterInfo& a : adapters()) {
    rows.push_back({a.device.str(), a.name, a.kind, readable_bytes(a.memory_bytes), a.driver, verdict(a, chosen)});
  }
  std::array<std::size_t, 6> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  print_choice();
  return 0;
}

}  // namespace

Command add_devices(CLI::App& app) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "List every device, usable or not, and which one `auto` takes");
  command->add_flag("--json", *json, "print JSON: an array with an object for each device");
  return {command, [json] { return devices(*json); }};
}

}  // namespace etna::cli
