#pragma once

#include <memory>
#include <string>

#include <etna/dist/internal/transport.h>

namespace etna::distributed {

/// Loads libetna_mpi, which lies beside libetna, and joins MPI's processes. @return null, and a sentence in `error`
std::unique_ptr<Transport> open_mpi_transport(std::string& error);

}  // namespace etna::distributed
