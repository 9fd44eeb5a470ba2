#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/internal/backend.h>

/// Devices for tests: named and limited like a GPU, with memory that the host allocates, computing by the CPU's
/// kernels. Strict mode refuses them, and `auto` never takes one.
namespace etna::fake {

struct Description {
  std::string name = "Fake device";
  std::uint64_t memory = std::uint64_t{1} << 30;        ///< bytes
  std::uint64_t most_at_once = ~std::uint64_t{0};       ///< bytes of one allocation from the system
  std::string rejected = {};                            ///< why the device cannot be used; empty: it can
  std::uint64_t lost_after = ~std::uint64_t{0};         ///< transfers, after which the device is lost
  std::vector<std::string> features = {}, limits = {};  ///< as AdapterInfo lists them
};

/// Reads $ETNA_FAKE_DEVICE: "1" is one device, else devices by semicolons, each settings by commas:
/// "name=Tiny GPU, memory=64MiB; name=Old GPU, rejected=no subgroups". An unknown setting is why a device is rejected.
std::vector<Description> parse(std::string_view text);

/// The devices of $ETNA_FAKE_DEVICE, or null.
std::unique_ptr<Backend> make_backend();

/// Adds a device for the rest of the process, from one thread and while no other asks for adapters.
/// @throws DeviceError where there are 64
Device add(Description description);

}  // namespace etna::fake
