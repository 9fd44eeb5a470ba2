#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace etna::nn {

class Module;

/// What stays the same where a module moves, and what others may refer to while it lives.
struct ModuleIdentity {
  std::int64_t training = 1;
  Module* module = nullptr;
  bool registered = false;     ///< with another module
  bool moved = false;          ///< so that its members were constructed elsewhere
  bool checked = false;        ///< for members that are not registered
  std::uint64_t number = 0;    ///< of the modules of its thread, in the order of construction
  std::uint64_t all_made = 0;  ///< the last number when this module registered its first member; 0: none yet
  std::ptrdiff_t reach = 0;    ///< bytes from the module within which its members are
  std::vector<const Module*> awaited = {};  ///< submodules that were members where this module moved from
};

}  // namespace etna::nn
