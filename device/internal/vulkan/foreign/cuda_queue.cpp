#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/files.h>
#include <etna/device/internal/vulkan/foreign/cuda_driver.h>
#include <etna/device/internal/vulkan/foreign/foreign_queue.h>

// The device's memory and semaphores as CUDA sees them: exported as file descriptors, and imported.
namespace etna::vulkan {
namespace {

/// Undoes what was done, unless it is told otherwise.
struct Undo {
  std::function<void()> undo;
  Undo(std::function<void()> f) : undo(std::move(f)) {}
  ~Undo() {
    if (undo) undo();
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  void keep() { undo = nullptr; }
};

constexpr std::uint64_t kSample = 16;  ///< of so many works, one is timed: an event costs as much as a short copy
/// As good as random: steps of 4 or 16 collectives would always show the same ones, which may never be those that wait.
bool is_sampled(std::uint64_t number) { return (number * 0x9E3779B97F4A7C15) >> 60 == 0; }
static_assert(kSample == 16);

class CudaQueue final : public ForeignQueue, public gpu::ForeignStream {
 public:
  CudaQueue(const LogicalDevice& device, BufferSegments& segments, AdoptBuffer adopt, const cuda::Driver& driver,
            cuda::DeviceIndex gpu)
      : ForeignQueue(device, true), segments_(segments), adopt_(std::move(adopt)), cuda_(driver), gpu_(gpu) {
    check(cuda_.retain_context(&context_, gpu), "cuDevicePrimaryCtxRetain");
    enter();
    int least = 0, most = 0;
    check(cuda_.priorities(&least, &most), "cuCtxGetStreamPriorityRange");
    check(cuda_.create_stream(&stream_, cuda::kNonBlocking, most), "cuStreamCreateWithPriority");
    begin_ = imported(to());
    end_ = imported(from());
    segments_.watch([this](const Buffer& buffer) { forget(buffer); });
  }

  gpu::ForeignStream* stream() override { return this; }
  void enter() override { check(cuda_.set_context(context_), "cuCtxSetCurrent"); }
  void* handle() const override { return stream_; }
  std::uint64_t queued() const override { return ForeignQueue::queued(); }
  std::uint64_t done() override {
    // Unless a call is being made, which may take as long as another rank takes to come.
    if (const std::unique_lock lock(ordering_, std::try_to_lock); lock && cuda_.set_context(context_) == 0)
      raise_to(on_stream_);
    std::uint64_t value = 0;
    device_.vk.vkGetSemaphoreCounterValue(device_.handle, from(), &value);
    return value;
  }
  double busy_seconds() override {
    if (cuda_.set_context(context_) != 0) return busy_;
    const std::lock_guard lock(timing_);
    for (Timed& timed : timed_) {
      if (!timed.running || cuda_.query(timed.end) != 0) continue;
      float milliseconds = 0;
      if (cuda_.elapsed(&milliseconds, timed.begin, timed.end) == 0)
        busy_ += kSample * static_cast<double>(milliseconds) / 1e3;
      timed.running = false;
    }
    return busy_;
  }

  Shared share(std::size_t bytes) override {
    enter();
    cuda::Allocation wanted{};
    wanted.type = cuda::kPinned;
    wanted.handle_types = cuda::kFileDescriptor;
    wanted.location = {cuda::kOnDevice, gpu_};
    std::size_t unit = 0;
    check(cuda_.granularity(&unit, &wanted, 0), "cuMemGetAllocationGranularity");
    bytes = (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit;
    cuda::Handle handle = 0;
    check(cuda_.create_memory(&handle, bytes, &wanted, 0), "cuMemCreate");
    // Mapped memory stays until it is unmapped.
    const auto released = [this](cuda::Handle* h) { cuda_.release_memory(*h); };
    const std::unique_ptr<cuda::Handle, decltype(released)> held(&handle, released);
    Shared made;
    made.bytes = bytes;
    Buffer buffer;
    Mapped mapped;
    mapped.reserved = bytes;
    mapped.begin = map_here(handle, bytes);
    Undo mapping([&] { close(mapped.begin, bytes); });
    int for_device = -1;
    Undo descriptors([&] { os::close_descriptors(std::array{made.descriptor, for_device}); });
    check(cuda_.export_memory(&made.descriptor, handle, cuda::kFileDescriptor, 0), "cuMemExportToShareableHandle");
    check(cuda_.export_memory(&for_device, handle, cuda::kFileDescriptor, 0), "cuMemExportToShareableHandle");
    vulkan::check(import_buffer(device_, for_device, bytes, buffer), "vkAllocateMemory of memory that CUDA shares");
    for_device = -1;  // the device's now
    mapped_[buffer.address] = mapped;
    Undo known([&] { mapped_.erase(buffer.address); });
    made.address = mapped.begin;
    made.storage = adopt_(buffer);
    for (Undo* undo : {&mapping, &descriptors, &known}) undo->keep();
    return made;
  }
  std::uint64_t open(int descriptor, std::size_t bytes) override {
    enter();
    cuda::Handle handle = 0;
    void* as_pointer = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
    check(cuda_.import_shareable(&handle, as_pointer, cuda::kFileDescriptor), "cuMemImportFromShareableHandle");
    const Undo released([&] { cuda_.release_memory(handle); });  // what is mapped stays
    return map_here(handle, bytes);
  }
  void close(std::uint64_t at, std::size_t bytes) override {
    cuda_.set_context(context_);
    cuda_.unmap(at, bytes);
    cuda_.unreserve(at, bytes);
  }
  // A stream of copies only: work of CUDA on the compute units would take them from the device's queue.
  std::uint64_t copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    enter();
    if (copies_ == nullptr) check(cuda_.create_stream(&copies_, cuda::kNonBlocking, 0), "cuStreamCreateWithPriority");
    void*& event = copy_events_[copy_number_ % copy_events_.size()];
    constexpr unsigned kNoTiming = 2;  // CU_EVENT_DISABLE_TIMING
    if (event == nullptr) check(cuda_.create_event(&event, kNoTiming), "cuEventCreate");
    check(cuda_.copy(to, from, bytes, copies_), "cuMemcpyDtoDAsync");
    check(cuda_.record(event, copies_), "cuEventRecord");
    return copy_number_++;
  }
  bool copied(std::uint64_t number) override {
    // The event of one that is long over has another's place by now.
    if (number + copy_events_.size() < copy_number_) number = copy_number_ - copy_events_.size();
    constexpr cuda::Result kNotReady = 600;
    const cuda::Result result = cuda_.query(copy_events_[number % copy_events_.size()]);
    if (result != kNotReady) check(result, "a copy between GPUs");
    return result == 0;
  }

  std::string gpu() const override {
    std::string text;
    for (const std::uint8_t byte : device_.adapter.uuid) text += fmt::format("{:02x}", byte);
    return text;
  }

 private:
  /// Two events around one piece of work.
  struct Timed {
    void* begin = nullptr;
    void* end = nullptr;
    bool running = false;
  };
  struct Mapped {
    void* memory = nullptr;  ///< null: CUDA's own, which the device imports
    cuda::Address begin = 0;
    std::size_t reserved = 0;
  };

  void check(cuda::Result result, const char* call) const {
    if (result != 0)
      throw DeviceError(fmt::format("{}: {} failed: {}", device_.device.str(), call, cuda_.text(result)));
  }

  void* imported(VkSemaphore semaphore) const {
    auto info = structure<VkSemaphoreGetFdInfoKHR>(VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR);
    info.semaphore = semaphore;
    info.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
    cuda::ExternalSemaphore shared{};
    shared.type = cuda::kTimelineSemaphoreFd;
    vulkan::check(device_.vk.vkGetSemaphoreFdKHR(device_.handle, &info, &shared.handle.fd), "vkGetSemaphoreFdKHR");
    void* made = nullptr;
    check(cuda_.import_semaphore(&made, &shared), "cuImportExternalSemaphore");
    return made;
  }

  /// Maps memory of this GPU, or another one, for this one.
  cuda::Address map_here(cuda::Handle handle, std::size_t bytes) const {
    cuda::Address at = 0;
    check(cuda_.reserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve");
    const cuda::Access access{{cuda::kOnDevice, gpu_}, cuda::kReadAndWrite};
    cuda::Result wrong = cuda_.map(at, bytes, 0, handle, 0);
    if (wrong == 0 && (wrong = cuda_.set_access(at, bytes, &access, 1)) != 0) cuda_.unmap(at, bytes);
    if (wrong != 0) cuda_.unreserve(at, bytes);
    check(wrong, "mapping of shared memory");
    return at;
  }

  /// CUDA's address of bytes of the device.
  cuda::Address mapped(const Range& range) {
    const Buffer* buffer = segments_.buffer_at(range.address);
    const auto known = buffer == nullptr ? mapped_.end() : mapped_.find(buffer->address);
    if (known != mapped_.end()) return known->second.begin + (range.address - buffer->address);
    if (buffer == nullptr || buffer->shareable == 0)
      throw DeviceError(
          fmt::format("{}: memory at {:#x} cannot be shared with CUDA; it was allocated before "
                      "distributed::init(), or for the host",
                      device_.device.str(), range.address));
    const Mapped made = map(*buffer);
    mapped_[buffer->address] = made;
    return made.begin + (range.address - buffer->address);
  }

  Mapped map(const Buffer& buffer) const {
    auto info = structure<VkMemoryGetFdInfoKHR>(VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR);
    info.memory = buffer.memory;
    info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    cuda::ExternalMemory shared{};
    shared.type = cuda::kOpaqueFd;
    shared.size = buffer.shareable;
    vulkan::check(device_.vk.vkGetMemoryFdKHR(device_.handle, &info, &shared.handle.fd), "vkGetMemoryFdKHR");
    Mapped made;
    check(cuda_.import_memory(&made.memory, &shared), "cuImportExternalMemory");
    cuda::ExternalBuffer whole{};
    whole.size = buffer.bytes;
    if (const cuda::Result r = cuda_.map_buffer(&made.begin, made.memory, &whole); r != 0) {
      cuda_.destroy_memory(made.memory);
      check(r, "cuExternalMemoryGetMappedBuffer");
    }
    return made;
  }

  void forget(const Buffer& buffer) {
    const auto found = mapped_.find(buffer.address);
    if (found == mapped_.end()) return;
    cuda_.set_context(context_);
    const Mapped& mapped = found->second;
    if (mapped.memory == nullptr) {
      cuda_.unmap(mapped.begin, mapped.reserved);
      cuda_.unreserve(mapped.begin, mapped.reserved);
    } else {
      cuda_.free(mapped.begin);
      cuda_.destroy_memory(mapped.memory);
    }
    mapped_.erase(found);
  }

  void begin(std::uint64_t after, const gpu::ForeignCall& call, std::uint64_t number) override {
    const std::lock_guard lock(ordering_);
    enter();
    cuda::SemaphoreValue at{};
    at.value = after;
    if (std::exchange(awaited_, after) != after)
      check(cuda_.wait(&begin_, &at, 1, stream_), "cuWaitExternalSemaphoresAsync");
    std::exception_ptr wrong;
    Timed* timed = is_sampled(number) ? start_timing() : nullptr;
    try {
      reads_.clear(), writes_.clear();
      for (const Range& range : call.reads) reads_.push_back(mapped(range));
      for (const Range& range : call.writes) writes_.push_back(mapped(range));
      call.work->queue(stream_, reads_, writes_);
    } catch (...) {
      wrong = std::current_exception();
    }
    stop_timing(timed);
    on_stream_ = number;
    if (call.awaited) raise_to(number);
    if (wrong) std::rethrow_exception(wrong);
  }

  void raise() override {
    const std::lock_guard lock(ordering_);
    enter();
    raise_to(on_stream_);
  }

  // A signal takes as long as a small collective, so only what somebody waits for is signalled.
  void raise_to(std::uint64_t number) {
    if (raised_ >= number) return;
    cuda::SemaphoreValue at{};
    at.value = raised_ = number;
    check(cuda_.signal(&end_, &at, 1, stream_), "cuSignalExternalSemaphoresAsync");
  }

  /// Null where all events are in use.
  Timed* start_timing() {
    const std::lock_guard lock(timing_);
    const auto free = std::find_if(timed_.begin(), timed_.end(), [](const Timed& t) { return !t.running; });
    if (free == timed_.end()) return nullptr;
    if (free->end == nullptr && (cuda_.create_event(&free->begin, 0) != 0 || cuda_.create_event(&free->end, 0) != 0))
      return nullptr;
    return cuda_.record(free->begin, stream_) == 0 ? &*free : nullptr;
  }
  void stop_timing(Timed* timed) {
    const std::lock_guard lock(timing_);
    if (timed != nullptr) timed->running = cuda_.record(timed->end, stream_) == 0;
  }

  BufferSegments& segments_;
  AdoptBuffer adopt_;
  const cuda::Driver& cuda_;
  const cuda::DeviceIndex gpu_;
  void* context_ = nullptr;
  void* stream_ = nullptr;
  void* copies_ = nullptr;  ///< the stream of copy()
  std::array<void*, 256> copy_events_{};
  std::uint64_t copy_number_ = 0;
  void* begin_ = nullptr;  ///< to(), as CUDA knows it
  void* end_ = nullptr;    ///< from()
  std::map<std::uint64_t, Mapped> mapped_;
  std::mutex ordering_;          ///< of what is queued on the stream
  std::uint64_t awaited_ = 0;    ///< by the stream, of the device
  std::uint64_t on_stream_ = 0;  ///< the last number there: queued() comes to it before the work does
  std::uint64_t raised_ = 0;     ///< the last number that the stream signals
  std::vector<std::uint64_t> reads_, writes_;
  std::mutex timing_;
  std::array<Timed, 64> timed_{};
  double busy_ = 0;
};

}  // namespace

std::unique_ptr<ForeignQueue> make_cuda_queue(const LogicalDevice& device, BufferSegments& segments, AdoptBuffer adopt,
                                              std::string& why) {
  if (!device.adapter.exports_memory) {
    why = fmt::format("the driver of {} shares no memory", device.device.str());
    return nullptr;
  }
  const cuda::Driver* driver = cuda::driver(why);
  if (driver == nullptr) return nullptr;
  int count = 0;
  driver->device_count(&count);
  for (int i = 0; i < count; ++i) {
    cuda::DeviceIndex gpu = 0;
    cuda::Uuid uuid{};
    if (driver->device(&gpu, i) != 0 || driver->uuid(&uuid, gpu) != 0 || uuid.bytes != device.adapter.uuid) continue;
    return std::make_unique<CudaQueue>(device, segments, std::move(adopt), *driver, gpu);
  }
  why = fmt::format("{} is none of CUDA's {} devices (CUDA_VISIBLE_DEVICES hides those that it does not name)",
                    device.device.str(), count);
  return nullptr;
}

}  // namespace etna::vulkan
