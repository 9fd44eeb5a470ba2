#include <algorithm>
#include <array>
#include <vector>

#include <fmt/core.h>

#include <etna/device/memory.h>

#include "commands.h"

namespace etna::cli {

namespace {

/// Prints one line per adapter: what it is, whether it is usable, and which one `auto` takes.
int devices() {
  Device chosen = select_device("auto");
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
  return {app.add_subcommand("devices", "List every device, usable or not, and which one `auto` takes"), devices};
}

}  // namespace etna::cli
