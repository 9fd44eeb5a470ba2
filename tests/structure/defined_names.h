#pragma once

#include <string>
#include <vector>

#include <structure/tokens.h>

namespace etna::structure {

/// A name that a source defines in a namespace, outside of classes.
struct DefinedName {
  enum class Kind { function, type, variable, alias };
  Kind kind = Kind::function;
  std::string full;       ///< "etna::cli::of_gguf"; unnamed namespaces have no part in it
  std::string signature;  ///< of a function, without the parameters' names; what an alias stands for
  bool internal = false;  ///< in an unnamed namespace, or static
};

/// What a source defines, and functions that it declares. Static members and specializations are left out.
std::vector<DefinedName> defined_names(const Tokens& tokens);

/// Whether two sources that define these can not be compiled as one.
bool clash(const DefinedName& a, const DefinedName& b);

}  // namespace etna::structure
