#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "etna_program.h"

namespace etna {

inline std::string read(const std::filesystem::path& file) {
  std::stringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

inline std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "the river " + std::to_string(i) + " flows\n";
  return text;
}

inline Result prepare(const std::string& arguments) { return etna("data prepare " + arguments); }

}  // namespace etna
