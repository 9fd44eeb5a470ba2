#pragma once

#include <string>

namespace etna::os {

/// A library that is loaded at run time and stays loaded. Null, and the reason in `error`, where that fails.
void* open_library(const std::string& name, std::string& error);
/// Null where the library has no such function.
void* find_function(void* library, const char* name);

}  // namespace etna::os
