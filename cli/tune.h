#pragma once

#include <string>
#include <vector>

namespace etna::cli {

struct TuneOptions {
  std::string device;  ///< in the form select_device() takes
  std::vector<std::string> dtypes = {"bf16", "f32"};
  bool quick = false;
};

/// Times every tiling on the gemms of common layers and stores the fastest for later runs.
/// @throws DeviceError, FormatError if the table cannot be written
int tune(const TuneOptions& options);

}  // namespace etna::cli
