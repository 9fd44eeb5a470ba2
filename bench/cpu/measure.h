#pragma once

#include <map>
#include <string>

#include "../ceilings.h"

namespace bench {

/// Median seconds per call of `call`, run op by op: includes the host's cost of finding the kernel and memory.
/// @param spread if not null, receives (largest - smallest) / median
/// @param captured capture the call and time replays
double seconds_on_cpu(etna::Device device, const std::function<void()>& call, const Effort& effort, double* spread,
                      bool captured);

/// Seconds of the same gemm in other libraries, called directly, by library name; empty if they could not be run.
using PeerSeconds = std::map<std::string, double>;

/// Runs peer_products, the program beside this one (bench/peers/products.cpp), once for each gemm.
class Peers {
 public:
  explicit Peers(const Effort& effort);
  const PeerSeconds& of(const GemmSizes& gemm);

 private:
  Effort effort_;
  std::string program_;  ///< empty if it was not built
  std::map<GemmSizes, PeerSeconds> known_;
};

}  // namespace bench
