#pragma once

// What the tests use of POSIX's environment, by the functions of Windows' C library. Included before every test source
// of a build for Windows.
#include <stdlib.h>

inline int setenv(const char* name, const char* value, int overwrite) {
  return overwrite != 0 || getenv(name) == nullptr ? _putenv_s(name, value) : 0;
}
inline int unsetenv(const char* name) { return _putenv_s(name, ""); }
