#pragma once

#include <map>
#include <set>
#include <string>

namespace etna::structure {

/// What the public headers declare.
struct PublicNames {
  /// Functions and types outside classes, by their last word: {"relu", {"etna::relu"}}.
  std::map<std::string, std::set<std::string>> free;
  /// Methods of Tensor.
  std::set<std::string> methods;
};

/// Reads what etna.h includes of this library.
PublicNames public_names();

}  // namespace etna::structure
