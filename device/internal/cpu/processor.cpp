#include <etna/device/internal/cpu/processor.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <etna/device/internal/os/memory.h>
#include <etna/device/internal/os/process.h>

namespace etna::cpu {
namespace {

/// The flags of the first processor in /proc/cpuinfo.
std::string flags_line() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && (line.starts_with("flags") || line.starts_with("Features")))
      return line.substr(colon + 1);
  }
  return "";
}

}  // namespace

std::string model_name() {
  std::string name = os::processor_name();
  return name.empty() ? "CPU" : name;
}

std::uint64_t memory_bytes() { return os::memory_bytes(); }

std::uint64_t available_bytes() { return os::available_memory_bytes(); }

unsigned threads() { return std::max(1u, std::thread::hardware_concurrency()); }

std::vector<std::string> features() {
  std::istringstream in(flags_line());
  std::vector<std::string> flags{std::istream_iterator<std::string>(in), {}}, found;
  for (const char* name : {"avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_bf16",
                           "asimd", "asimdhp", "sve", "bf16"}) {
    if (std::find(flags.begin(), flags.end(), name) != flags.end()) found.push_back(name);
  }
  return found;
}

}  // namespace etna::cpu
