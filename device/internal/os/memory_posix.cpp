#include <etna/device/internal/os/memory.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

namespace etna::os {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

/// Large blocks begin at a huge-page boundary, so that huge pages can cover them entirely: one page fault per 2 MiB
/// instead of per 4 KiB when a tensor is first touched, and fewer TLB misses after that.
std::byte* take_pages(std::size_t bytes, std::error_code& error) {
  const std::size_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* mapped = ::mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  error = mapped != MAP_FAILED ? std::error_code() : std::error_code(errno, std::system_category());
  if (error) return nullptr;
  auto* at = static_cast<std::byte*>(mapped);
  if (slack > 0) {
    const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(at) % kHugePage) % kHugePage;
    if (before > 0) ::munmap(at, before);
    at += before;
    // Sizes this large are multiples of 128 KiB, so the end is a page boundary.
    if (slack > before) ::munmap(at + bytes, slack - before);
#ifdef MADV_HUGEPAGE
    ::madvise(at, bytes, MADV_HUGEPAGE);
#endif
  }
  return at;
}

void return_pages(std::byte* at, std::size_t bytes) { ::munmap(at, bytes); }

std::uint64_t memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
}

std::uint64_t available_memory_bytes() {
  const std::uint64_t all = memory_bytes();
  std::uint64_t available = all;
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
  // A process may address less than the system has (WebAssembly).
  return all > 0 ? std::min(available, all) : available;
}

}  // namespace etna::os
