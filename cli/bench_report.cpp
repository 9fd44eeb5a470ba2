#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench.h"
#include "output.h"

namespace etna::cli {
namespace {

/// Formats with four digits, or with as many as there are before the point.
std::string readable(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  if (value >= 10) return fmt::format("{:.2f}", value);
  return value >= 0.1 ? fmt::format("{:.3f}", value) : fmt::format("{:.2g}", value);
}

std::string trimmed(std::string line) {
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string table(const Sheet& sheet) {
  const AdapterInfo& a = sheet.adapter();
  std::string text =
      fmt::format("{}: {}{}\n", a.device.str(), a.name, a.driver.empty() ? "" : fmt::format(" ({})", a.driver));
  for (const std::string& condition : sheet.conditions()) text += fmt::format("  {}\n", condition);
  std::size_t label = 0, value = 0, unit = 0;
  for (const Figure& f : sheet.figures()) {
    label = std::max(label, f.label.size());
    value = std::max(value, f.value ? readable(*f.value).size() : 1);
    unit = std::max(unit, f.unit.size());
  }
  for (const Figure& f : sheet.figures()) {
    text += trimmed(fmt::format("  {:<{}}  {:>{}} {:<{}}  {}", f.label, label, f.value ? readable(*f.value) : "-",
                                value, f.unit, unit, f.note)) +
            "\n";
  }
  return text;
}

std::string legend(const std::vector<Sheet>& sheets) {
  std::vector<const Figure*> told;
  std::set<std::string> labels;
  std::size_t width = 0;
  for (const Sheet& sheet : sheets) {
    for (const Figure& f : sheet.figures()) {
      if (f.meaning.empty() || !labels.insert(f.label).second) continue;
      told.push_back(&f);
      width = std::max(width, f.label.size());
    }
  }
  std::string text = "Medians. What they mean:\n";
  for (const Figure* f : told) text += fmt::format("  {:<{}}  {}\n", f->label, width, f->meaning);
  return text;
}

std::string json(const std::vector<Sheet>& sheets) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const Sheet& sheet : sheets) {
    nlohmann::ordered_json figures = nlohmann::ordered_json::object();
    for (const Figure& f : sheet.figures()) {
      figures[f.key] = {{"label", f.label}, {"value", nullptr}, {"unit", f.unit}, {"note", f.note}};
      if (f.value) figures[f.key]["value"] = *f.value;
    }
    const AdapterInfo& a = sheet.adapter();
    devices.push_back({{"device", a.device.str()},
                       {"device_name", a.name},
                       {"kind", a.kind},
                       {"driver", a.driver},
                       {"conditions", sheet.conditions()},
                       {"figures", figures}});
  }
  return nlohmann::ordered_json{{kCommandKey, kDoctorBench}, {"devices", devices}}.dump(2) + "\n";
}

}  // namespace etna::cli
