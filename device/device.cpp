#include <etna/device/device.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/internal/device_queue.h>
#include <etna/device/internal/device_request.h>
#include <etna/device/internal/os/folders.h>

namespace etna {
namespace {

constexpr int kMostDevices = 64;  ///< of one kind

std::atomic<bool>& strict_flag() {
  static std::atomic<bool> flag = [] {
    const char* value = std::getenv("ETNA_STRICT");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return flag;
}

std::filesystem::path config_file() {
  const std::filesystem::path all = os::user_folder(os::UserFolder::config);
  return all.empty() ? all : all / "etna" / "config.json";
}

/// The config file's `device`, if the file exists and names one.
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

/// All backends except the host's, in order.
std::vector<Backend*> accelerators() { return {backends().begin() + 1, backends().end()}; }

/// The best hardware GPU, or nullopt.
std::optional<Device> real_gpu() {
  for (const char* kind : {"discrete", "integrated"}) {
    for (Backend* b : accelerators()) {
      for (const AdapterInfo& a : b->adapters()) {
        if (a.kind == kind && a.rejected.empty()) return a.device;
      }
    }
  }
  return std::nullopt;
}

/// What was found instead of a GPU; continues the sentence "a GPU was asked for, but ".
std::string no_gpu() {
  std::string list;
  for (Backend* b : accelerators()) {
    for (const AdapterInfo& a : b->adapters()) {
      list += fmt::format("{}{} {} ({})", list.empty() ? "" : ", ", a.device.str(), a.name,
                          a.rejected.empty() ? a.kind : a.rejected);
    }
  }
  return fmt::format("there is none; found: {}; name one of these, or cpu", list.empty() ? "no adapter" : list);
}

/// What was found and what to try; continues the sentence "vulkan:1 was asked for, but ".
std::string absence(Device wanted) {
  Backend& of = backend(wanted);
  const auto& found = of.adapters();
  if (found.empty()) return fmt::format("{}: {}", of.why_no_adapters(), of.advice());
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

/// Under strict mode, devices for tests are errors. @param from " (by ETNA_DEVICE)"
void refuse_fake_in_strict_mode(Device device, std::string_view from) {
  if (!strict() || device.is_cpu() || backend(device).adapters()[device.index].kind != "fake") return;
  throw DeviceError(fmt::format(
      "device {} was asked for{}, but it is a fake device for tests, which computes on the CPU; strict mode refuses it",
      device.str(), from));
}

/// Names of devices that people bring from other programs.
struct ForeignName {
  std::string_view name;
  const char* devices;  ///< "NVIDIA's GPUs"; null: none that Etna computes on
};
constexpr ForeignName kForeignNames[] = {{"cuda", "NVIDIA's GPUs"}, {"nvidia", "NVIDIA's GPUs"},
                                         {"hip", "AMD's GPUs"},     {"rocm", "AMD's GPUs"},
                                         {"amd", "AMD's GPUs"},     {"xpu", "Intel's GPUs"},
                                         {"sycl", "Intel's GPUs"},  {"intel", "Intel's GPUs"},
                                         {"metal", "Apple's GPUs"}, {"mps", "Apple's GPUs"},
                                         {"opencl", "GPUs"},        {"directml", "GPUs"},
                                         {"dml", "GPUs"},           {"gpu", "GPUs"},
                                         {"npu", nullptr},          {"tpu", nullptr}};

/// What to write in place of "cuda:1", as an error; empty for words that nobody brings.
std::string advice_for_foreign(std::string_view text) {
  std::string word(text.substr(0, text.find(':')));
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto* known = std::find_if(std::begin(kForeignNames), std::end(kForeignNames),
                                   [&](const ForeignName& foreign) { return foreign.name == word; });
  if (known == std::end(kForeignNames)) return {};
  if (known->devices == nullptr)
    return fmt::format("device '{}': Etna computes on GPUs and on the CPU; write vulkan:0, cpu", text);
  int index = 0;
  if (const std::size_t colon = text.find(':'); colon != text.npos)
    std::from_chars(text.data() + colon + 1, text.data() + text.size(), index);
  if (index < 0 || index >= kMostDevices) index = 0;
  return fmt::format("device '{}': Etna reaches {} through Vulkan; write vulkan:{}", text, known->devices, index);
}

}  // namespace

DeviceRequest device_request(std::string_view requested) {
  if (!requested.empty()) return {std::string(requested), ""};
  if (const char* value = std::getenv("ETNA_DEVICE"); value && *value) return {value, "ETNA_DEVICE"};
  if (auto configured = configured_device()) return {*configured, config_file().string()};
  return {"auto", ""};
}

Device Device::parse(std::string_view text) {
  if (text == "cpu") return kCPU;
  std::string known = "cpu";
  for (std::size_t type = 1; type < backends().size(); ++type)
    known += fmt::format(", {0} or {0}:N", backends()[type]->name());
  for (std::size_t type = 1; type < backends().size(); ++type) {
    const std::string_view name = backends()[type]->name();
    if (!text.starts_with(name)) continue;
    const std::string_view rest = text.substr(name.size());
    if (rest.empty()) return {static_cast<DeviceType>(type), 0};
    if (rest[0] != ':') continue;
    int index = -1;
    const char* end = rest.data() + rest.size();
    auto [at, error] = std::from_chars(rest.data() + 1, end, index);
    if (error != std::errc{} || at != end) continue;
    if (index >= 0 && index < kMostDevices) return {static_cast<DeviceType>(type), index};
    throw DeviceError(fmt::format("device '{}' has a number outside 0 to {}; write {}", text, kMostDevices - 1, known));
  }
  if (const std::string advice = advice_for_foreign(text); !advice.empty()) throw DeviceError(advice);
  throw DeviceError(fmt::format("device '{}' is not a device's name; write {}", text, known));
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << device.str(); }
std::string Device::str() const { return is_cpu() ? "cpu" : fmt::format("{}:{}", backend(type).name(), index); }

std::vector<AdapterInfo> adapters() {
  std::vector<AdapterInfo> all;
  for (Backend* b : accelerators()) all.insert(all.end(), b->adapters().begin(), b->adapters().end());
  const auto& host = backend(kCPU).adapters();
  all.insert(all.end(), host.begin(), host.end());
  return all;
}

Device select_device(std::string_view requested) {
  DeviceRequest request = device_request(requested);
  if (request.text == "auto") return real_gpu().value_or(kCPU);
  std::string from = request.source.empty() ? "" : fmt::format(" (by {})", request.source);
  if (request.text == "gpu") {
    if (const std::optional<Device> gpu = real_gpu()) return *gpu;
    throw DeviceError(fmt::format("a GPU was asked for{}, but {}", from, no_gpu()));
  }
  Device device;
  try {
    device = Device::parse(request.text);
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("{}, gpu or auto{}", error.what(), from));
  }
  if (device.is_cpu()) return device;
  const auto& found = backend(device).adapters();
  if (device.index >= found.size() || !found[device.index].rejected.empty())
    throw DeviceError(fmt::format("device {} was asked for{}, but {}", device.str(), from, absence(device)));
  refuse_fake_in_strict_mode(device, from);
  return device;
}

Device select_device_strictly(std::string_view requested) {
  set_strict(true);
  const Device device = select_device(requested);
  const DeviceRequest request = device_request(requested);
  const auto& found = backend(device).adapters();
  if (device.is_cpu() || found[device.index].kind != "software" || request.text == device.str()) return device;
  throw DeviceError(fmt::format(
      "device {} was asked for{}, but it is {}, which computes on the CPU; strict mode takes that only as {}",
      request.text, request.source.empty() ? "" : fmt::format(" (by {})", request.source), found[device.index].name,
      device.str()));
}

std::string device_line(std::string_view requested, Device selected) {
  std::string detected;
  for (Backend* b : accelerators()) {
    for (const AdapterInfo& a : b->adapters()) {
      detected += fmt::format("{} {}{}, ", a.device.str(), a.name, a.rejected.empty() ? "" : " (unusable)");
    }
  }
  return fmt::format("device: requested={} detected=[{}cpu] selected={}", device_request(requested).text, detected,
                     selected.str());
}

std::string device_name(Device device) {
  const auto& found = backend(device).adapters();
  return device.index < found.size() ? found[device.index].name : device.str();
}

void synchronize(Device device) { DeviceQueue(device).synchronize(); }

bool strict() { return strict_flag().load(std::memory_order_relaxed); }
void set_strict(bool on) { strict_flag().store(on, std::memory_order_relaxed); }

}  // namespace etna
