#include <etna/device/internal/vulkan/commands/readback.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/commands/context.h>

namespace etna::vulkan {
namespace {

constexpr std::size_t kPlaces = 64;  ///< per buffer

/// One read; returns its place when nobody refers to it any more.
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
    context_.queue.check_foreign();
    return context_.readback.bytes(place_);
  }

 private:
  Context& context_;
  Readback::Place place_;
};

}  // namespace

Readback::Place Readback::take(bool large) {
  auto& [bytes, buffers, free] = large ? large_ : small_;
  auto done = std::find_if(free.begin(), free.end(), [&](const Place& p) { return queue_.passed(p.mark); });
  if (done == free.end()) {
    Buffer buffer;
    if (VkResult result = make_buffer(device_, BufferUse::download, kPlaces * bytes, buffer)) {
      throw OutOfMemory(fmt::format("{}: no host memory that the GPU can see for reading back ({})",
                                    device_.device.str(), str(result)));
    }
    for (std::size_t i = 0; i < kPlaces; ++i) free.push_back({large, buffers.size() * kPlaces + i, 0});
    buffers.push_back(buffer);
    done = free.end() - 1;
  }
  Place place = *done;
  free.erase(done);
  return place;
}

Readback::Place Readback::start(const BufferSpan& from) {
  Place place = take(from.range.bytes > small_.bytes);
  const Places& places = of(place);
  try {
    queue_.copy("read_later", from,
                {places.buffers[place.index / kPlaces].handle, place.index % kPlaces * places.bytes, {}});
    queue_.make_host_visible();
  } catch (...) {
    give_back({place.large, place.index, 0});
    throw;
  }
  place.mark = queue_.mark();
  return place;
}

const std::byte* Readback::bytes(const Place& place) {
  const Places& places = of(place);
  return places.buffers[place.index / kPlaces].host + place.index % kPlaces * places.bytes;
}

std::shared_ptr<PendingBytes> download_later(Device device, std::uint64_t address, std::size_t bytes) {
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  if (bytes > kMostBytesLater) {
    throw DeviceError(fmt::format("read_later: {} bytes, at most {} fit", bytes, kMostBytesLater));
  }
  return std::make_shared<Read>(context, context.readback.start(context.segments.find(address, bytes)));
}

}  // namespace etna::vulkan
