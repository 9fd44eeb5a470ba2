#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>

#include <etna/device/memory.h>

#include "bench.h"
#include "commands.h"

namespace etna::cli {
namespace {

/// The named devices. Without names, all usable ones except software rasterizers, which take long and tell little.
std::vector<AdapterInfo> chosen(const std::vector<std::string>& names) {
  const std::vector<AdapterInfo> all = adapters();
  std::vector<AdapterInfo> some;
  for (const std::string& name : names) {
    const Device device = select_device(name);
    for (const AdapterInfo& a : all) {
      const bool known = std::any_of(some.begin(), some.end(), [&](const auto& s) { return s.device == device; });
      if (a.device == device && !known) some.push_back(a);
    }
  }
  if (!names.empty()) return some;
  for (const AdapterInfo& a : all) {
    if (!a.rejected.empty()) {
      fmt::print("{}: {} cannot be used: {}\n\n", a.device.str(), a.name, a.rejected);
    } else if (a.kind == "software") {
      fmt::print("{}: {} is a software rasterizer; --device {} measures it\n\n", a.device.str(), a.name,
                 a.device.str());
    } else {
      some.push_back(a);
    }
  }
  return some;
}

/// Writes beside the file and renames at the end, so that an existing file stays whole until there is a complete
/// replacement.
class JsonFile {
 public:
  /// @param path empty: write nothing @throws FormatError if the file could not be written
  explicit JsonFile(const std::string& path) : path_(path) {
    if (path.empty()) return;
    if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) fail("it is a directory");
    write("");
  }
  ~JsonFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(part(), ignored);
  }
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  void finish(const std::string& text) {
    if (path_.empty()) return;
    write(text);
    std::error_code error;
    std::filesystem::rename(part(), path_, error);
    if (error) fail(error.message());
  }

 private:
  std::string part() const { return path_ + ".part"; }
  [[noreturn]] void fail(const std::string& why) const {
    throw FormatError(fmt::format("{} cannot be written: {}", path_, why));
  }
  void write(const std::string& text) const {
    std::ofstream out(part());
    out << text << std::flush;
    if (!out) fail(std::strerror(errno));
  }

  std::string path_;
};

}  // namespace

int bench(const BenchOptions& options) {
  const std::vector<AdapterInfo> devices = chosen(options.devices);
  JsonFile file(options.json);
  // Strict: a matrix product that silently fell back to the CPU would say nothing about the device.
  set_strict(true);
  const Effort effort = options.quick ? Effort{.quick = true, .seconds = 0.002, .repeats = 3} : Effort{};
  std::vector<Sheet> sheets;
  bool failed = false;
  for (const AdapterInfo& adapter : devices) {
    Sheet& sheet = sheets.emplace_back(adapter, effort);
    if (adapter.device.is_cpu()) {
      bench_processor(sheet);
    } else {
      bench_dispatches(sheet);
      bench_replays(sheet);
      bench_memory(sheet);
    }
    bench_gemm(sheet);
    empty_cache(adapter.device);
    fmt::print("{}\n", table(sheet));
    std::fflush(stdout);
    failed = failed || sheet.failed();
  }
  fmt::print("{}", legend(sheets));
  file.finish(json(sheets));
  return failed ? 3 : 0;
}

}  // namespace etna::cli
