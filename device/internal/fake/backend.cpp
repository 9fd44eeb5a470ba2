#include <etna/device/internal/fake/backend.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/memory_control.h>

namespace etna::fake {
namespace {

constexpr std::size_t kMostFakes = 64;

/// Memory of the host, as much of it as the description says.
class FakeMemory final : public SegmentSource {
 public:
  explicit FakeMemory(const Description& of) : total_(of.memory), most_(of.most_at_once) {}

  bool allocate(std::size_t bytes, Segment& out, std::string& why) override {
    if (bytes > most_) {
      why = fmt::format("the fake device gives at most {} at once", readable_bytes(most_));
      return false;
    }
    if (bytes > available()) {
      why = fmt::format("the fake device has {} ({} free)", readable_bytes(total_), readable_bytes(available()));
      return false;
    }
    void* made = ::operator new(bytes, kAlignment, std::nothrow);
    if (made == nullptr) {
      why = "the host refused it";
      return false;
    }
    taken_ += bytes;
    out = {made, static_cast<std::byte*>(made), reinterpret_cast<std::uintptr_t>(made), bytes};
    return true;
  }
  void synchronize() override {}
  void release(const Segment& segment) override {
    ::operator delete(segment.handle, kAlignment);
    taken_ -= segment.bytes;
  }
  std::uint64_t available() const override { return total_ - taken_; }

 private:
  static constexpr std::align_val_t kAlignment{256};
  std::uint64_t total_, most_;
  std::atomic<std::uint64_t> taken_ = 0;  ///< asked for by available_memory() of any thread
};

/// A device in use. Never destroyed: storages in static objects may outlive any order we could choose.
struct FakeState {
  FakeState(const Description& of, Device device) : memory(of), allocator(device, memory) {}
  FakeMemory memory;
  CachingAllocator allocator;
};

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(std::vector<Description> devices) : descriptions_(std::move(devices)) {}

  const char* name() const override { return "fake"; }
  std::string why_no_adapters() override { return "ETNA_FAKE_DEVICE names none"; }
  std::string advice() override { return "use --device cpu"; }
  bool computes_by_cpu_kernels() const override { return true; }

  /// Fills itself in later than the constructor, since only a registered backend's devices have names.
  const std::vector<AdapterInfo>& adapters() override {
    std::lock_guard lock(mutex_);
    while (adapters_.size() < descriptions_.size()) {
      const Description& from = descriptions_[adapters_.size()];
      AdapterInfo info;
      info.device = device(adapters_.size());
      info.name = from.name;
      info.kind = "fake";
      info.memory_bytes = from.memory;
      info.rejected = from.rejected;
      info.features = from.features;
      info.limits = from.limits;
      adapters_.push_back(std::move(info));
    }
    return adapters_;
  }

  CachingAllocator& allocator(Device of) override {
    std::lock_guard lock(mutex_);
    if (of.index >= descriptions_.size() || !descriptions_[of.index].rejected.empty())
      throw DeviceError(fmt::format("{} does not exist, or cannot be used", of.str()));
    FakeState*& state = states_[of.index];
    // Storages free themselves here, so that a device in use stays.
    if (state == nullptr && strict()) {
      throw DeviceError(fmt::format(
          "{}: it is a fake device for tests, which computes on the CPU; strict mode refuses it", of.str()));
    }
    if (state == nullptr) state = new FakeState(descriptions_[of.index], of);
    return state->allocator;
  }

  void upload(Device to, const void* source, std::uint64_t address, std::size_t bytes) override {
    count_transfer(to);
    std::memcpy(reinterpret_cast<void*>(address), source, bytes);
  }
  void download(Device from, std::uint64_t address, void* target, std::size_t bytes) override {
    count_transfer(from);
    std::memcpy(target, reinterpret_cast<const void*>(address), bytes);
  }
  void copy(Device of, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
            std::size_t bytes) override {
    count_transfer(of);
    std::memmove(reinterpret_cast<void*>(to.address() + to_offset),
                 reinterpret_cast<const void*>(from.address() + from_offset), bytes);
  }

  Device add(Description description) {
    std::lock_guard lock(mutex_);
    if (descriptions_.size() == kMostFakes)
      throw DeviceError(fmt::format("more than {} fake devices were added", kMostFakes));
    descriptions_.push_back(std::move(description));
    return device(descriptions_.size() - 1);
  }

 private:
  void count_transfer(Device of) {
    if (transfers_[of.index]++ < descriptions_[of.index].lost_after) return;
    throw DeviceLost(fmt::format("{} was lost, as ETNA_FAKE_DEVICE asks", of.str()));
  }

  Device device(std::size_t index) {
    for (std::size_t type = 0; type < backends().size(); ++type) {
      if (backends()[type] == this) return {static_cast<DeviceType>(type), static_cast<int>(index)};
    }
    throw DeviceError("fake: the backend is not registered");
  }

  std::recursive_mutex mutex_;
  std::vector<Description> descriptions_;
  std::vector<AdapterInfo> adapters_;
  std::array<FakeState*, kMostFakes> states_{};
  std::array<std::atomic<std::uint64_t>, kMostFakes> transfers_{};
};

std::string_view trimmed_setting(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split_settings(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(by, at), text.size());
    if (const std::string_view part = trimmed_setting(text.substr(at, end - at)); !part.empty()) parts.push_back(part);
    at = end + 1;
  }
  return parts;
}

void set(Description& to, std::string_view setting) {
  const std::size_t equals = std::min(setting.find('='), setting.size());
  const std::string_view name = trimmed_setting(setting.substr(0, equals));
  const std::string_view value = trimmed_setting(setting.substr(std::min(equals + 1, setting.size())));
  if (equals == setting.size()) throw Error(fmt::format("'{:.60}' is no setting", setting));
  if (name == "name") {
    to.name = value;
  } else if (name == "memory") {
    to.memory = parse_bytes(value);
  } else if (name == "at_once") {
    to.most_at_once = parse_bytes(value);
  } else if (name == "lost_after") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), to.lost_after);
    if (error != std::errc() || end != value.data() + value.size())
      throw Error(fmt::format("lost_after is '{:.60}'; wanted a number of transfers", value));
  } else if (name == "rejected") {
    to.rejected = value;
  } else if (name == "feature") {
    to.features.emplace_back(value);
  } else if (name == "limit") {
    to.limits.emplace_back(value);
  } else {
    throw Error(fmt::format(
        "'{:.60}' is no setting; write name, memory, at_once, lost_after, rejected, feature or limit", name));
  }
}

}  // namespace

std::vector<Description> parse(std::string_view text) {
  if (trimmed_setting(text) == "1") return {Description{}};
  std::vector<Description> all;
  for (std::string_view one : split_settings(text, ';')) {
    Description& made = all.emplace_back();
    try {
      for (std::string_view setting : split_settings(one, ',')) set(made, setting);
    } catch (const Error& error) {
      made.rejected = fmt::format("ETNA_FAKE_DEVICE: {}", error.what());
    }
    if (all.size() == kMostFakes) break;
  }
  return all;
}

std::unique_ptr<Backend> make_backend() {
  const char* text = std::getenv("ETNA_FAKE_DEVICE");
  if (text == nullptr || trimmed_setting(text).empty()) return nullptr;
  return std::make_unique<FakeBackend>(parse(text));
}

Device add(Description description) {
  for (Backend* one : backends()) {
    if (std::strcmp(one->name(), "fake") == 0) return static_cast<FakeBackend*>(one)->add(std::move(description));
  }
  auto made = std::make_unique<FakeBackend>(std::vector<Description>{});
  FakeBackend& added = *made;
  register_backend(std::move(made));
  return added.add(std::move(description));
}

}  // namespace etna::fake
