#include <cstdlib>
#include <type_traits>

#include <fmt/format.h>

#include <etna/device/internal/os/library.h>
#include <etna/dist/internal/nccl.h>

namespace etna::distributed::nccl {
namespace {

struct LoadedNccl {
  Library library;
  std::string why;

  LoadedNccl() {
    const char* named = std::getenv("ETNA_NCCL");
    std::string error;
    void* loaded = os::open_library(named != nullptr && *named != '\0' ? named : "libnccl.so.2", error);
    if (loaded == nullptr) {
      why = fmt::format("NCCL cannot be loaded ({}); install libnccl2, or set ETNA_NCCL to the file", error);
      return;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(os::find_function(loaded, name));
      if (function == nullptr && why.empty()) why = fmt::format("NCCL is too old: it has no {}", name);
    };
    Library& l = library;
    find(l.version, "ncclGetVersion");
    find(l.unique_id, "ncclGetUniqueId");
    find(l.join, "ncclCommInitRank");
    find(l.split, "ncclCommSplit");
    find(l.destroy, "ncclCommDestroy");
    find(l.abort, "ncclCommAbort");
    find(l.all_reduce, "ncclAllReduce");
    find(l.reduce_scatter, "ncclReduceScatter");
    find(l.all_gather, "ncclAllGather");
    find(l.broadcast, "ncclBroadcast");
    find(l.send, "ncclSend");
    find(l.receive, "ncclRecv");
    find(l.group_start, "ncclGroupStart");
    find(l.group_end, "ncclGroupEnd");
    find(l.error_text, "ncclGetErrorString");
    find(l.last_error, "ncclGetLastError");
    int version = 0;
    if (!why.empty() || l.version(&version) != 0) return;
    l.name = fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }
};

}  // namespace

const Library* library(std::string& why) {
  static const auto* loaded = new LoadedNccl;
  why = loaded->why;
  return why.empty() ? &loaded->library : nullptr;
}

}  // namespace etna::distributed::nccl
