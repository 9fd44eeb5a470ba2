#include <etna/train/internal/receipt_json.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/cpu/processor.h>
#include <etna/device/internal/os/files.h>
#include <etna/device/internal/os/machine.h>
#include <etna/device/internal/os/memory.h>
#include <etna/device/internal/os/process.h>
#include <etna/train/internal/sha256.h>

namespace etna::training {
namespace {

ReceiptJson rows_of(const KernelCounts& counts, Detour detour) {
  ReceiptJson rows = ReceiptJson::array();
  for (const DetourCount& d : counts.detours) {
    if (d.detour == detour)
      rows.push_back({{"op", d.op}, {"device", d.device.str()}, {"eager", d.eager}, {"replayed", d.replayed}});
  }
  return rows;
}

}  // namespace

const char* compute_path(const ReceiptTotals& totals, bool software) {
  if (totals.fallbacks > 0) return "fallback";
  if (totals.references > 0) return "reference";
  if (totals.on_selected == 0) return "none";
  return software ? "software" : "real";
}

void add_counts(ReceiptJson& receipt, const KernelCounts& counts, Device selected) {
  std::uint64_t eager = 0, replayed = 0, launches = 0;
  ReceiptJson kernels = ReceiptJson::array();
  for (const KernelCount& k : counts.kernels) {
    eager += k.eager, replayed += k.replayed, launches += k.launches;
    kernels.push_back({{"device", k.device.str()},
                       {"kernel", utf8(k.kernel)},
                       {"op", utf8(k.op)},
                       {"path", k.path},
                       {"variant", k.variant},
                       {"eager", k.eager},
                       {"replayed", k.replayed},
                       {"launches", k.launches}});
  }
  receipt["compute_path"] = compute_path(counts, selected);
  receipt["totals"] = {{"eager", eager},
                       {"replayed", replayed},
                       {"launches", launches},
                       {"replays", counts.replays},
                       {"on_selected_device", counts.runs(selected)},
                       {"fallbacks", counts.runs(Detour::fallback)},
                       {"references", counts.runs(Detour::reference)},
                       {"composed", counts.runs(Detour::composed)}};
  receipt["kernels"] = std::move(kernels);
  receipt["fallbacks"] = rows_of(counts, Detour::fallback);
  receipt["references"] = rows_of(counts, Detour::reference);
  receipt["composed"] = rows_of(counts, Detour::composed);
}

ReceiptJson utf8(std::string_view text) {
  // What is no UTF-8 becomes U+FFFD.
  const std::string dumped = ReceiptJson(text).dump(-1, ' ', false, ReceiptJson::error_handler_t::replace);
  return ReceiptJson::parse(dumped);
}

std::string content_hash_of(ReceiptJson receipt) {
  receipt.erase(kHashKey);
  Sha256 hash;
  hash.add(receipt.dump());
  return hash.digits();
}

std::string pretty(const ReceiptJson& receipt) {
  std::string text = "{\n";
  for (const auto& [key, value] : receipt.items()) {
    text += fmt::format("{}  {}: ", text.size() > 2 ? ",\n" : "", ReceiptJson(key).dump());
    const bool rows = value.is_array() && !value.empty() && value.front().is_object();
    if (!rows) {
      std::string shown = value.is_object() ? value.dump(2) : value.dump();
      for (std::size_t at = shown.find('\n'); at != std::string::npos; at = shown.find('\n', at + 3))
        shown.insert(at + 1, "  ");
      text += shown;
      continue;
    }
    text += "[\n";
    for (std::size_t i = 0; i < value.size(); ++i)
      text += fmt::format("    {}{}\n", value[i].dump(), i + 1 < value.size() ? "," : "");
    text += "  ]";
  }
  return text + "\n}\n";
}

std::string hash_of_file(const FilePath& path, std::uint64_t& bytes) {
  std::error_code error;
  const os::FileInfo info = os::file_info(path, error);
  if (error) throw FormatError(fmt::format("{} cannot be read: {}", path.string(), error.message()));
  if (info.kind != os::FileKind::regular) throw FormatError(fmt::format("{} is not a file", path.string()));
  const os::File file(path, os::File::Open::read, error);
  if (error) throw FormatError(fmt::format("{} cannot be read: {}", path.string(), error.message()));
  Sha256 hash;
  std::vector<char> buffer(std::size_t{1} << 20);
  bytes = 0;
  while (const std::size_t got = file.read_at(bytes, buffer)) {
    hash.add({buffer.data(), got});
    bytes += got;
  }
  if (bytes < info.bytes)
    throw FormatError(fmt::format("{}: only {} of its {} bytes can be read", path.string(), bytes, info.bytes));
  return hash.digits();
}

std::vector<ReceiptFile> hash_files(const std::string& role, const FilePath& path) {
  namespace fs = std::filesystem;
  std::vector<fs::path> paths;
  std::error_code error;
  if (fs::is_directory(fs::path(path), error)) {
    for (fs::directory_iterator at(fs::path(path), error), end; !error && at != end; at.increment(error)) {
      std::error_code none;
      if (at->is_regular_file(none)) paths.push_back(at->path());
    }
    if (error) throw FormatError(fmt::format("{} cannot be read: {}", path.string(), error.message()));
    if (paths.empty()) throw FormatError(fmt::format("{} has no files", path.string()));
    std::sort(paths.begin(), paths.end());
  } else {
    paths.emplace_back(path);
  }
  std::vector<ReceiptFile> files;
  for (const fs::path& one : paths) {
    ReceiptFile& file = files.emplace_back(ReceiptFile{.role = role, .path = one});
    file.sha256 = hash_of_file(file.path, file.bytes);
  }
  return files;
}

ReceiptJson this_machine() {
  return {{"cpu", utf8(cpu::model_name())},      {"threads", cpu::threads()},
          {"instruction_sets", cpu::features()}, {"memory_bytes", cpu::memory_bytes()},
          {"system", utf8(os::system_name())},   {"kernel", utf8(os::kernel_name())},
          {"host", utf8(os::host_name())}};
}

}  // namespace etna::training
