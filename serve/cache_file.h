#pragma once

#include <cstdint>

#include <etna/serve/engine.h>

/// A served model's cached prefixes in its ServedModel::cache_file, so that a server that was started again need not
/// read its conversations again. A file is written whole or not at all: a killed server leaves the one before.
namespace etna::serve {

/// Reads the file where there is one. First removes what a killed server left half-written beside it.
/// @return blocks added
/// @throws FormatError for a damaged file and for one of another model; the cache is unchanged then
std::int64_t load_cache_file(const ServedModel& model);

/// Writes the file, also where the cache is empty. To be called while no generator works, or through Engine::run().
/// @return blocks written @throws FormatError; the file is unchanged then
std::int64_t save_cache_file(const ServedModel& model);

}  // namespace etna::serve
