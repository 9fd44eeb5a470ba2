#include <dlfcn.h>

#include <etna/device/internal/os/library.h>

namespace etna::os {

void* open_library(const std::string& name, std::string& error) {
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) error = ::dlerror();
  return library;
}

void* find_function(void* library, const char* name) { return ::dlsym(library, name); }

}  // namespace etna::os
