#pragma once

#include <filesystem>

namespace etna {

/// The folder that keeps what was measured or built for a device between runs: $ETNA_CACHE_DIR, $XDG_CACHE_HOME/etna or
/// ~/.cache/etna. Empty where none of them is known.
std::filesystem::path cache_folder();

}  // namespace etna
