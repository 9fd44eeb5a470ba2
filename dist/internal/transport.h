#pragma once

#include <cstddef>
#include <string>

/// Messages between the ranks of a group, from host memory to host memory: what the engine on the host needs of MPI, or
/// of a test. One thread uses it.
namespace etna::distributed {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;  ///< "Open MPI 4.1.4"

  /// Begin a message of `bytes` bytes, which are not to be touched before it is done. Two messages between the same
  /// ranks with the same tag arrive in the order in which they were begun.
  /// @return its number: 0, 1, ... since the last clear()
  virtual int send(int to, int tag, const void* at, std::size_t bytes) = 0;
  virtual int receive(int from, int tag, void* at, std::size_t bytes) = 0;
  /// Looks what has come. Does not wait. @return empty, or what the library says is wrong
  virtual std::string progress() = 0;
  virtual bool done(int message) const = 0;
  /// Forgets the messages, which are done.
  virtual void clear() = 0;
  /// Leaves the library in order; without it the destructor leaves it as it is, since others are gone.
  virtual void finish() = 0;
};

/// The function that the module libetna_mpi has.
inline constexpr const char* kOpenTransport = "etna_open_mpi_transport_1";
/// @param error set to a sentence where null is returned; static
using OpenTransport = Transport* (*)(const char** error);

}  // namespace etna::distributed
