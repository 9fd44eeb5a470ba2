#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace etna {

/// A kind of device. register_backend() (device/internal/backend.h) hands out further values.
enum class DeviceType : std::uint8_t { cpu, vulkan };

/// Where a tensor lives: the host (`cpu`) or one adapter of another backend (`vulkan:0`). A small value type.
struct Device {
  DeviceType type = DeviceType::cpu;
  std::uint8_t index = 0;

  constexpr Device() = default;
  constexpr Device(DeviceType t, int i = 0) : type(t), index(static_cast<std::uint8_t>(i)) {}

  /// Parses `cpu`, or a backend's name with or without a number: `vulkan` (= `vulkan:0`), `vulkan:N`. Does not check
  /// that the device exists; select_device() does.
  /// @throws DeviceError for any other text.
  static Device parse(std::string_view text);

  bool is_cpu() const { return type == DeviceType::cpu; }
  bool is_vulkan() const { return type == DeviceType::vulkan; }
  std::string str() const;

  friend constexpr auto operator<=>(const Device&, const Device&) = default;
};

/// "vulkan:0"
std::ostream& operator<<(std::ostream& out, Device device);

inline constexpr Device kCPU{};
inline constexpr Device kVulkan{DeviceType::vulkan, 0};

/// One candidate of select_device().
struct AdapterInfo {
  Device device;
  std::string name;                   ///< "NVIDIA H200"
  std::string kind;                   ///< discrete, integrated, virtual, software, cpu
  std::string driver;                 ///< driver name and version, empty for the CPU
  std::uint64_t memory_bytes = 0;     ///< largest device-local heap; host memory for the CPU
  std::string rejected;               ///< why it cannot be used; empty if usable
  std::vector<std::string> features;  ///< what kernels may use: float16, int8, int64, float64, cooperative_matrix ...
  std::vector<std::string> limits;    ///< "shared memory 48 KiB", "subgroup 32" ...
};

/// Every adapter found, usable or not: Vulkan's first, the CPU last. A missing loader or driver is not an error.
std::vector<AdapterInfo> adapters();

/// Chooses a device. `requested` takes precedence over $ETNA_DEVICE, then the config file (`device` in
/// $XDG_CONFIG_HOME/etna/config.json), then `auto`. `auto` prefers a discrete GPU, then an integrated one, then the
/// CPU; a software rasterizer only when named.
/// @throws DeviceError where a named device is missing: what was found, why each candidate was rejected, what to try.
Device select_device(std::string_view requested = {});

/// Chooses a device for work that must run where the user thinks it does: turns strict mode on, and takes a software
/// rasterizer only where it was named with its number ("vulkan:1"), not by the name of its kind ("vulkan").
/// @throws DeviceError as select_device()
Device select_device_strictly(std::string_view requested = {});

/// `device: requested=auto detected=[vulkan:0 NVIDIA H200, cpu] selected=vulkan:0`, the line that programs print at
/// startup.
std::string device_line(std::string_view requested, Device selected);

/// The device's product name: "NVIDIA H200", or the processor's model.
std::string device_name(Device device);

/// Waits until everything queued on the device has finished. Does nothing on the CPU.
/// @throws DeviceLost
void synchronize(Device device);

/// True under ETNA_STRICT=1 (or set_strict(true)): an op that would move a tensor or fall back to the CPU throws
/// instead.
bool strict();
void set_strict(bool on);

}  // namespace etna
