#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <etna/nn/module.h>

namespace etna::nn {

class Reparametrization;

/// The hooks of one module, in the order in which they were registered.
struct Hooks {
  std::int64_t next = 0;
  std::map<std::int64_t, ForwardPreHook> before;
  std::map<std::int64_t, ForwardHook> after;
  std::map<std::int64_t, BackwardHook> backward;
  std::map<std::string, std::shared_ptr<Reparametrization>> reparametrized;  ///< by parameter
  bool empty() const { return before.empty() && after.empty() && backward.empty(); }
};

}  // namespace etna::nn
