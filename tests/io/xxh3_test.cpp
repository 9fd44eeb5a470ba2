#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <etna/tensor/io/internal/xxh3.h>

namespace etna::io {
namespace {

std::vector<std::byte> numbered_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  std::uint32_t x = 1;
  for (std::byte& b : bytes) b = static_cast<std::byte>((x = x * 1664525 + 1013904223) >> 24);
  return bytes;
}

std::uint64_t plain(const std::vector<std::byte>& bytes, std::size_t at_once) {
  PlainXxh3 hash;
  for (std::size_t i = 0; i < bytes.size(); i += at_once)
    hash.add(bytes.data() + i, std::min(at_once, bytes.size() - i));
  return hash.value();
}

TEST(Xxh3, GivesTheFormatsNumbers) {
  const std::pair<std::size_t, std::uint64_t> expected[] = {
      {0, 0x2d06800538d394c2},   {3, 0x32dbb5c7774cc94f},   {8, 0x90b760c9d253d0ff},   {16, 0x372c92fa68129c98},
      {100, 0x2d7c1fb25df2d1da}, {200, 0x85d691776ef97dbe}, {300, 0x85cda8a8f5619a09}, {1100, 0x3e15c0e5d4377650}};
  for (const auto& [count, value] : expected) EXPECT_EQ(plain(numbered_bytes(count), count + 1), value) << count;
}

// The library's numbers are those of the format; in a build without it both are Etna's own.
TEST(Xxh3, IsTheLibrarysForEveryLength) {
  for (std::size_t count = 0; count < 3000; count = count < 300 ? count + 1 : count + 61) {
    const auto bytes = numbered_bytes(count);
    Xxh3 hash;
    hash.add(bytes.data(), bytes.size());
    EXPECT_EQ(plain(bytes, count + 1), hash.value()) << count;
    EXPECT_EQ(plain(bytes, 7), hash.value()) << count;
  }
  for (const std::size_t count : {1024, 1025, 2048, 2049, 100000}) {
    const auto bytes = numbered_bytes(count);
    Xxh3 hash;
    hash.add(bytes.data(), bytes.size());
    EXPECT_EQ(plain(bytes, 1000), hash.value()) << count;
  }
}

}  // namespace
}  // namespace etna::io
