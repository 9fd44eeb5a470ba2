#include <etna/device/internal/os/machine.h>

#include <fstream>
#include <string_view>

#include <sys/resource.h>
#include <sys/utsname.h>

namespace etna::os {

std::string system_name() {
  std::ifstream in("/etc/os-release");
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    std::string name = line.substr(kKey.size());
    if (name.size() >= 2 && name.front() == '"' && name.back() == '"') name = name.substr(1, name.size() - 2);
    return name;
  }
  struct utsname system {};
  return ::uname(&system) == 0 ? system.sysname : "";
}

std::string kernel_name() {
  struct utsname system {};
  if (::uname(&system) != 0) return "";
  return std::string(system.sysname) + " " + system.release + " " + system.machine;
}

std::uint64_t peak_resident_bytes() {
  struct rusage used {};
  if (::getrusage(RUSAGE_SELF, &used) != 0) return 0;
#ifdef __APPLE__
  return static_cast<std::uint64_t>(used.ru_maxrss);
#else
  return static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
#endif
}

}  // namespace etna::os
