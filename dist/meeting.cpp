#include <etna/dist/internal/meeting.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/device/internal/os/clock.h>
#include <etna/device/internal/os/process.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/frame.h>
#include <etna/dist/internal/socket.h>

namespace etna::distributed {
namespace {

/// Bytes of an announcement.
constexpr std::size_t kMostAnnounced = std::size_t{60} << 20;
static_assert(kMostAnnounced + 1024 < FrameBuffer::kMost);

/// Of MeetingServer::address(), or of a user.
struct MeetingPlace {
  std::string word;
  std::vector<std::pair<std::string, int>> addresses;
};

MeetingPlace parse_meeting(const std::string& text) {
  std::istringstream in(text);
  MeetingPlace place;
  int port = 0;
  if (!(in >> place.word >> port)) return {"", {parse_address(text)}};
  for (std::string host; in >> host;) place.addresses.emplace_back(host, port);
  return place;
}

}  // namespace

std::pair<std::string, int> parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  int port = 0;
  if (colon != std::string::npos) {
    for (const char digit : text.substr(colon + 1)) {
      port = digit >= '0' && digit <= '9' && port < 100'000 ? port * 10 + (digit - '0') : 100'000;
    }
  }
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty() || port < 1 || port > 65535)
    throw Error(
        fmt::format("distributed: '{}' is no address to meet at; HOST:PORT was expected, 10.0.0.1:29500 for example",
                    text.substr(0, 80)));
  return {host, port};
}

struct Meeting::State {
  int rank, size;
  double limit;
  Socket socket;
  std::mutex sending;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  std::deque<std::string> announcements;  ///< of rank 0
  std::vector<Member> members;
  std::size_t told = 0;  ///< members that an answer brought so far
  std::string failure;
  int lost = -1;
  std::map<const void*, Progress> progress;  ///< of each engine
  bool leaving = false;

  std::atomic<bool> failed = false, stopped = false;
  std::thread thread;

  void send(const std::string& frame) {
    const std::lock_guard lock(sending);
    socket.send(frame);
  }

  void fail(const std::string& sentence, int who = -1) {
    {
      const std::lock_guard lock(mutex);
      if (failure.empty() && !everybody_left()) failure = sentence, lost = who;
      failed = !failure.empty();
    }
    changed.notify_all();
  }

  bool everybody_left() const {
    return leaving && std::all_of(members.begin(), members.end(), [](const Member& one) { return one.left; });
  }

  void run() {
    FrameBuffer buffer;
    double heard = os::steady_seconds(), beaten = 0, looked = heard;
    const double every = std::min(1.0, limit / 5);
    while (!stopped) {
      const int handle = socket.handle();
      const bool readable = wait_readable(std::span(&handle, 1), std::min(0.2, every / 2))[0];
      const double now = os::steady_seconds();
      if (now - looked > 3) heard = now;  // this process was stopped itself
      looked = now;
      if (readable) {
        const std::string bytes = socket.receive(1 << 16);
        buffer.add(bytes);
        heard = now;
        for (std::string frame; buffer.take(frame);) take(FrameReader(frame));
        if (bytes.empty()) return fail(fmt::format("rank 0 ({}) has ended", name_of_first()), 0);
      }
      if (now - beaten > every) {
        beaten = now;
        Progress at;
        {
          const std::lock_guard lock(mutex);
          at = {};
          for (const auto& [engine, one] : progress)
            at = {at.begun + one.begun, at.ended + one.ended, at.waited + one.waited};
        }
        send(FrameWriter(FrameKind::beat)
                 .number(at.begun)
                 .number(at.ended)
                 .number(static_cast<std::uint64_t>(at.waited * 1e6))
                 .take());
      }
      if (now - heard > kSilence * limit)
        return fail(
            fmt::format("rank 0 ({}) has given no sign of life for {:.0f} seconds", name_of_first(), now - heard), 0);
    }
  }

  std::string name_of_first() const {
    const std::lock_guard lock(mutex);
    return members[0].host.empty() ? "whose host is unknown"
                                   : fmt::format("{}, process {}", members[0].host, members[0].process);
  }

  void take(FrameReader frame) {
    if (frame.kind() == FrameKind::lost) {
      const auto who = static_cast<int>(frame.number());
      return fail(frame.text(), who);
    }
    {
      const std::lock_guard lock(mutex);
      if (frame.kind() == FrameKind::value) {
        const std::string key = frame.text();
        values[key] = frame.text();
      } else if (frame.kind() == FrameKind::announcement) {
        announcements.push_back(frame.text());
      } else if (frame.kind() == FrameKind::left) {
        if (const auto who = frame.number(); who < members.size()) members[who].left = true;
      } else if (frame.kind() == FrameKind::member) {
        if (const auto who = frame.number(); who < members.size()) {
          Member& one = members[who];
          one.host = frame.text();
          one.process = static_cast<int>(frame.number());
          one.left = frame.number() != 0;
          one.progress = {frame.number(), frame.number(), static_cast<double>(frame.number()) / 1e6};
          ++told;
        }
      }
    }
    changed.notify_all();
  }
};

Meeting::Meeting(const std::string& address, int rank, int size, double join, double limit)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.rank = rank, s.size = size, s.limit = limit;
  s.members.resize(static_cast<std::size_t>(size));
  const MeetingPlace place = parse_meeting(address);
  const double until = os::steady_seconds() + join;
  std::string error;
  // Rank 0 may not listen yet.
  for (double pause = 0.01; !s.socket.is_open(); pause = std::min(1.0, pause * 1.5)) {
    for (const auto& [host, port] : place.addresses) {
      const double left = until - os::steady_seconds();
      s.socket = Socket::connect(host, port, std::clamp(left, 0.1, 3.0), error);
      if (s.socket.is_open()) break;
    }
    if (s.socket.is_open()) break;
    if (os::steady_seconds() > until)
      throw RankLost(
          fmt::format("distributed: rank {} did not meet rank 0 within {:g} seconds: {}", rank, join, error));
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
  s.send(FrameWriter(FrameKind::hello)
             .text(place.word)
             .text(ETNA_VERSION)
             .number(static_cast<std::uint64_t>(rank))
             .number(static_cast<std::uint64_t>(size))
             .text(os::host_name())
             .number(static_cast<std::uint64_t>(os::process_id()))
             .take());
  FrameBuffer buffer;
  std::string frame;
  while (!buffer.take(frame)) {
    const int handle = s.socket.handle();
    const bool readable = wait_readable(std::span(&handle, 1), std::max(0.0, until - os::steady_seconds()))[0];
    const std::string bytes = readable ? s.socket.receive(1 << 12) : "";
    if (bytes.empty())
      throw RankLost(fmt::format("distributed: rank {} met somebody at {}:{} who is not rank 0 of its group", rank,
                                 place.addresses[0].first, place.addresses[0].second));
    buffer.add(bytes);
  }
  if (FrameReader answer(frame); answer.kind() != FrameKind::welcome)
    throw RanksDiffer("distributed: " + answer.text());
  s.thread = std::thread([this] { state_->run(); });
}

Meeting::~Meeting() {
  state_->stopped = true;
  if (state_->thread.joinable()) state_->thread.join();
}

void Meeting::put(const std::string& key, const std::string& value) {
  state_->send(FrameWriter(FrameKind::put).text(key).text(value).take());
}

std::string Meeting::get(const std::string& key, int from, double seconds) {
  State& s = *state_;
  s.send(FrameWriter(FrameKind::get).text(key).take());
  std::unique_lock lock(s.mutex);
  const bool came = s.changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                       [&] { return s.values.contains(key) || s.failed; });
  if (s.values.contains(key)) return s.values[key];
  if (came) throw RankLost("distributed: " + s.failure);
  throw RankLost(fmt::format("distributed: rank {} did not come within {:g} seconds", from, seconds));
}

std::vector<std::string> Meeting::gather(const std::string& name, const std::string& value, double seconds) {
  const auto key = [&](int rank) { return fmt::format("{}/{}", name, rank); };
  put(key(state_->rank), value);
  std::vector<std::string> found;
  std::vector<int> missing;
  const double until = os::steady_seconds() + seconds;
  for (int r = 0; r < state_->size; ++r) {
    try {
      found.push_back(get(key(r), r, std::max(0.2, until - os::steady_seconds())));
    } catch (const RankLost&) {
      if (failed()) throw;
      missing.push_back(r);
    }
  }
  if (!missing.empty())
    throw RankLost(fmt::format("distributed: of {} ranks, {} did not come within {:g} seconds", state_->size,
                               fmt::join(missing, ", "), seconds));
  return found;
}

void Meeting::announce(const std::string& text) {
  if (state_->failed) throw RankLost("distributed: " + failure());
  if (text.size() > kMostAnnounced) {
    throw Error(fmt::format("distributed: {} MiB are announced to other ranks; at most {} fit", text.size() >> 20,
                            kMostAnnounced >> 20));
  }
  state_->send(FrameWriter(FrameKind::announcement).text(text).take());
}

std::optional<std::string> Meeting::next_announcement(double seconds) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  const bool came = s.changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                       [&] { return !s.announcements.empty() || s.failed || s.members[0].left; });
  if (!came) return {};
  if (s.announcements.empty())
    throw RankLost("distributed: " + (s.failed ? s.failure : std::string("rank 0 has left the group")));
  std::string text = std::move(s.announcements.front());
  s.announcements.pop_front();
  return text;
}

bool Meeting::failed() const { return state_->failed; }

std::string Meeting::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

int Meeting::lost() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lost;
}

void Meeting::fail(const std::string& sentence) { state_->fail(sentence); }

std::vector<Member> Meeting::members() {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    s.told = 0;
  }
  s.send(FrameWriter(FrameKind::ask).take());
  std::unique_lock lock(s.mutex);
  s.changed.wait_for(lock, std::chrono::seconds(1), [&] { return s.told >= s.members.size() || s.failed; });
  return s.members;
}

bool Meeting::left(int rank) const {
  const std::lock_guard lock(state_->mutex);
  return state_->members[static_cast<std::size_t>(rank)].left;
}

void Meeting::report(const Progress& progress, const void* engine) {
  const std::lock_guard lock(state_->mutex);
  state_->progress[engine] = progress;
}

void Meeting::leave() {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    s.leaving = true;
  }
  s.send(FrameWriter(FrameKind::leave).take());
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return s.failed || s.everybody_left(); });
}

}  // namespace etna::distributed
