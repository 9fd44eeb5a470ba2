#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <etna/device/internal/os/process.h>

/// A temporary folder for one test, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> next{0};
    const std::filesystem::path all = std::filesystem::temp_directory_path();
    do {
      path_ = all / ("etna-test-" + std::to_string(etna::os::process_id()) + "-" + std::to_string(next++));
    } while (!std::filesystem::create_directory(path_));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};
