#include <etna/device/internal/cache_file.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include <etna/device/internal/os/process.h>

namespace etna {
namespace {

namespace fs = std::filesystem;

struct Header {
  CacheMagic magic;
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
};

}  // namespace

std::uint64_t cache_sum(std::span<const char> bytes, std::uint64_t seed) {
  for (char c : bytes) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return seed;
}

std::vector<char> read_cache_file(const fs::path& file, const CacheMagic& magic) {
  std::ifstream in(file, std::ios::binary);
  Header header;
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return {};
  std::vector<char> data{std::istreambuf_iterator<char>(in), {}};
  const Header expected{magic, data.size(), cache_sum(data)};
  if (std::memcmp(&header, &expected, sizeof header) != 0) return {};
  return data;
}

void write_cache_file(const fs::path& file, const CacheMagic& magic, std::span<const char> bytes) {
  static std::atomic<std::uint32_t> counter{0};
  const Header header{magic, bytes.size(), cache_sum(bytes)};
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  fs::path temporary = file;
  temporary += fmt::format(".{}-{}", os::process_id(), counter++);
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) {
      out.close();
      fs::remove(temporary, ignored);
      return;
    }
  }
  fs::rename(temporary, file, ignored);
  if (ignored) fs::remove(temporary, ignored);
}

}  // namespace etna
