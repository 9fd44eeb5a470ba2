#include <etna/train/receipt.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/cpu/processor.h>
#include <etna/device/internal/device_request.h>
#include <etna/device/internal/os/clock.h>
#include <etna/device/internal/os/machine.h>
#include <etna/device/memory.h>
#include <etna/device/output_file.h>
#include <etna/train/internal/receipt_json.h>
#include <etna/train/internal/sha256.h>
#include <etna/train/runs.h>

namespace etna::training {
namespace {

std::string& commit_of_program() {
  static std::string commit = "unknown";
  return commit;
}

/// "discrete", "software", "cpu" …
std::string kind_of(Device device) {
  for (const AdapterInfo& adapter : adapters())
    if (adapter.device == device) return adapter.kind;
  return "";
}

ReceiptJson described(const AdapterInfo& adapter) {
  ReceiptJson json = {{"device", adapter.device.str()},
                      {"name", utf8(adapter.name)},
                      {"kind", adapter.kind},
                      {"driver", utf8(adapter.driver)},
                      {"api", ""},
                      {"memory_bytes", adapter.memory_bytes}};
  for (const std::string& limit : adapter.limits)
    if (limit.starts_with("Vulkan ")) json["api"] = limit;
  if (!adapter.rejected.empty()) json["rejected"] = utf8(adapter.rejected);
  return json;
}

ReceiptJson device_json(std::string_view requested, Device selected) {
  const DeviceRequest request = device_request(requested);
  ReceiptJson json = {{"requested", utf8(request.text)},
                      {"requested_by", utf8(!requested.empty()       ? "caller"
                                            : request.source.empty() ? "default"
                                                                     : request.source)},
                      {"detected", ReceiptJson::array()}};
  ReceiptJson chosen = {{"device", selected.str()}, {"name", utf8(device_name(selected))}};
  for (const AdapterInfo& adapter : adapters()) {
    json["detected"].push_back(described(adapter));
    if (adapter.device == selected) {
      chosen = json["detected"].back();
      chosen["software"] = adapter.kind == "software";
      chosen["features"] = adapter.features;
    }
  }
  json["selected"] = chosen;
  json["strict"] = strict();
  return json;
}

Transfers transfers_since(const Transfers& before) {
  const Transfers now = transfers();
  // After a reset_transfers() in between, only the count since then is known.
  const auto since = [](std::uint64_t after, std::uint64_t then) { return after >= then ? after - then : after; };
  return {.h2d_bytes = since(now.h2d_bytes, before.h2d_bytes),
          .h2d_calls = since(now.h2d_calls, before.h2d_calls),
          .d2h_bytes = since(now.d2h_bytes, before.d2h_bytes),
          .d2h_calls = since(now.d2h_calls, before.d2h_calls),
          .moved_tensors = since(now.moved_tensors, before.moved_tensors),
          .fallbacks = since(now.fallbacks, before.fallbacks)};
}

/// What shows that a file was changed.
struct FileState {
  std::string role;
  FilePath path;
  std::uintmax_t bytes = 0;
  std::filesystem::file_time_type time{};
  std::vector<ReceiptFile> hashed = {};  ///< by hash_now()
};

FileState state_of(const std::string& role, const FilePath& path) {
  FileState state{.role = role, .path = path};
  std::error_code none;
  state.bytes = std::filesystem::file_size(std::filesystem::path(path), none);
  state.time = std::filesystem::last_write_time(std::filesystem::path(path), none);
  return state;
}

ReceiptJson file_json(const ReceiptFile& file, bool changed) {
  ReceiptJson json = {
      {"role", file.role}, {"path", utf8(file.path.string())}, {"bytes", file.bytes}, {"sha256", file.sha256}};
  if (changed) json["changed_during_run"] = true;
  return json;
}

/// A count is written as one.
ReceiptJson number_json(double value) {
  constexpr double kLargestCount = 9007199254740992;  // 2^53
  if (!std::isfinite(value)) return nullptr;
  if (value == std::trunc(value) && std::abs(value) <= kLargestCount) return static_cast<std::int64_t>(value);
  return value;
}

double rounded_to_microseconds(double seconds) { return std::round(seconds * 1e6) / 1e6; }

}  // namespace

std::string program_commit() { return commit_of_program(); }
void set_program_commit(std::string_view commit) { commit_of_program() = commit; }

struct Receipt::State {
  explicit State(ReceiptProgram given) : program(std::move(given)) {}

  ReceiptProgram program;
  CountKernels counting;
  Transfers transfers_before = transfers();
  std::string begin = utc_time();
  double clock = os::steady_seconds();
  ReceiptJson device = device_json("cpu", kCPU);
  Device selected = kCPU;
  std::map<std::string, std::uint64_t> seeds;
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<FileState> files;
  std::vector<ReceiptFile> hashed;

  ReceiptMoment begin_of_all() const { return {{}, transfers_before, begin, clock}; }
};

Receipt::Receipt(ReceiptProgram program) {
  Sha256();  // a build without it is refused before the work, not after it
  state_ = Owned<State>(new State(std::move(program)));
}
Receipt::~Receipt() = default;

void Receipt::device(std::string_view requested, Device selected) {
  state_->device = device_json(requested, selected);
  state_->selected = selected;
  reset_peak_memory(selected);
}

void Receipt::seed(const std::string& name, std::uint64_t value) { state_->seeds[name] = value; }

void Receipt::number(const std::string& name, double value) {
  for (auto& [known, number] : state_->numbers) {
    if (known != name) continue;
    number = value;
    return;
  }
  state_->numbers.emplace_back(name, value);
}

void Receipt::file(const std::string& role, const FilePath& path) { state_->files.push_back(state_of(role, path)); }
void Receipt::file(ReceiptFile hashed) { state_->hashed.push_back(std::move(hashed)); }

void Receipt::hash_now() {
  for (FileState& file : state_->files)
    if (file.hashed.empty()) file.hashed = hash_files(file.role, file.path);
}

ReceiptMoment Receipt::moment() const {
  return {state_->counting.counts(), transfers(), utc_time(), os::steady_seconds()};
}

ReceiptPart Receipt::part_since(const ReceiptMoment& begin) const {
  const State& s = *state_;
  ReceiptPart part{.counts = difference(s.counting.counts(), begin.counts),
                   .transfers = transfers_since(begin.transfers),
                   .begin = begin.utc,
                   .end = utc_time()};
  part.seconds = os::steady_seconds() - begin.clock;
  part.memory = memory_stats(s.selected);
  part.process_peak_bytes = os::peak_resident_bytes();
  return part;
}

std::string Receipt::text() const {
  synchronize(state_->selected);
  ReceiptPart all = part_since(state_->begin_of_all());
  all.numbers = state_->numbers;
  all.seeds = state_->seeds;
  return text(all);
}

std::string Receipt::text(const ReceiptPart& part) const {
  const State& s = *state_;
  std::error_code none;
  ReceiptJson json;
  json[kSchemaKey] = kReceiptSchema;
  json["program"] = {{"name", s.program.name},
                     {"version", s.program.version},
                     {"commit", program_commit()},
                     {"compiler", __VERSION__}};
  json["command"] = ReceiptJson::array();
  for (const std::string& argument : s.program.command) json["command"].push_back(utf8(argument));
  json["directory"] = utf8(FilePath(std::filesystem::current_path(none)).string());
  for (const auto& [name, value] : part.request) json["request"][name] = utf8(value);
  json["time"] = {{"begin", part.begin}, {"end", part.end}, {"wall_seconds", rounded_to_microseconds(part.seconds)}};
  json["device"] = s.device;
  add_counts(json, part.counts, s.selected);
  const Transfers& moved = part.transfers;
  json["transfers"] = {{"host_to_device_bytes", moved.h2d_bytes},
                       {"host_to_device_calls", moved.h2d_calls},
                       {"device_to_host_bytes", moved.d2h_bytes},
                       {"device_to_host_calls", moved.d2h_calls},
                       {"moved_tensors", moved.moved_tensors}};
  json["memory"] = {{"process_peak_bytes", part.process_peak_bytes},
                    {"device_peak_bytes", part.memory.peak},
                    {"device_reserved_bytes", part.memory.reserved()}};
  json["numbers"] = ReceiptJson::object();
  for (const auto& [name, value] : part.numbers) json["numbers"][name] = number_json(value);
  json["seeds"] = ReceiptJson::object();
  for (const auto& [name, value] : part.seeds) json["seeds"][name] = value;
  json["files"] = ReceiptJson::array();
  for (const ReceiptFile& file : s.hashed) json["files"].push_back(file_json(file, false));
  for (const FileState& before : s.files) {
    const auto& others = part.other_files;
    if (std::find(others.begin(), others.end(), before.role) != others.end()) continue;
    const FileState now = state_of(before.role, before.path);
    const bool changed = now.bytes != before.bytes || now.time != before.time;
    const std::vector<ReceiptFile> files = before.hashed.empty() ? hash_files(before.role, before.path) : before.hashed;
    for (const ReceiptFile& file : files) json["files"].push_back(file_json(file, changed));
  }
  json["machine"] = this_machine();
  json[kHashKey] = content_hash_of(json);
  return pretty(json);
}

void Receipt::write(const FilePath& path) const { io::write_file(path, text()); }

const std::vector<std::string>& Receipt::marks() {
  static const std::vector<std::string> marks{fmt::format("\"{}\": \"{}\"", kSchemaKey, kReceiptSchema)};
  return marks;
}

std::unique_ptr<Receipt> begin_receipt(const FilePath& file, ReceiptProgram program, const std::vector<FilePath>& read,
                                       bool force) {
  if (file.empty()) return nullptr;
  io::require_output({"--receipt", file, Receipt::marks()}, force, read);
  return std::make_unique<Receipt>(std::move(program));
}

const char* compute_path(const KernelCounts& counts, Device selected) {
  return compute_path({.on_selected = counts.runs(selected),
                       .fallbacks = counts.runs(Detour::fallback),
                       .references = counts.runs(Detour::reference)},
                      kind_of(selected) == "software");
}

std::string json_text(const KernelCounts& counts, Device selected) {
  ReceiptJson json;
  add_counts(json, counts, selected);
  return json.dump();
}

}  // namespace etna::training
