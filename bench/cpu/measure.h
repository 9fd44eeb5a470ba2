#pragma once

#include <map>
#include <string>

#include "../ceilings.h"

namespace bench {

/// Median seconds a call of `call`, op by op: what it costs the host to find its kernel and memory is part of it.
/// @param spread where not null gets (largest - smallest) / median
/// @param captured record the call and time replays
double seconds_on_cpu(etna::Device device, const std::function<void()>& call, const Effort& effort, double* spread,
                      bool captured);

/// Seconds of the same product by other libraries, called plainly, by their names; empty where they could not be asked.
using PeerSeconds = std::map<std::string, double>;

/// Asks peer_products, the program beside this one (bench/peers/products.cpp), once for each product.
class Peers {
 public:
  explicit Peers(const Effort& effort);
  const PeerSeconds& of(const GemmSizes& gemm);

 private:
  Effort effort_;
  std::string program_;  ///< empty where it was not built
  std::map<GemmSizes, PeerSeconds> known_;
};

}  // namespace bench
