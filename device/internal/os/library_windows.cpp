#include <windows.h>

#include <etna/device/internal/os/library.h>

namespace etna::os {

void* open_library(const std::string& name, std::string& error) {
  void* library = ::LoadLibraryA(name.c_str());
  if (library == nullptr) error = name + " cannot be loaded";
  return library;
}

void* find_function(void* library, const char* name) {
  return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(library), name));
}

}  // namespace etna::os
