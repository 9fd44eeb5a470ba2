#pragma once

#include <filesystem>

namespace etna {

/// Where what was found out about a device is kept from run to run: $ETNA_CACHE_DIR, $XDG_CACHE_HOME/etna or
/// ~/.cache/etna; empty where none of them is known.
std::filesystem::path cache_folder();

}  // namespace etna
