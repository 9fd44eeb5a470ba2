#include <etna/device/internal/vulkan/commands/readback.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/commands/context.h>

namespace etna::vulkan {
namespace {

constexpr std::size_t kPlaces = 64;  ///< per buffer

/// One read; returns its slot when nobody refers to it any more.
class Read final : public PendingBytes {
 public:
  Read(Context& context, Readback::Place place) : context_(context), place_(place) {}
  ~Read() override {
    std::lock_guard lock(context_.mutex);
    context_.readback.give_back(place_);
  }

  bool ready() override {
    std::lock_guard lock(context_.mutex);
    return context_.queue.passed(place_.mark);
  }
  const std::byte* get() override {
    std::lock_guard lock(context_.mutex);
    context_.queue.wait(place_.mark);
    context_.index_errors.check();
    return context_.readback.bytes(place_);
  }

 private:
  Context& context_;
  Readback::Place place_;
};

}  // namespace

Readback::Place Readback::take() {
  auto done = std::find_if(free_.begin(), free_.end(), [&](const Place& p) { return queue_.passed(p.mark); });
  if (done == free_.end()) {
    Buffer buffer;
    if (VkResult result = make_buffer(device_, BufferUse::download, kPlaces * kPlaceBytes, buffer)) {
      throw OutOfMemory(fmt::format("{}: no host memory that the GPU can see for reading back ({})",
                                    device_.device.str(), str(result)));
    }
    for (std::size_t i = 0; i < kPlaces; ++i) free_.push_back({buffers_.size() * kPlaces + i, 0});
    buffers_.push_back(buffer);
    done = free_.end() - 1;
  }
  Place place = *done;
  free_.erase(done);
  return place;
}

Readback::Place Readback::start(const BufferSpan& from) {
  Place place = take();
  try {
    queue_.copy("read_later", from, {buffers_[place.index / kPlaces].handle, place.index % kPlaces * kPlaceBytes, {}});
    queue_.make_host_visible();
  } catch (...) {
    free_.push_back({place.index, 0});
    throw;
  }
  place.mark = queue_.mark();
  return place;
}

const std::byte* Readback::bytes(const Place& place) const {
  return buffers_[place.index / kPlaces].host + place.index % kPlaces * kPlaceBytes;
}

std::shared_ptr<PendingBytes> download_later(Device device, std::uint64_t address, std::size_t bytes) {
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  if (bytes > Readback::kPlaceBytes) {
    throw DeviceError(fmt::format("read_later: {} bytes, at most {} fit", bytes, Readback::kPlaceBytes));
  }
  return std::make_shared<Read>(context, context.readback.start(context.segments.find(address, bytes)));
}

}  // namespace etna::vulkan
