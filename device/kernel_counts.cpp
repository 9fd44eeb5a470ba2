#include <etna/device/kernel_counts.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/device/internal/counting.h>
#include <etna/device/internal/device_queue.h>

namespace etna {
namespace counting {
namespace {

/// The first word of a SPIR-V instruction is its length in words and its opcode. OpCapability comes first of all.
constexpr std::uint32_t kOpCapability = 17, kCooperativeMatrixKhr = 6022, kSpirvHeader = 5;

struct StoredKernel {
  Device device;
  std::string kernel, op;
  std::vector<std::uint32_t> constants;
  std::string path;
  Row row;
};

struct StoredDetour {
  Detour detour;
  Device device;
  std::string op;
  Row row;
};

/// Never destroyed: threads may end after static objects are destroyed.
struct CountTable {
  std::shared_mutex mutex;
  std::unordered_multimap<std::size_t, std::unique_ptr<StoredKernel>> kernels;  ///< by hash_of()
  std::map<std::tuple<Detour, Device, std::string>, std::unique_ptr<StoredDetour>> detours;
  std::atomic<std::uint64_t> replays{0};
};

CountTable& count_table() {
  static auto* made = new CountTable;
  return *made;
}

constinit thread_local bool in_replay = false;

std::size_t hash_of(const KernelKey& key) {
  std::size_t hash = static_cast<std::size_t>(key.device.type) * 257 + key.device.index;
  const auto mix = [&](std::size_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15u + (hash >> 29); };
  mix(std::hash<std::string_view>{}(key.kernel));
  mix(std::hash<std::string_view>{}(key.op));
  for (const std::uint32_t constant : key.constants) mix(constant);
  return hash;
}

bool same(const StoredKernel& stored, const KernelKey& key) {
  return stored.device == key.device && stored.kernel == key.kernel && stored.op == key.op &&
         std::equal(stored.constants.begin(), stored.constants.end(), key.constants.begin(), key.constants.end());
}

StoredKernel* stored_kernel(const CountTable& table, std::size_t hash, const KernelKey& key) {
  const auto [begin, end] = table.kernels.equal_range(hash);
  for (auto at = begin; at != end; ++at)
    if (same(*at->second, key)) return at->second.get();
  return nullptr;
}

bool comes_before(const KernelCount& a, const KernelCount& b) {
  return std::tie(a.device, a.kernel, a.op, a.path, a.variant) < std::tie(b.device, b.kernel, b.op, b.path, b.variant);
}

KernelCounts totals() {
  CountTable& table = count_table();
  KernelCounts counts;
  std::shared_lock lock(table.mutex);
  for (const auto& [hash, stored] : table.kernels) {
    counts.kernels.push_back({.device = stored->device,
                              .kernel = stored->kernel,
                              .op = stored->op,
                              .path = stored->path,
                              .variant = fmt::format("{}", fmt::join(stored->constants, ",")),
                              .eager = stored->row.eager,
                              .replayed = stored->row.replayed,
                              .launches = stored->row.launches});
  }
  for (const auto& [key, stored] : table.detours)
    counts.detours.push_back(
        {stored->detour, stored->device, stored->op, stored->row.eager.load(), stored->row.replayed.load()});
  counts.replays = table.replays;
  lock.unlock();
  std::sort(counts.kernels.begin(), counts.kernels.end(), comes_before);
  return counts;
}

}  // namespace

Row& row(const KernelKey& key, const std::function<std::string()>& path) {
  CountTable& table = count_table();
  const std::size_t hash = hash_of(key);
  {
    std::shared_lock lock(table.mutex);
    if (StoredKernel* stored = stored_kernel(table, hash, key)) return stored->row;
  }
  std::unique_lock lock(table.mutex);
  if (StoredKernel* stored = stored_kernel(table, hash, key)) return stored->row;
  auto made = std::make_unique<StoredKernel>();
  made->device = key.device;
  made->kernel = key.kernel;
  made->op = key.op;
  made->constants.assign(key.constants.begin(), key.constants.end());
  made->path = path();
  return table.kernels.emplace(hash, std::move(made))->second->row;
}

Row& row(Device device, const gpu::Dispatch& dispatch) {
  return row({device, dispatch.shader.name, dispatch.op, dispatch.spec},
             [&] { return path_of(dispatch.shader.words); });
}

Row& row(Device device, const gpu::CubinDispatch& dispatch) {
  return row({device, dispatch.kernel.name, dispatch.op}, [&] { return path_of(dispatch.kernel); });
}

Row& row_of_bytes(Device device, std::string_view command) {
  return row({device, command, command}, [&] { return std::string(command); });
}

Row& row(Detour detour, Device device, std::string_view op) {
  CountTable& table = count_table();
  std::unique_lock lock(table.mutex);
  auto& stored = table.detours[{detour, device, std::string(op)}];
  if (stored == nullptr) {
    stored = std::make_unique<StoredDetour>();
    stored->detour = detour;
    stored->device = device;
    stored->op = op;
  }
  return stored->row;
}

void ran(Row& row) {
  (in_replay ? row.replayed : row.eager).fetch_add(1, std::memory_order_relaxed);
  row.launches.fetch_add(1, std::memory_order_relaxed);
}

void replayed(Row& row, std::uint64_t runs, std::uint64_t launches) {
  row.replayed.fetch_add(runs, std::memory_order_relaxed);
  row.launches.fetch_add(launches, std::memory_order_relaxed);
}

void replay() { count_table().replays.fetch_add(1, std::memory_order_relaxed); }

InReplay::InReplay() : before_(std::exchange(in_replay, true)) {}
InReplay::~InReplay() { in_replay = before_; }

std::string path_of(std::span<const std::uint32_t> spirv) {
  constexpr std::uint32_t kInstruction = 2u << 16 | kOpCapability;
  for (std::size_t at = kSpirvHeader; at + 1 < spirv.size() && spirv[at] == kInstruction; at += 2) {
    if (spirv[at + 1] == kCooperativeMatrixKhr) return "SPIR-V, cooperative matrix";
  }
  return "SPIR-V";
}

std::string path_of(const gpu::CubinKernel& kernel) { return fmt::format("cubin sm_{}", kernel.architecture); }

}  // namespace counting

const char* name(Detour detour) {
  switch (detour) {
    case Detour::fallback:
      return "fallback";
    case Detour::reference:
      return "reference";
    case Detour::composed:
      return "composed";
  }
  return "?";
}

std::uint64_t KernelCounts::runs(Device device) const {
  std::uint64_t sum = 0;
  for (const KernelCount& k : kernels) sum += k.device == device ? k.runs() : 0;
  return sum;
}

std::uint64_t KernelCounts::runs(Detour detour) const {
  std::uint64_t sum = 0;
  for (const DetourCount& d : detours) sum += d.detour == detour ? d.runs() : 0;
  return sum;
}

KernelCounts difference(const KernelCounts& after, const KernelCounts& before) {
  KernelCounts since;
  for (KernelCount count : after.kernels) {
    const auto then = std::lower_bound(before.kernels.begin(), before.kernels.end(), count, counting::comes_before);
    if (then != before.kernels.end() && !counting::comes_before(count, *then)) {
      count.eager -= then->eager;
      count.replayed -= then->replayed;
      count.launches -= then->launches;
    }
    if (count.runs() > 0) since.kernels.push_back(std::move(count));
  }
  for (DetourCount count : after.detours) {
    const auto then = std::find_if(before.detours.begin(), before.detours.end(), [&](const DetourCount& d) {
      return d.detour == count.detour && d.device == count.device && d.op == count.op;
    });
    if (then != before.detours.end()) {
      count.eager -= then->eager;
      count.replayed -= then->replayed;
    }
    if (count.runs() > 0) since.detours.push_back(std::move(count));
  }
  since.replays = after.replays - before.replays;
  return since;
}

CountKernels::CountKernels() {
  DeviceQueue::of_backends();  // queues what was called before
  counting::detail::users.fetch_add(1);
  before_ = counting::totals();
}

CountKernels::~CountKernels() { counting::detail::users.fetch_sub(1); }

KernelCounts CountKernels::counts() const {
  DeviceQueue::of_backends();
  return difference(counting::totals(), before_);
}

}  // namespace etna
