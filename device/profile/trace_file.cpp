#include <etna/device/profile/trace_file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/profile/chrome_trace.h>
#include <etna/device/profile/trace_picture.h>

namespace etna::profile {
namespace {

namespace fs = std::filesystem;

fs::path part_of(const std::string& path) { return path + ".part"; }

void write_part(const std::string& path, const std::string& text) {
  const fs::path part = part_of(path);
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  if (out) return;
  const std::string why = std::strerror(errno);
  out.close();
  std::error_code ignored;
  fs::remove(part, ignored);
  throw FormatError(fmt::format("the trace {} cannot be written: {}", path, why));
}

}  // namespace

void require_trace_writable(const std::string& path) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) {
    throw FormatError(fmt::format("the trace '{}' cannot be written: name a file", path));
  }
  write_part(path, "");
  fs::remove(part_of(path), error);
}

void write_trace(const Profile& profile, const std::string& path) {
  write_part(path, path.ends_with(".svg") ? trace_picture(profile) : chrome_trace(profile));
  std::error_code error;
  fs::rename(part_of(path), path, error);
  if (!error) return;
  const std::string why = error.message();
  fs::remove(part_of(path), error);
  throw FormatError(fmt::format("the trace {} cannot be replaced: {}", path, why));
}

}  // namespace etna::profile
