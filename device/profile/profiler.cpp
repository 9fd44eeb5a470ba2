#include <etna/device/profile/profiler.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/device_queue.h>
#include <etna/device/profile/internal/span_log.h>

namespace etna::profile {
namespace {

/// Threads and the profile being taken. Never destroyed: threads may end after static objects are destroyed.
struct Registry {
  std::mutex control;  ///< held by start() and stop() throughout; taken before any device's mutex
  std::mutex mutex;    ///< guards the members below; held briefly; may be taken under a device's mutex
  std::vector<std::shared_ptr<SpanLog>> logs;
  std::uint32_t threads = 0;
  std::unordered_set<std::string> texts;
  std::uint32_t sessions = 0;
  std::int64_t begin = 0;
  Transfers transfers;
};

Registry& registry() {
  static auto* made = new Registry;
  return *made;
}

std::atomic<std::uint32_t> current_session{0};
std::atomic<std::size_t> most_spans{0};

/// A thread's spans: created at its first span, marked as ended when the thread exits.
struct ThreadState {
  std::shared_ptr<SpanLog> log;
  const Scope* innermost = nullptr;
  std::array<const std::string*, 64> texts{};

  ThreadState() {
    std::lock_guard lock(registry().mutex);
    log = std::make_shared<SpanLog>(registry().threads++);
    log->name = log->number == 0 ? "main" : fmt::format("thread {}", log->number);
    registry().logs.push_back(log);
  }
  ~ThreadState() { log->ended = true; }
};

thread_local const Labels* given_labels = nullptr;

ThreadState& state() {
  thread_local ThreadState made;
  return made;
}

// Makes the thread that starts the program number 0, not a worker.
[[maybe_unused]] const std::uint32_t main_thread = state().log->number;

Transfers difference(const Transfers& after, const Transfers& before) {
  // After a reset_transfers() in between, only the count since then is known.
  auto since = [](std::uint64_t now, std::uint64_t then) { return now >= then ? now - then : now; };
  return {.h2d_bytes = since(after.h2d_bytes, before.h2d_bytes),
          .h2d_calls = since(after.h2d_calls, before.h2d_calls),
          .d2h_bytes = since(after.d2h_bytes, before.d2h_bytes),
          .d2h_calls = since(after.d2h_calls, before.d2h_calls),
          .moved_tensors = since(after.moved_tensors, before.moved_tensors),
          .fallbacks = since(after.fallbacks, before.fallbacks)};
}

/// Replaces thread numbers by positions among the threads that were seen.
void number_threads(Profile& profile, const std::map<std::uint32_t, std::string>& names) {
  std::map<std::uint32_t, std::uint32_t> positions;
  auto position = [&](std::uint32_t number) {
    auto [at, added] = positions.emplace(number, static_cast<std::uint32_t>(profile.threads.size()));
    if (added) profile.threads.push_back(names.at(number));
    return at->second;
  };
  for (HostSpan& span : profile.host) span.thread = position(span.thread);
  for (GpuProfile& gpu : profile.gpus) {
    for (GpuSpan& span : gpu.spans) span.thread = position(span.thread);
    for (GpuBatch& batch : gpu.batches) batch.thread = position(batch.thread);
  }
}

}  // namespace

void start(const Options& options) {
  const std::vector<DeviceQueue> queues = DeviceQueue::of_backends();
  Registry& r = registry();
  std::lock_guard control(r.control);
  if (current_session != 0) throw Error("profile: a profile is being taken already; stop() it before the next start()");
  {
    std::lock_guard lock(r.mutex);
    std::erase_if(r.logs, [](const auto& log) { return log->ended.load(); });
  }
  most_spans = options.max_spans;
  ++r.sessions;
  for (const DeviceQueue& queue : queues) queue.begin_profile(options);
  r.transfers = transfers();
  r.begin = detail::now_ns();
  current_session = r.sessions;
  detail::active.fetch_add(1);
}

Profile stop() {
  const std::vector<DeviceQueue> queues = DeviceQueue::of_backends();
  Registry& r = registry();
  std::lock_guard control(r.control);
  std::uint32_t session = current_session;
  if (session == 0) throw Error("profile: none is being taken; call start() before stop()");
  Profile profile;
  // Waiting for the GPUs is part of the profile: work queued during the profile ends there.
  for (const DeviceQueue& queue : queues) queue.finish_profile();
  profile.begin = r.begin;
  profile.end = detail::now_ns();
  current_session = 0;
  detail::active.fetch_sub(1);
  for (const DeviceQueue& queue : queues) queue.take_profile(profile);
  profile.transfers = difference(transfers(), r.transfers);
  profile.memory.push_back({kCPU, memory_stats(kCPU)});
  for (const GpuProfile& gpu : profile.gpus) profile.memory.push_back({gpu.device, memory_stats(gpu.device)});
  std::map<std::uint32_t, std::string> names;
  {
    std::lock_guard lock(r.mutex);
    for (const auto& log : r.logs) {
      names[log->number] = log->name;
      profile.dropped += log->take(session, profile.host);
    }
  }
  std::erase_if(profile.host,
                [&](const HostSpan& span) { return span.begin < profile.begin || span.end > profile.end; });
  std::stable_sort(profile.host.begin(), profile.host.end(), [](const HostSpan& a, const HostSpan& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  number_threads(profile, names);
  return profile;
}

bool taking() { return current_session.load() != 0; }

Session::~Session() {
  if (stopped_) return;
  try {
    profile::stop();
  } catch (const std::exception&) {
    // Somebody else stopped it; there is nothing left to discard.
  }
}

Profile Session::stop() {
  Profile profile = profile::stop();
  stopped_ = true;
  return profile;
}

void Scope::open(const char* name, Category category, std::uint64_t bytes) {
  ThreadState& thread = state();
  name_ = name;
  category_ = category;
  bytes_ = bytes;
  outer_ = thread.innermost;
  thread.innermost = this;
  session_ = current_session.load(std::memory_order_acquire);
  begin_ = session_ != 0 ? detail::now_ns() : 0;
}

void Scope::close() {
  ThreadState& thread = state();
  thread.innermost = outer_;
  if (session_ == 0 || session_ != current_session.load(std::memory_order_acquire)) return;
  HostSpan span{
      .name = name_, .category = category_, .thread = 0, .begin = begin_, .end = detail::now_ns(), .bytes = bytes_};
  thread.log->append({span, session_}, most_spans.load(std::memory_order_relaxed));
}

const char* Scope::kept(std::string_view name) { return detail::kept(name); }

Labels Labels::now() {
  Labels labels;
  if (detail::active.load(std::memory_order_relaxed) == 0) return labels;
  if (given_labels != nullptr) return *given_labels;
  for (const Scope* s = state().innermost; s != nullptr; s = s->outer_) {
    if (s->category_ == Category::autograd && labels.node == nullptr) labels.node = s->name_;
    if (s->category_ == Category::phase && labels.phase == nullptr) labels.phase = s->name_;
  }
  return labels;
}

WithLabels::WithLabels(const Labels& labels) : before_(std::exchange(given_labels, &labels)) {}
WithLabels::~WithLabels() { given_labels = before_; }

void name_thread(std::string name) {
  SpanLog& log = *state().log;
  std::lock_guard lock(registry().mutex);
  log.name = std::move(name);
}

namespace detail {

std::uint32_t session() { return current_session.load(std::memory_order_acquire); }
std::size_t max_spans() { return most_spans.load(std::memory_order_relaxed); }

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::uint32_t thread_number() { return state().log->number; }

const char* kept(std::string_view text) {
  ThreadState& thread = state();
  const std::string*& lately = thread.texts[std::hash<std::string_view>{}(text) % thread.texts.size()];
  if (lately == nullptr || *lately != text) {
    std::lock_guard lock(registry().mutex);
    lately = &*registry().texts.emplace(text).first;
  }
  return lately->c_str();
}

}  // namespace detail

const char* str(Category category) {
  switch (category) {
    case Category::step:
      return "step";
    case Category::phase:
      return "phase";
    case Category::op:
      return "op";
    case Category::autograd:
      return "autograd";
    case Category::host:
      return "host";
    case Category::transfer:
      return "transfer";
    case Category::wait:
      return "wait";
  }
  return "?";
}

std::int64_t Profile::steps() const {
  return std::count_if(host.begin(), host.end(), [](const HostSpan& s) { return s.category == Category::step; });
}

}  // namespace etna::profile
