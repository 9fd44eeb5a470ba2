#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Where in the program an op was recorded, for the errors of DetectAnomaly.
namespace etna::autograd {

struct Origin {
  std::string scopes;         ///< names of the NameScopes around it, "encoder/layer 3"
  std::vector<void*> frames;  ///< return addresses, innermost first; empty where the platform has no such function
  std::uint64_t number = 0;   ///< how many ops this thread had recorded
};

/// @return where the caller is now
Origin origin_here();
/// Names the scopes, and the innermost functions outside the library as far as symbols tell.
std::string str(const Origin& origin);

}  // namespace etna::autograd
