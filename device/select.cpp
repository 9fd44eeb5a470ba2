#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/cpu/processor.h>
#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/vulkan/backend.h>

namespace etna {
namespace {

std::filesystem::path config_file() {
  const char* xdg = std::getenv("XDG_CONFIG_HOME");
  if (xdg && *xdg) return std::filesystem::path(xdg) / "etna" / "config.json";
  const char* home = std::getenv("HOME");
  return home && *home ? std::filesystem::path(home) / ".config" / "etna" / "config.json" : std::filesystem::path();
}

/// The config file's `device`, where there is such a file and it names one.
std::optional<std::string> configured_device() {
  std::filesystem::path file = config_file();
  std::ifstream in(file);
  if (file.empty() || !in) return std::nullopt;
  auto config = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true);
  if (!config.is_object()) {
    throw DeviceError(
        fmt::format("{} is not a JSON object; write {{\"device\": \"auto\"}} or remove it", file.string()));
  }
  auto device = config.find("device");
  if (device == config.end()) return std::nullopt;
  if (!device->is_string()) {
    throw DeviceError(fmt::format("{}: \"device\" is {}, not a string; write \"auto\", \"cpu\" or \"vulkan:0\"",
                                  file.string(), device->dump()));
  }
  return device->get<std::string>();
}

struct Request {
  std::string text;
  std::string source;  ///< "ETNA_DEVICE", or the config file; empty where the caller asked
};

Request resolve(std::string_view requested) {
  if (!requested.empty()) return {std::string(requested), ""};
  if (const char* value = std::getenv("ETNA_DEVICE"); value && *value) return {value, "ETNA_DEVICE"};
  if (auto configured = configured_device()) return {*configured, config_file().string()};
  return {"auto", ""};
}

Device choose_automatically() {
  for (const char* kind : {"discrete", "integrated"}) {
    for (const AdapterInfo& a : vulkan::adapters()) {
      if (a.kind == kind && a.rejected.empty()) return a.device;
    }
  }
  return kCPU;
}

/// What was found and what to try, behind "vulkan:1 was asked for, but ".
std::string absence(Device wanted) {
  const auto& found = vulkan::adapters();
  if (found.empty()) {
    bool loader = vulkan::why_no_adapters().find("no Vulkan loader") == std::string::npos;
    return fmt::format("{}: install {}a driver (mesa-vulkan-drivers, or your GPU vendor's), or use --device cpu",
                       vulkan::why_no_adapters(), loader ? "" : "libvulkan1 and ");
  }
  std::string list;
  for (const AdapterInfo& a : found) {
    list += fmt::format("{}{} {} ({}{}{})", list.empty() ? "" : ", ", a.device.str(), a.name, a.kind,
                        a.rejected.empty() ? "" : ", rejected: ", a.rejected);
  }
  std::string usable = "cpu";
  for (const AdapterInfo& a : found) {
    if (a.rejected.empty()) usable = fmt::format("{} or {}", a.device.str(), usable);
  }
  return fmt::format("{}; found: {}; try --device {}",
                     wanted.index < found.size() ? "it cannot be used" : "there is no such adapter", list, usable);
}

}  // namespace

std::vector<AdapterInfo> adapters() {
  std::vector<AdapterInfo> all = vulkan::adapters();
  AdapterInfo host;
  host.device = kCPU;
  host.name = cpu::model_name();
  host.kind = "cpu";
  host.memory_bytes = cpu::memory_bytes();
  host.features = cpu::features();
  host.limits = {fmt::format("{} threads", cpu::threads())};
  all.push_back(std::move(host));
  return all;
}

Device select_device(std::string_view requested) {
  Request request = resolve(requested);
  if (request.text == "auto") return choose_automatically();
  std::string from = request.source.empty() ? "" : fmt::format(" (by {})", request.source);
  Device device;
  try {
    device = Device::parse(request.text);
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("{}, or auto{}", error.what(), from));
  }
  if (device.is_cpu()) return device;
  const auto& found = vulkan::adapters();
  if (device.index < found.size() && found[device.index].rejected.empty()) return device;
  throw DeviceError(fmt::format("device {} was asked for{}, but {}", device.str(), from, absence(device)));
}

std::string device_line(std::string_view requested, Device selected) {
  std::string detected;
  for (const AdapterInfo& a : vulkan::adapters()) {
    detected += fmt::format("{} {}{}, ", a.device.str(), a.name, a.rejected.empty() ? "" : " (unusable)");
  }
  return fmt::format("device: requested={} detected=[{}cpu] selected={}", resolve(requested).text, detected,
                     selected.str());
}

std::string device_name(Device device) {
  if (device.is_cpu()) return cpu::model_name();
  const auto& found = vulkan::adapters();
  return device.index < found.size() ? found[device.index].name : device.str();
}

}  // namespace etna
