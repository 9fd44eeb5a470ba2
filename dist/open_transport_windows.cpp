#include <etna/dist/internal/open_transport.h>

namespace etna::distributed {

std::unique_ptr<Transport> open_mpi_transport(std::string& error) {
  error = "MPI is not used on Windows; WSL 2 has it";
  return nullptr;
}

}  // namespace etna::distributed
