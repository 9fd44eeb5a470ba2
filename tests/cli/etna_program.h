#pragma once

#include <filesystem>
#include <string>

#include <runner/run_program.h>

namespace etna {

#ifdef ETNA_PROGRAM
/// Runs etna.
inline Result etna(const std::string& arguments, const std::string& environment = "") {
  return run_program(ETNA_PROGRAM, arguments, environment);
}
#endif

inline std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

}  // namespace etna
