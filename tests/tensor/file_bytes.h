#pragma once

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

/// Reads damaged versions of a file: cut short everywhere (every `step` bytes), then with `flips` versions of one to
/// four random bytes. Whatever happens must be a FormatError that names the file, or a file that can be read.
inline void expect_safe_on_damage(const std::string& whole,
                                  const std::function<void(const std::filesystem::path&)>& read, int flips = 2000,
                                  std::size_t step = 1) {
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
  for (std::size_t length = 0; length < whole.size(); length += step) attempt(whole.substr(0, length));
  EXPECT_GT(refused, 0);
  std::mt19937 random(7);
  for (int i = 0; i < flips; ++i) {
    std::string bytes = whole;
    for (unsigned n = random() % 4 + 1; n > 0; --n) bytes[random() % bytes.size()] = static_cast<char>(random());
    attempt(bytes);
  }
}

}  // namespace etna
