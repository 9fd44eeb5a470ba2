#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <etna/device/memory.h>

namespace etna::training {

/// The memory that training needs at the most, for one size of batch. Bytes.
struct MemoryForecast {
  std::int64_t batch = 0;
  BytesByUse by_use{};
  std::uint64_t available = 0;     ///< to the training, when the forecast was made
  std::int64_t largest_batch = 0;  ///< that should fit, with some room left to fragmentation

  std::uint64_t total() const;
  bool fits() const { return total() <= available; }
  /// "84.0 MiB: 50.0 MiB captured steps, 34.0 MiB weights; 12.1 GiB are free, enough for batches of 9,000"
  std::string str() const;
  /// Prints a line, and a warning with advice where it does not fit, by the names of a Recipe's settings.
  void print() const;
};

/// Measures what batches of at most 16 need and extrapolates: each use is a constant plus a multiple of the batch. If
/// that says that the batch itself fits well, it is measured, too, with half of it: kernels take other ways, with other
/// temporary memory, as sizes grow. Leaves the random state as it was; gives cached memory back to the system.
/// @param steps makes a model, its optimizer and a few training steps with batches of this size, and drops all of it
/// @throws OutOfMemory where not even a batch of 2 fits
///
///     auto forecast = training::forecast_memory(device, 64, [&](std::int64_t batch) {
///       Net net;
///       net.to(device);
///       optim::AdamW optimizer(net.parameters(), {});
///       for (int i = 0; i < 2; ++i) step(net, optimizer, batch);
///     });
MemoryForecast forecast_memory(Device device, std::int64_t batch, const std::function<void(std::int64_t batch)>& steps);

}  // namespace etna::training
