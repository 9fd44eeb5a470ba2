#include <etna/device/cpu/processor.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>

namespace etna::cpu {
namespace {

/// The value of the first line of /proc/cpuinfo that begins with one of the keys.
std::string cpuinfo(std::initializer_list<const char*> keys) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    std::size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    for (std::string key : keys) {
      if (line.compare(0, key.size(), key) == 0) return line.substr(colon + 2);
    }
  }
  return {};
}

}  // namespace

std::string model_name() {
  std::string name = cpuinfo({"model name", "Model"});
  return name.empty() ? "CPU" : name;
}

std::uint64_t memory_bytes() {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
}

std::uint64_t available_bytes() {
  std::uint64_t available = memory_bytes();
  if (std::ifstream in("/proc/meminfo"); in) {
    for (std::string line; std::getline(in, line);) {
      constexpr std::string_view kName = "MemAvailable:";
      if (line.starts_with(kName)) available = std::strtoull(line.c_str() + kName.size(), nullptr, 10) * 1024;
    }
  }
  // In a container; "max" where there is no limit.
  std::uint64_t limit = 0, used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit && std::ifstream("/sys/fs/cgroup/memory.current") >> used)
    available = std::min(available, limit - std::min(limit, used));
  return available;
}

unsigned threads() { return std::max(1u, std::thread::hardware_concurrency()); }

std::vector<std::string> features() {
  std::istringstream in(cpuinfo({"flags", "Features"}));
  std::vector<std::string> flags{std::istream_iterator<std::string>(in), {}}, found;
  for (const char* name : {"avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_bf16",
                           "asimd", "asimdhp", "sve", "bf16"}) {
    if (std::find(flags.begin(), flags.end(), name) != flags.end()) found.push_back(name);
  }
  return found;
}

}  // namespace etna::cpu
