#pragma once

#include <spdlog/logger.h>

namespace etna {

/// Warnings of the library: to standard error, so that programs may print data; level by $ETNA_LOG (warn, info, off
/// ...).
spdlog::logger& log();

}  // namespace etna
