#pragma once

#include <string>
#include <string_view>

namespace etna {

/// What select_device() was asked for, and by whom.
struct DeviceRequest {
  std::string text;
  std::string source;  ///< "ETNA_DEVICE", or the config file; empty if the caller asked, or nobody
};

/// The rule of select_device(): its argument, else $ETNA_DEVICE, else the config file, else `auto`.
DeviceRequest device_request(std::string_view requested);

}  // namespace etna
