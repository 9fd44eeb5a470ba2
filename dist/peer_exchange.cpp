#include <etna/dist/internal/peer_exchange.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/clock.h>
#include <etna/device/internal/os/files.h>

namespace etna::distributed {
namespace {

constexpr std::size_t kPage = 4096;

/// Whether both ranks came so far; else the first one's reason. @param wrong of this rank; empty: it did
bool both(Meeting& meeting, const std::string& step, const std::string& wrong, double seconds, std::string& why) {
  const std::vector<std::string> all = meeting.gather(step, wrong, seconds);
  const auto other = std::find_if(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
  if (other == all.end()) return true;
  why = fmt::format("rank {}: {}", other - all.begin(), *other);
  return false;
}

struct Descriptors {
  std::vector<int> list;
  ~Descriptors() { os::close_descriptors(list); }
};

}  // namespace

struct PeerExchange::Work final : gpu::ForeignWork {
  Work(std::shared_ptr<PeerExchange> e, std::size_t p, std::size_t o, std::size_t b)
      : exchange(std::move(e)), part(p), offset(o), bytes(b) {}

  gpu::ForeignPlace place() const override { return gpu::ForeignPlace::host; }
  bool uses_mapped_memory() const override { return false; }
  void check() override { exchange->require_alive(); }
  std::function<bool()> begin() override {
    exchange->require_alive();
    const std::uint32_t time = ++exchange->times_[part];
    // The device is done with what came the last time, and the other rank's is when it says so.
    exchange->say(part, time);
    enum class Waits { for_room, for_copy, for_other };
    return [e = exchange, part = part, sent = exchange->times_.size() + part, offset = offset, bytes = bytes, time,
            state = Waits::for_room, copy = std::uint64_t{0}, began = os::steady_seconds()]() mutable {
      if (state == Waits::for_room) {
        if (!e->said(part, time)) return false;
        e->count_wait(began);
        copy = e->stream_.copy(e->other_inbox_ + offset, e->own_.address + offset, bytes);
        state = Waits::for_copy;
      }
      if (state == Waits::for_copy) {
        if (!e->stream_.copied(copy)) return false;
        e->say(sent, time);
        state = Waits::for_other;
        began = os::steady_seconds();
      }
      if (!e->said(sent, time)) return false;
      e->count_wait(began);
      return true;
    };
  }

  std::shared_ptr<PeerExchange> exchange;
  std::size_t part, offset, bytes;
};

void PeerExchange::say(std::size_t word, std::uint32_t time) {
  std::atomic_ref(mine_.here[word]).store(time, std::memory_order_release);
}

bool PeerExchange::said(std::size_t word, std::uint32_t time) {
  if (std::atomic_ref(others_.here[word]).load(std::memory_order_acquire) == time) return true;
  require_alive();
  return false;
}

void PeerExchange::count_wait(double began) {
  const double now = os::steady_seconds(), from = std::max(began, std::exchange(counted_until_, now));
  if (waits != nullptr && now > from) waits->fetch_add(now - from, std::memory_order_relaxed);
}

std::shared_ptr<PeerExchange> PeerExchange::make(Meeting& meeting, const Place& place, gpu::ForeignStream& stream,
                                                 std::size_t bytes, std::size_t parts, double seconds,
                                                 std::string& why) {
  static std::uint64_t made = 0;
  const std::string name = fmt::format("exchange/{}", ++made);
  if (place.size != 2 || place.local_size != 2) {
    why = "it is for two ranks of one computer";
    return nullptr;
  }
  std::shared_ptr<PeerExchange> exchange(new PeerExchange(stream, parts));
  PeerExchange& e = *exchange;
  e.mine_.bytes = e.others_.bytes = (8 * parts + kPage - 1) / kPage * kPage;
  std::string wrong;
  // Whatever happens, also where the other rank is lost: descriptors are closed here, and the exchange unmaps.
  Descriptors own{{make_shared_pages(e.mine_.bytes, wrong)}}, others;
  const auto try_to = [&](const auto& step) {
    try {
      if (wrong.empty()) step();
    } catch (const Error& error) {
      wrong = error.what();
    }
  };
  try_to([&] {
    for (gpu::ForeignStream::Shared* shared : {&e.inbox_, &e.own_}) {
      *shared = stream.share(bytes);
      own.list.push_back(shared->descriptor);
    }
  });
  if (!both(meeting, name + "/made", wrong, seconds, why)) return nullptr;
  const int pages = own.list[0], sent[] = {e.inbox_.descriptor, pages};
  others.list = swap_descriptors(meeting, place.rank, sent, seconds, wrong);
  try_to([&] {
    e.other_inbox_ = stream.open(others.list[0], e.inbox_.bytes);
    for (auto [words, descriptor] : {std::pair{&e.mine_, pages}, std::pair{&e.others_, others.list[1]}}) {
      words->here = static_cast<std::uint32_t*>(map_shared_pages(descriptor, words->bytes));
      if (words->here == nullptr) throw Error("shared pages cannot be mapped");
    }
  });
  return both(meeting, name + "/opened", wrong, seconds, why) ? exchange : nullptr;
}

PeerExchange::~PeerExchange() {
  for (const Words& words : {mine_, others_})
    if (words.here != nullptr) unmap_shared_pages(words.here, words.bytes);
  if (other_inbox_ != 0) stream_.close(other_inbox_, inbox_.bytes);
}

void PeerExchange::start(Device device, std::size_t part, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  const MemoryRange read{own_.storage->address() + offset, bytes}, write{inbox_.storage->address() + offset, bytes};
  gpu::enqueue_foreign(device, {"exchange", std::make_shared<Work>(shared_from_this(), part, offset, bytes),
                                std::span(&read, 1), std::span(&write, 1)});
}

}  // namespace etna::distributed
