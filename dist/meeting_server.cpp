#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/clock.h>
#include <etna/dist/internal/frame.h>
#include <etna/dist/internal/meeting.h>
#include <etna/dist/internal/socket.h>

namespace etna::distributed {
namespace {

/// A word that only who was told the address knows.
std::string new_word() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
}

}  // namespace

struct MeetingServer::State {
  struct Connection {
    Socket socket;
    FrameBuffer buffer;
    int rank = -1;  ///< -1: has not said yet
    double heard = 0;
  };
  struct Seat {
    bool taken = false, left = false, lost = false;
    std::string host;
    std::uint64_t process = 0, begun = 0, ended = 0, waited = 0;
  };

  Socket listener;
  std::string word;
  bool needs_word = false;
  double limit;
  std::vector<Seat> seats;
  std::vector<Connection> connections;
  std::map<std::string, std::string> values;
  std::vector<std::pair<std::string, int>> waiting;  ///< a key, and the rank that asked for it
  std::atomic<bool> stopped = false;
  double looked = os::steady_seconds();  ///< when this thread last ran
  std::thread thread;

  void run() {
    while (!stopped && !all_gone()) {
      std::vector<int> handles{listener.handle()};
      for (const Connection& one : connections) handles.push_back(one.socket.handle());
      const std::vector<bool> readable = wait_readable(handles, 0.2);
      const double now = os::steady_seconds();
      // Where this process itself was stopped, the others' silence says nothing.
      if (now - looked > 3)
        for (Connection& one : connections) one.heard = now;
      looked = now;
      for (std::size_t i = 0; i < connections.size(); ++i)
        if (readable[i + 1]) read(connections[i], now);
      std::erase_if(connections, [](const Connection& one) { return !one.socket.is_open(); });
      if (readable[0]) {
        if (Socket socket = listener.accept(); socket.is_open())
          connections.push_back({.socket = std::move(socket), .buffer = {}, .heard = now});
      }
      for (Connection& one : connections) {
        const double silent = now - one.heard;
        if (silent <= kSilence * limit) continue;
        if (one.rank >= 0) lose(one.rank, fmt::format("has given no sign of life for {:.0f} seconds", silent));
        one.socket.close();
      }
    }
  }

  bool all_gone() const {
    return std::all_of(seats.begin(), seats.end(), [](const Seat& seat) { return seat.left || seat.lost; });
  }

  void read(Connection& one, double now) {
    const std::string bytes = one.socket.receive(1 << 16);
    one.buffer.add(bytes);
    one.heard = now;
    std::string frame;
    while (one.socket.is_open() && one.buffer.take(frame)) answer(one, FrameReader(frame));
    if (bytes.empty() || one.buffer.broken()) {
      one.socket.close();
      if (one.rank >= 0 && !seats[at(one.rank)].left) lose(one.rank, "has ended");
    }
  }

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  void tell_all(const std::string& frame) {
    for (const Connection& one : connections)
      if (one.socket.is_open() && one.rank >= 0) one.socket.send(frame);
  }

  void lose(int rank, const std::string& how) {
    Seat& seat = seats[at(rank)];
    if (seat.lost) return;
    seat.lost = true;
    const std::string sentence = fmt::format("rank {} ({}, process {}) {}", rank, seat.host, seat.process, how);
    tell_all(FrameWriter(FrameKind::lost).number(static_cast<std::uint64_t>(rank)).text(sentence).take());
  }

  void answer(Connection& one, FrameReader frame) {
    if (one.rank < 0) return welcome(one, frame);
    Seat& seat = seats[at(one.rank)];
    switch (frame.kind()) {
      case FrameKind::put: {
        const std::string key = frame.text();
        values[key] = frame.text();
        for (const auto& [wanted, rank] : waiting)
          if (wanted == key) give(rank, key);
        std::erase_if(waiting, [&](const auto& entry) { return entry.first == key; });
        break;
      }
      case FrameKind::get: {
        const std::string key = frame.text();
        if (values.contains(key))
          give(one.rank, key);
        else
          waiting.emplace_back(key, one.rank);
        break;
      }
      case FrameKind::beat:
        seat.begun = frame.number(), seat.ended = frame.number(), seat.waited = frame.number();
        one.socket.send(FrameWriter(FrameKind::beat).take());
        break;
      case FrameKind::ask:
        for (std::size_t i = 0; i < seats.size(); ++i) {
          const Seat& s = seats[i];
          one.socket.send(FrameWriter(FrameKind::member)
                              .number(i)
                              .text(s.host)
                              .number(s.process)
                              .number(s.left)
                              .number(s.begun)
                              .number(s.ended)
                              .number(s.waited)
                              .take());
        }
        break;
      case FrameKind::announcement: {
        const std::string passed_on = FrameWriter(FrameKind::announcement).text(frame.text()).take();
        std::vector<int> deaf;
        for (const Connection& other : connections) {
          const bool told = other.rank >= 0 && other.rank != one.rank && other.socket.is_open();
          if (told && !other.socket.send(passed_on)) deaf.push_back(other.rank);
        }
        for (const int rank : deaf) lose(rank, "does not take what it is sent");
        break;
      }
      case FrameKind::leave:
        seat.left = true;
        tell_all(FrameWriter(FrameKind::left).number(static_cast<std::uint64_t>(one.rank)).take());
        break;
      default:
        break;
    }
  }

  void give(int rank, const std::string& key) {
    const std::string frame = FrameWriter(FrameKind::value).text(key).text(values[key]).take();
    for (const Connection& one : connections)
      if (one.rank == rank && one.socket.is_open()) one.socket.send(frame);
  }

  void refuse(Connection& one, const std::string& sentence) {
    one.socket.send(FrameWriter(FrameKind::refused).text(sentence).take());
    one.socket.close();
  }

  void welcome(Connection& one, FrameReader& frame) {
    if (frame.kind() != FrameKind::hello) return one.socket.close();
    const std::string given = frame.text(), version = frame.text();
    const auto rank = frame.number(), size = frame.number();
    if (needs_word && given != word) return one.socket.close();
    if (version != ETNA_VERSION) {
      refuse(one, fmt::format("rank {} is of Etna {}, rank 0 of {}; build all ranks from one version", rank, version,
                              ETNA_VERSION));
    } else if (size != seats.size() || rank >= seats.size()) {
      refuse(one,
             fmt::format("rank {} says that there are {} ranks, rank 0 that there are {}", rank, size, seats.size()));
    } else if (Seat& seat = seats[rank]; seat.taken) {
      refuse(one,
             fmt::format("two processes are rank {}: process {} on {}, and another", rank, seat.process, seat.host));
    } else {
      seat.taken = true;
      seat.host = frame.text();
      seat.process = frame.number();
      one.rank = static_cast<int>(rank);
      one.socket.send(FrameWriter(FrameKind::welcome).take());
    }
  }
};

MeetingServer::MeetingServer(const std::string& host, int port, int size, double limit)
    : state_(std::make_unique<State>()) {
  std::string error;
  state_->listener = Socket::listen(host, port, error);
  if (!state_->listener.is_open())
    throw Error(fmt::format("distributed: rank 0 cannot be met: {}; give another address or port", error));
  state_->word = new_word();
  state_->needs_word = port == 0;
  state_->limit = limit;
  state_->seats.resize(static_cast<std::size_t>(size));
  state_->thread = std::thread([this] { state_->run(); });
}

MeetingServer::~MeetingServer() {
  if (state_->thread.joinable()) state_->thread.join();
}

void MeetingServer::stop() { state_->stopped = true; }

std::string MeetingServer::address() const {
  std::string text = fmt::format("{} {}", state_->word, state_->listener.port());
  for (const std::string& one : own_addresses()) text += " " + one;
  return text + " 127.0.0.1";
}

std::string MeetingServer::local_address() const {
  return fmt::format("{} {} 127.0.0.1", state_->word, state_->listener.port());
}

}  // namespace etna::distributed
