#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include <etna/device/error.h>

#include "data/temporary_folder.h"

namespace etna {

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::size_t files_in(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

/// Reads damaged versions of a file: about a hundred that are cut short, and as many with one to four random bytes;
/// ETNA_DAMAGE=N makes N times as many of both. Whatever happens must be a FormatError that names the file, or a file
/// that can be read.
inline void expect_safe_on_damage(const std::string& whole,
                                  const std::function<void(const std::filesystem::path&)>& read) {
  const char* more = std::getenv("ETNA_DAMAGE");
  const std::size_t times = 100 * (more == nullptr ? 1 : std::stoul(more));
  const TemporaryFolder folder;
  int refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    const std::filesystem::path path = folder.write("damaged", bytes);
    try {
      read(path);
    } catch (const FormatError& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  };
  const std::size_t step = whole.size() / times + 1;
  for (std::size_t length = 0; length < whole.size(); length += step) attempt(whole.substr(0, length));
  EXPECT_GT(refused, 0);
  std::mt19937 random(7);
  for (std::size_t i = 0; i < times; ++i) {
    std::string bytes = whole;
    for (unsigned n = random() % 4 + 1; n > 0; --n) bytes[random() % bytes.size()] = static_cast<char>(random());
    attempt(bytes);
  }
}

}  // namespace etna
