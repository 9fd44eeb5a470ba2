#pragma once

#include <string_view>

#include <etna/device/device.h>

namespace etna::distributed {

/// What select_local_device() gives the `rank`-th of `ranks` processes on this computer. @throws as that
Device local_device(std::string_view requested, int rank, int ranks);

}  // namespace etna::distributed
