#include <etna/device/internal/os/machine.h>

#include <windows.h>
// Must come after windows.h.
#include <psapi.h>

namespace etna::os {
namespace {

std::string windows_fact(const char* name) {
  char text[256] = {};
  DWORD room = sizeof text;
  const LSTATUS status = ::RegGetValueA(HKEY_LOCAL_MACHINE, R"(SOFTWARE\Microsoft\Windows NT\CurrentVersion)", name,
                                        RRF_RT_REG_SZ, nullptr, text, &room);
  return status == ERROR_SUCCESS ? text : "";
}

}  // namespace

std::string system_name() { return windows_fact("ProductName"); }

std::string kernel_name() {
  const std::string build = windows_fact("CurrentBuildNumber");
  return build.empty() ? "" : "Windows NT build " + build;
}

std::uint64_t peak_resident_bytes() {
  PROCESS_MEMORY_COUNTERS counters{};
  counters.cb = sizeof counters;
  return ::K32GetProcessMemoryInfo(::GetCurrentProcess(), &counters, sizeof counters) ? counters.PeakWorkingSetSize : 0;
}

}  // namespace etna::os
