#pragma once

#include <string>

#include <structure/source_tree.h>

namespace etna::structure {

/// Headers that are installed: for users' programs, by way of etna.h or one by one. Those in folders named internal/
/// are not (cmake/EtnaTarget.cmake).
inline bool is_public(const std::string& path) {
  if (path == "etna.h") return true;
  if (!path.ends_with(".h") || path.find("/internal/") != std::string::npos) return false;
  for (const char* folder :
       {"device/", "tensor/", "autograd/", "dist/", "nn/", "optim/", "data/", "models/", "train/"}) {
    if (path.starts_with(folder)) return true;
  }
  return false;
}

/// Public headers, and the tables that they include.
inline bool is_installed(const std::string& path) {
  return is_public(path) || path == "tables/elementwise.def" || path == "tables/activations.def";
}

/// The header that a program includes if it has Eigen itself; no other may include it.
inline bool needs_eigen(const std::string& path) { return path == "tensor/eigen.h"; }

}  // namespace etna::structure
