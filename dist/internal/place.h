#pragma once

#include <string>

#include <etna/dist/dist.h>

namespace etna::distributed {

/// Where this process is among those of its group, as its launcher says.
struct Place {
  int rank = 0, size = 1;
  int local_rank = -1, local_size = -1;  ///< -1: to be counted by names of hosts
  std::string launcher = {};             ///< "mpirun", "srun", "torchrun", "environment"; empty: none
  std::string meet = {};                 ///< HOST:PORT or a path; empty: MPI tells
  bool mpi = false;                      ///< MPI knows this process
};

/// @param variable of the environment; null where it is not set @throws Error for numbers that make no sense
Place find_place(const Options& options, const char* (*variable)(const char* name));

}  // namespace etna::distributed
