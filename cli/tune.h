#pragma once

#include <string>
#include <vector>

namespace etna::cli {

struct TuneOptions {
  std::string device;  ///< as select_device() takes it
  std::vector<std::string> dtypes = {"bf16", "f32"};
  bool quick = false;
};

/// Times every tiling of the gemms of usual layers on a device and keeps the fastest for later runs.
/// @throws DeviceError, FormatError where the table cannot be written
int tune(const TuneOptions& options);

}  // namespace etna::cli
