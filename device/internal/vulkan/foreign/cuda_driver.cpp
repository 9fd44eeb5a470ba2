#include <etna/device/internal/vulkan/foreign/cuda_driver.h>

#include <fmt/format.h>

#include <etna/device/internal/os/library.h>

namespace etna::vulkan::cuda {
namespace {

#ifdef _WIN32
constexpr const char* kDriverLibrary = "nvcuda.dll";
#else
constexpr const char* kDriverLibrary = "libcuda.so.1";
#endif

struct Loaded {
  Driver driver;
  std::string why;

  Loaded() {
    std::string error;
    void* library = os::open_library(kDriverLibrary, error);
    if (library == nullptr) {
      why = fmt::format("there is no CUDA driver ({})", error);
      return;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(os::find_function(library, name));
      if (function == nullptr && why.empty()) why = fmt::format("the CUDA driver is too old: it has no {}", name);
    };
    Driver& d = driver;
    find(d.init, "cuInit");
    find(d.device_count, "cuDeviceGetCount");
    find(d.device, "cuDeviceGet");
    find(d.uuid, "cuDeviceGetUuid");
    find(d.retain_context, "cuDevicePrimaryCtxRetain");
    find(d.set_context, "cuCtxSetCurrent");
    find(d.create_stream, "cuStreamCreateWithPriority");
    find(d.priorities, "cuCtxGetStreamPriorityRange");
    find(d.import_memory, "cuImportExternalMemory");
    find(d.map_buffer, "cuExternalMemoryGetMappedBuffer");
    find(d.destroy_memory, "cuDestroyExternalMemory");
    find(d.free, "cuMemFree_v2");
    find(d.import_semaphore, "cuImportExternalSemaphore");
    find(d.signal, "cuSignalExternalSemaphoresAsync");
    find(d.wait, "cuWaitExternalSemaphoresAsync");
    find(d.granularity, "cuMemGetAllocationGranularity");
    find(d.create_memory, "cuMemCreate");
    find(d.release_memory, "cuMemRelease");
    find(d.reserve, "cuMemAddressReserve");
    find(d.unreserve, "cuMemAddressFree");
    find(d.map, "cuMemMap");
    find(d.unmap, "cuMemUnmap");
    find(d.set_access, "cuMemSetAccess");
    find(d.export_memory, "cuMemExportToShareableHandle");
    find(d.import_shareable, "cuMemImportFromShareableHandle");
    find(d.copy, "cuMemcpyDtoDAsync_v2");
    find(d.create_event, "cuEventCreate");
    find(d.record, "cuEventRecord");
    find(d.query, "cuEventQuery");
    find(d.elapsed, "cuEventElapsedTime");
    find(d.error_text, "cuGetErrorString");
    if (!why.empty()) return;
    if (const Result r = d.init(0); r != 0) why = fmt::format("the CUDA driver does not start: {}", d.text(r));
  }
};

}  // namespace

std::string Driver::text(Result result) const {
  const char* text = nullptr;
  if (error_text(result, &text) != 0 || text == nullptr) return fmt::format("CUDA error {}", result);
  return text;
}

const Driver* driver(std::string& why) {
  static const auto* loaded = new Loaded;
  why = loaded->why;
  return why.empty() ? &loaded->driver : nullptr;
}

}  // namespace etna::vulkan::cuda
