#pragma once

#include <spdlog/logger.h>

namespace etna {

/// The library's warnings go to standard error, so that programs may print data. $ETNA_LOG sets the level (warn, info,
/// off ...).
spdlog::logger& log();

}  // namespace etna
