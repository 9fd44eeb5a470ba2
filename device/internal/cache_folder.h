#pragma once

#include <filesystem>

namespace etna {

/// The folder that keeps what was measured or built for a device between runs: $ETNA_CACHE_DIR, or etna in the user's
/// cache folder (os::user_folder). Empty where neither is known.
std::filesystem::path cache_folder();

}  // namespace etna
