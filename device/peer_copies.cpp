#include <etna/device/internal/peer_copies.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/files.h>
#include <etna/device/kernel.h>

namespace etna {

/// One part on its way.
struct PeerPath::Passage {
  std::atomic<bool> room{false}, arrived{false}, ended{false};  ///< ended: one of the devices does not come to it
};

class PeerPath::Send final : public gpu::ForeignWork {
 public:
  Send(std::shared_ptr<PeerPath> path, std::shared_ptr<Passage> passage, std::size_t at, std::size_t bytes)
      : path_(std::move(path)), passage_(std::move(passage)), at_(at), bytes_(bytes) {}
  gpu::ForeignPlace place() const override { return gpu::ForeignPlace::host; }
  bool uses_mapped_memory() const override { return false; }
  void check() override { path_->tell(); }
  void abandon() noexcept override { passage_->ended = true; }
  std::function<bool()> begin() override {
    return [path = path_, passage = passage_, at = at_, bytes = bytes_, started = false,
            copy = std::uint64_t{0}]() mutable {
      if (passage->ended) return true;
      try {
        if (!started) {
          if (!passage->room) return false;
          copy = path->sends_.copy(path->inbox_here_ + at, path->own_.address + at, bytes);
          started = true;
        }
        if (!path->sends_.copied(copy)) return false;
        passage->arrived = true;
      } catch (const Error& error) {
        path->fail(error.what());
        passage->ended = true;
      }
      return true;
    };
  }

 private:
  std::shared_ptr<PeerPath> path_;
  std::shared_ptr<Passage> passage_;
  std::size_t at_, bytes_;
};

class PeerPath::Receive final : public gpu::ForeignWork {
 public:
  Receive(std::shared_ptr<PeerPath> path, std::shared_ptr<Passage> passage)
      : path_(std::move(path)), passage_(std::move(passage)) {}
  gpu::ForeignPlace place() const override { return gpu::ForeignPlace::host; }
  bool uses_mapped_memory() const override { return false; }
  void check() override { path_->tell(); }
  void abandon() noexcept override { passage_->ended = true; }
  std::function<bool()> begin() override {
    passage_->room = true;
    return [path = path_, passage = passage_] {
      if (passage->ended && !passage->arrived) path->fail("the other device was lost");
      return passage->arrived || passage->ended;
    };
  }

 private:
  std::shared_ptr<PeerPath> path_;
  std::shared_ptr<Passage> passage_;
};

std::shared_ptr<PeerPath> PeerPath::make(Device from, gpu::ForeignStream& sends, Device to,
                                         gpu::ForeignStream& receives, std::size_t slot) {
  std::shared_ptr<PeerPath> made(new PeerPath(from, sends, to, slot));
  made->own_ = sends.share(slot * kSlots);
  os::close_descriptors(std::span(&made->own_.descriptor, 1));
  made->inbox_ = receives.share(slot * kSlots);
  const auto close = [&](PeerPath*) { os::close_descriptors(std::span(&made->inbox_.descriptor, 1)); };
  const std::unique_ptr<PeerPath, decltype(close)> closed(made.get(), close);
  made->inbox_here_ = sends.open(made->inbox_.descriptor, made->inbox_.bytes);
  return made;
}

PeerPath::~PeerPath() {
  if (inbox_here_ != 0) sends_.close(inbox_here_, inbox_.bytes);
}

void PeerPath::copy(const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
                    std::size_t bytes) {
  if (failed()) throw DeviceError(failure_);
  const std::size_t parts = (bytes + slot_ - 1) / slot_;
  const auto part_of = [&](std::size_t i) { return std::min(slot_, bytes - i * slot_); };
  const auto place_of = [&](std::size_t i) { return (parts_ + i) % kSlots * slot_; };
  // A part leaves its slot there some parts after it was received: the next ones are on their way meanwhile, since
  // receiving waits for what was queued before.
  for (std::size_t i = 0; i < parts + kSlots - 1; ++i) {
    if (i < parts) pass(from, from_offset + i * slot_, place_of(i), part_of(i));
    if (i < kSlots - 1) continue;
    const std::size_t k = i - (kSlots - 1);
    gpu::enqueue_copy(to_, *inbox_.storage, place_of(k), to, to_offset + k * slot_, part_of(k));
  }
  parts_ += parts;
}

/// Queues a part's way to its slot there.
void PeerPath::pass(const Storage& from, std::size_t from_offset, std::size_t place, std::size_t bytes) {
  const auto passage = std::make_shared<Passage>();
  const MemoryRange read{own_.storage->address() + place, bytes}, write{inbox_.storage->address() + place, bytes};
  gpu::enqueue_copy(from_, from, from_offset, *own_.storage, place, bytes);
  gpu::enqueue_foreign(
      from_, {"send", std::make_shared<Send>(shared_from_this(), passage, place, bytes), std::span(&read, 1), {}});
  try {
    gpu::enqueue_foreign(to_,
                         {"receive", std::make_shared<Receive>(shared_from_this(), passage), {}, std::span(&write, 1)});
  } catch (...) {
    passage->ended = true;
    throw;
  }
}

bool PeerPath::failed() const {
  const std::lock_guard lock(mutex_);
  return !failure_.empty();
}

void PeerPath::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = fmt::format("copy from {} to {}: {}", from_.str(), to_.str(), why);
}

void PeerPath::tell() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty() && !std::exchange(told_, true)) throw DeviceError(failure_);
}

bool copy_to_peer(const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset, std::size_t bytes) {
  constexpr std::size_t kLarge = std::size_t{1} << 20;  ///< worth making a path for
  static std::mutex& mutex = *new std::mutex;
  static auto& paths = *new std::map<std::pair<std::string, std::string>, std::shared_ptr<PeerPath>>;
  if (bytes == 0 || from.device() == to.device() || !gpu::runs_kernels(from.device()) ||
      !gpu::runs_kernels(to.device()))
    return false;
  // All copies are queued one after the other on both of their devices, so none waits for one that waits for it.
  const std::lock_guard lock(mutex);
  const auto names = std::pair(from.device().str(), to.device().str());
  auto found = paths.find(names);
  if (found == paths.end()) {
    if (bytes < kLarge) return false;
    std::shared_ptr<PeerPath> made;
    try {
      std::string why;
      gpu::ForeignStream* sends = gpu::foreign_stream(from.device(), why);
      gpu::ForeignStream* receives = gpu::foreign_stream(to.device(), why);
      if (sends != nullptr && receives != nullptr) made = PeerPath::make(from.device(), *sends, to.device(), *receives);
    } catch (const Error&) {
      // They do not reach each other, or memory is short: the host does.
    }
    found = paths.emplace(names, std::move(made)).first;
  }
  if (found->second == nullptr || found->second->failed()) return false;
  found->second->copy(from, from_offset, to, to_offset, bytes);
  return true;
}

}  // namespace etna
