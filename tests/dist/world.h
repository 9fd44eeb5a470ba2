#pragma once

#include <string>

#include <runner/run_program.h>

namespace etna {

/// Runs tests of dist_world in so many processes. @param options of mpirun
inline Result run_world(int ranks, const std::string& filter, const std::string& environment = "",
                        const std::string& options = "") {
  // mpirun refuses to run as root, and more processes than cores, unless it is told to.
  const std::string allowed = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ";
  return run_program("/usr/bin/env",
                     "mpirun --oversubscribe --bind-to none -n " + std::to_string(ranks) + " " + options +
                         " '" ETNA_WORLD "' --gtest_filter=" + filter,
                     "-u ETNA_MEET -u ETNA_DIST ETNA_THREADS=1 " + allowed + environment);
}

}  // namespace etna
