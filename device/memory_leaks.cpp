#include <etna/device/memory_control.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/device_queue.h>
#include <etna/device/internal/leak_notes.h>

namespace etna {
namespace {

constexpr std::int64_t kSettledSteps = 8;                       ///< what lives longer is no queue of a data loader
constexpr std::int64_t kEveryStepUntil = 64, kLaterEvery = 16;  ///< which steps' leaks are kept for the end

std::atomic<std::int64_t> ended = 0;

struct Note {
  Device device;
  std::string op = "allocate";
  std::string tensor;
  std::uint64_t bytes = 0;
  std::int64_t step = 0;
  MemoryUse use = MemoryUse::activations;
  bool has_memory = true;
};

/// Never destroyed: storages in static objects may outlive any order we could choose.
struct Notes {
  using Group = std::tuple<Device, std::string, std::string>;  ///< device, op, tensor
  struct Seen {
    std::int64_t first_step = 0;
    std::uint64_t count = 0;
  };
  std::mutex mutex;
  std::unordered_map<const void*, Note> live;
  std::int64_t steps = 0;
  std::map<Group, Seen> settled;  ///< groups when their oldest storage was first found old
  std::vector<Leak> most;         ///< of the step where leaks had the most bytes
  std::int64_t most_at = 0;
};
Notes& notes() {
  static auto* made = new Notes;
  return *made;
}

std::uint64_t bytes_of(const std::vector<Leak>& list) {
  std::uint64_t sum = 0;
  for (const Leak& leak : list) sum += leak.bytes;
  return sum;
}

/// Groups that have grown since their oldest storage was old. In a queue of batches the oldest is another each time.
std::vector<Leak> growing(Notes& all) {
  std::map<std::tuple<Device, std::string_view, std::string_view>, Leak> groups;
  for (const auto& [storage, note] : all.live) {
    if (!note.has_memory || note.use != MemoryUse::activations || note.step == 0 || note.step >= all.steps) continue;
    Leak& leak = groups[{note.device, note.op, note.tensor}];
    if (leak.count == 0) leak = {note.device, note.op, note.tensor, 0, 0, note.step, note.step};
    ++leak.count;
    leak.bytes += note.bytes;
    leak.first_step = std::min(leak.first_step, note.step);
    leak.last_step = std::max(leak.last_step, note.step);
  }
  std::vector<Leak> found;
  for (auto& [key, leak] : groups) {
    if (all.steps - leak.first_step < kSettledSteps) continue;
    Notes::Seen& seen = all.settled[{leak.device, leak.op, leak.tensor}];
    if (seen.first_step != leak.first_step) seen = {leak.first_step, leak.count};
    if (leak.count > seen.count) found.push_back(std::move(leak));
  }
  std::stable_sort(found.begin(), found.end(), [](const Leak& a, const Leak& b) { return a.bytes > b.bytes; });
  return found;
}

void keep_if_most(Notes& all) {
  std::vector<Leak> now = growing(all);
  if (bytes_of(now) <= bytes_of(all.most)) return;
  all.most = std::move(now);
  all.most_at = all.steps;
}

void report_at_exit() {
  if (leak_notes::watching()) std::fputs(leaks_report().c_str(), stderr);
}

/// $ETNA_LEAKS, before the first storage is made.
[[maybe_unused]] const bool kWatchesFromTheStart = [] {
  const char* text = std::getenv("ETNA_LEAKS");
  if (text == nullptr || std::string_view(text) != "1") return false;
  watch_leaks(true);
  static_cast<void>(std::atexit(report_at_exit));
  return true;
}();

}  // namespace

std::atomic<bool> leak_notes::on = false;

void leak_notes::made(const Storage& storage, MemoryUse use, bool has_memory) {
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  Note note;
  note.device = storage.device();
  note.tensor = readable_bytes(storage.bytes());
  note.bytes = storage.bytes();
  note.step = all.steps;
  note.use = use;
  note.has_memory = has_memory;
  all.live.insert_or_assign(&storage, std::move(note));
}

void leak_notes::took_memory(const Storage& storage) {
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  if (const auto found = all.live.find(&storage); found != all.live.end()) found->second.has_memory = true;
}

void leak_notes::changed_use(const Storage& storage, MemoryUse use) {
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  if (const auto found = all.live.find(&storage); found != all.live.end()) found->second.use = use;
}

void leak_notes::gone(const Storage& storage) {
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  all.live.erase(&storage);
}

void detail::note_tensor(const void* storage, const char* op, std::string tensor) {
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  const auto found = all.live.find(storage);
  if (found == all.live.end()) return;
  found->second.op = op;
  found->second.tensor = std::move(tensor);
}

bool watching_leaks() { return leak_notes::watching(); }

void watch_leaks(bool on) {
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  leak_notes::on.store(on);
  if (on) return;
  all.live.clear();
  all.settled.clear();
  all.most.clear();
  all.steps = all.most_at = 0;
}

std::int64_t detail::steps_ended() { return ended.load(std::memory_order_relaxed); }

void end_step() {
  ended.fetch_add(1, std::memory_order_relaxed);
  if (!leak_notes::watching()) return;
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  ++all.steps;
  if (all.steps <= kEveryStepUntil || all.steps % kLaterEvery == 0) keep_if_most(all);
}

std::vector<Leak> leaks() {
  if (!leak_notes::watching()) return {};
  static_cast<void>(DeviceQueue(kCPU));  // runs the calls held back
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  return growing(all);
}

std::string leaks_report() {
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  if (!leak_notes::watching()) return "leaks: nobody watches; set ETNA_LEAKS=1, or call watch_leaks(true)\n";
  if (all.steps == 0) return "leaks: no step has ended; Optimizer::step() and end_step() end one\n";
  keep_if_most(all);
  if (all.most.empty() && all.steps <= kSettledSteps) {
    return fmt::format("leaks: {} steps are too few to tell; memory counts {} steps after the one that made it\n",
                       all.steps, kSettledSteps);
  }
  if (all.most.empty()) return fmt::format("leaks: no memory outlives its step ({} steps)\n", all.steps);
  std::string text = fmt::format("leaks: {} outlived the steps that made them, after step {} of {}\n",
                                 readable_bytes(bytes_of(all.most)), all.most_at, all.steps);
  for (const Leak& leak : all.most) {
    text += fmt::format("  {} {} {}: {} storages, {}, of steps {} to {}\n", leak.device.str(), leak.op, leak.tensor,
                        leak.count, readable_bytes(leak.bytes), leak.first_step, leak.last_step);
  }
  return text;
}

}  // namespace etna
