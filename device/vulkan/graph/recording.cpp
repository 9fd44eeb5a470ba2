#include <etna/device/vulkan/graph/recording.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/graph/memory_plan.h>
#include <etna/device/graph/schedule.h>
#include <etna/device/vulkan/graph/compiled_commands.h>
#include <etna/device/vulkan/graph/fusion/fuse.h>
#include <etna/device/vulkan/graph/fusion/glsl.h>

namespace etna::vulkan {
namespace {

using graph::Accesses;
using graph::group_commands;
using graph::Lifetime;
using graph::MemoryPlan;
using graph::plan_memory;

/// Placeholder addresses begin here. Device addresses are canonical: their upper bits, above the 48 or 57 that are
/// translated, are all equal, so none has 01 as its highest two bits.
constexpr std::uint64_t kBase = std::uint64_t{1} << 62;
constexpr std::uint64_t kSpan = std::uint64_t{1} << 44;
constexpr std::size_t kAlign = 256;
constexpr std::size_t kMaxNumberBytes = 65536;
/// Below what drivers allocate at once (slightly less than 4 GiB), and a size that the allocator does not round up.
constexpr std::size_t kLargestChunk = std::size_t{7} << 29;

thread_local Recording* current_recording = nullptr;

/// Placeholder addresses increase over all recordings, so that those of a failed recording are recognized as stale.
/// Each recording has at least half of the range.
std::atomic<std::uint64_t> next_placeholder{0};

void begin_placeholders() {
  if (next_placeholder > kSpan / 2) next_placeholder = 0;
}

std::uint64_t take_addresses(std::size_t bytes) {
  // A gap follows each placeholder, so that an address one past its end belongs to no other. A request that is far too
  // large leaves the counter unchanged, since all recordings share it.
  const bool fits = bytes <= kSpan / 2;
  const std::uint64_t run = fits ? (bytes + 2 * kAlign - 1) / kAlign * kAlign : 0, at = next_placeholder.fetch_add(run);
  if (!fits || at + run > kSpan) {
    throw OutOfMemory(fmt::format("a captured step asks for more than {} TiB in all", (kSpan / 2) >> 40));
  }
  return kBase + at;
}

/// A storage created while recording.
struct Placeholder {
  Placeholder(std::uint64_t at, std::size_t size) : address(at), bytes(size) {}

  std::uint64_t address;
  std::size_t bytes;
  std::weak_ptr<Storage> storage;
  std::vector<std::byte> constant;       ///< its bytes, if they never change
  std::vector<std::uint32_t> addresses;  ///< offsets of addresses in `constant`
  bool used = false;
  std::uint32_t first = 0, last = 0;  ///< first and last group that uses it
  std::uint64_t real = 0;             ///< its address, once it has memory
  StoragePtr own;                     ///< that memory, if not shared
};

}  // namespace

struct Recording::Parts {
  Device device;
  Context& context;
  CommandList list;
  std::vector<fusion::FusionInfo> infos;  ///< one per command
  std::vector<Placeholder> placeholders;  ///< in order of address
  std::vector<Range> pins;
  StoragePtr numbers;  ///< the first placeholder: the block that the host writes before each run
  std::size_t number_bytes = 0;
  bool one_by_one = false;

  explicit Parts(Device d) : device(d), context(Context::of(d)) {}

  Placeholder* find(std::uint64_t address) {
    auto next = std::upper_bound(placeholders.begin(), placeholders.end(), address,
                                 [](std::uint64_t at, const Placeholder& p) { return at < p.address; });
    if (next == placeholders.begin()) return nullptr;
    Placeholder& found = *std::prev(next);
    return address <= found.address + found.bytes ? &found : nullptr;
  }

  void add(Command command, std::string_view op, std::span<const Range> reads, std::span<const Range> writes);
  void push(Command& command, const Arguments& arguments);
  bool is_pinned(const Range& range) const;
  void require_known(const Command& command, const Range& range);
  std::vector<Accesses> accesses() const;
  Pointer make_constant(const Arguments& rows);
  void relocate(std::span<std::byte> bytes, std::span<const std::uint32_t> addresses, const char* op);
  void fuse(GraphFigures& figures);
  void set_lifetimes();
  std::uint64_t relocated(std::uint64_t address, const char* op);
  StoragePtr give_memory(Placeholder& placeholder, std::vector<StoragePtr>& storages);
  void plan(std::vector<StoragePtr>& storages, GraphFigures& figures);
};

Recording::Recording(Device device, const GraphOptions& options) : parts_(std::make_unique<Parts>(device)) {
  parts_->one_by_one = options.one_by_one;
  begin_placeholders();
  parts_->numbers = allocate_placeholder(kMaxNumberBytes);
}

Recording::~Recording() {
  if (current_recording == this) current_recording = nullptr;
}

Recording* Recording::current() { return current_recording; }
void Recording::enter() { current_recording = this; }
void Recording::leave() { current_recording = nullptr; }
Device Recording::device() const { return parts_->device; }
bool Recording::is_placeholder(std::uint64_t address) { return address - kBase < kSpan; }

StoragePtr Recording::allocate(std::size_t bytes) { return allocate_placeholder(bytes); }

StoragePtr Recording::allocate_placeholder(std::size_t bytes) {
  std::uint64_t address = take_addresses(bytes);
  if (!parts_->placeholders.empty() && address <= parts_->placeholders.back().address) {
    throw CaptureError("another thread began a capture just when placeholder addresses began anew; capture again");
  }
  auto storage = std::make_shared<Storage>(parts_->device, bytes, nullptr, address, nullptr);
  parts_->placeholders.emplace_back(address, bytes);
  parts_->placeholders.back().storage = storage;
  return storage;
}

void Recording::pin(const StoragePtr& storage) {
  if (!is_placeholder(storage->address())) parts_->pins.push_back({storage->address(), storage->bytes()});
}

std::size_t Recording::reserve_numbers(std::size_t bytes) {
  std::size_t place = (parts_->number_bytes + 15) / 16 * 16;
  if (place + bytes > kMaxNumberBytes) {
    throw CaptureError(fmt::format("a captured step wants {} bytes of numbers that change from run to run, {} fit",
                                   place + bytes, kMaxNumberBytes));
  }
  parts_->number_bytes = place + bytes;
  return place;
}
const StoragePtr& Recording::numbers() const { return parts_->numbers; }

void Recording::Parts::add(Command command, std::string_view op, std::span<const Range> reads,
                           std::span<const Range> writes) {
  std::memcpy(command.op.data(), op.data(), std::min(op.size(), command.op.size() - 1));
  command.labels = profile::Labels::now();
  command.ranges_begin = static_cast<std::uint32_t>(list.ranges.size());
  command.reads = static_cast<std::uint32_t>(reads.size());
  command.writes = static_cast<std::uint32_t>(writes.size());
  list.ranges.insert(list.ranges.end(), reads.begin(), reads.end());
  list.ranges.insert(list.ranges.end(), writes.begin(), writes.end());
  list.commands.push_back(command);
  infos.resize(list.commands.size());
}

void Recording::Parts::push(Command& command, const Arguments& arguments) {
  list.push(command, arguments.bytes());
  command.addresses_begin = static_cast<std::uint32_t>(list.addresses.size());
  command.addresses = static_cast<std::uint32_t>(arguments.addresses().size());
  for (const Arguments::Address& a : arguments.addresses()) list.addresses.push_back(a.offset);
}

void Recording::dispatch(const Dispatch& d, Pipeline& pipeline) {
  Command command;
  command.pipeline = &pipeline;
  command.groups = d.groups;
  parts_->push(command, d.arguments);
  parts_->add(command, d.op, d.arguments.reads(), d.arguments.writes());
  if (d.elementwise != nullptr) {
    parts_->infos.back() = *d.elementwise;
  } else if (d.through != nullptr) {
    PrologueFusion through = *d.through;
    through.spec.assign(d.spec.begin(), d.spec.end());
    parts_->infos.back() = std::move(through);
  }
}

void Recording::launch(const CubinDispatch& d, void* function) {
  Command command;
  command.kind = Command::Kind::cubin;
  command.cubin = {static_cast<VkCuFunctionNVX>(function), d.groups, d.threads, d.shared_bytes};
  parts_->push(command, d.arguments);
  parts_->add(command, d.op, d.arguments.reads(), d.arguments.writes());
}

void Recording::copy(std::uint64_t from, std::uint64_t to, std::size_t bytes) {
  Command command;
  command.kind = Command::Kind::copy;
  const Range read{from, bytes}, write{to, bytes};
  parts_->add(command, "copy", {&read, 1}, {&write, 1});
}

void Recording::fill(std::uint64_t to, std::size_t bytes, std::uint32_t word) {
  Command command;
  command.kind = Command::Kind::fill;
  command.word = word;
  const Range write{to, bytes};
  parts_->add(command, "fill", {}, {&write, 1});
}

void Recording::constant(std::uint64_t to, const Arguments& rows) {
  Placeholder* found = parts_->find(to);
  if (found == nullptr) throw CaptureError("bytes from the host go to a tensor that was there before the capture");
  const std::size_t offset = to - found->address, end = offset + rows.bytes().size();
  found->constant.resize(std::max(found->constant.size(), end));
  std::copy(rows.bytes().begin(), rows.bytes().end(), found->constant.begin() + static_cast<std::ptrdiff_t>(offset));
  // Overwrites earlier content of the same range, including its addresses.
  std::erase_if(found->addresses, [&](std::uint32_t at) { return at + 8 > offset && at < end; });
  for (const Arguments::Address& a : rows.addresses()) {
    found->addresses.push_back(static_cast<std::uint32_t>(offset) + a.offset);
  }
}

std::vector<Accesses> Recording::Parts::accesses() const {
  std::vector<Accesses> all;
  for (const Command& c : list.commands) all.push_back({list.reads(c), list.writes(c)});
  return all;
}

Pointer Recording::Parts::make_constant(const Arguments& rows) {
  const std::uint64_t address = take_addresses(rows.bytes().size());
  Placeholder& made = placeholders.emplace_back(address, rows.bytes().size());
  made.constant.assign(rows.bytes().begin(), rows.bytes().end());
  for (const Arguments::Address& a : rows.addresses()) made.addresses.push_back(a.offset);
  return {address, {address, rows.bytes().size()}};
}

void Recording::Parts::fuse(GraphFigures& figures) {
  std::vector<Range> dropped;
  for (std::size_t i = 1; i < placeholders.size(); ++i) {
    const Placeholder& p = placeholders[i];
    if (p.storage.expired() && p.constant.empty()) dropped.push_back({p.address, p.bytes});
  }
  const fusion::Figures f =
      fusion::fuse(context, list, infos, dropped, [this](const Arguments& rows) { return make_constant(rows); });
  figures.fused_commands = f.commands;
  figures.fused_kernels = f.kernels;
  figures.compiled_kernels = f.compiled;
  figures.fused_bytes = f.bytes;
  figures.compile_ms = f.compile_ms;
}

/// Whether the range is in memory from before the recording, of a tensor that the step was given. `pins` are sorted.
bool Recording::Parts::is_pinned(const Range& range) const {
  auto next = std::upper_bound(pins.begin(), pins.end(), range.address,
                               [](std::uint64_t at, const Range& r) { return at < r.address; });
  if (next == pins.begin()) return false;
  const Range& found = *std::prev(next);
  return range.address + range.bytes <= found.address + found.bytes;
}

/// Every range must be in a known storage: otherwise the program could neither keep it alive nor relocate it.
void Recording::Parts::require_known(const Command& command, const Range& range) {
  if (range.bytes == 0) return;
  if (is_placeholder(range.address)) {
    Placeholder* found = find(range.address);
    if (found == nullptr) {
      throw CaptureError(fmt::format("{}: works on a tensor from a capture that failed", command.op.data()));
    }
    return;
  }
  if (is_pinned(range)) return;
  throw CaptureError(
      fmt::format("{}: works on memory that belongs to none of the tensors it was given", command.op.data()));
}

void Recording::Parts::set_lifetimes() {
  std::sort(pins.begin(), pins.end(), [](const Range& a, const Range& b) { return a.address < b.address; });
  for (const Command& c : list.commands) {
    for (std::uint32_t r = 0; r < c.reads + c.writes; ++r) {
      const Range& range = list.ranges[c.ranges_begin + r];
      require_known(c, range);
      if (range.bytes == 0 || !is_placeholder(range.address)) continue;
      Placeholder& p = *find(range.address);
      if (!p.used) p.first = p.last = c.group;
      p.used = true;
      p.first = std::min(p.first, c.group);
      p.last = std::max(p.last, c.group);
    }
  }
}

std::uint64_t Recording::Parts::relocated(std::uint64_t address, const char* op) {
  if (!is_placeholder(address)) return address;
  Placeholder* found = find(address);
  if (found == nullptr) throw CaptureError(fmt::format("{}: works on a tensor from a capture that failed", op));
  if (found->real == 0) return 0;  // nothing uses it: an empty tensor's, or meant for another kernel of the same op
  return found->real + (address - found->address);
}

void Recording::Parts::relocate(std::span<std::byte> bytes, std::span<const std::uint32_t> addresses, const char* op) {
  for (std::uint32_t at : addresses) {
    std::uint64_t address;
    std::memcpy(&address, bytes.data() + at, sizeof(address));
    address = relocated(address, op);
    std::memcpy(bytes.data() + at, &address, sizeof(address));
  }
}

/// Allocates memory for this placeholder alone.
StoragePtr Recording::Parts::give_memory(Placeholder& p, std::vector<StoragePtr>& storages) {
  p.own = etna::allocate(device, p.bytes);
  p.real = p.own->address();
  storages.push_back(p.own);
  return p.own;
}

void Recording::Parts::plan(std::vector<StoragePtr>& storages, GraphFigures& figures) {
  std::vector<Lifetime> lifetimes;
  std::vector<Placeholder*> planned;
  std::vector<std::pair<StoragePtr, StoragePtr>> kept;  // storages still referenced, and their memory
  for (std::size_t i = 1; i < placeholders.size(); ++i) {
    Placeholder& p = placeholders[i];
    if (StoragePtr alive = p.storage.lock()) {
      kept.emplace_back(alive, give_memory(p, storages));
      figures.kept_bytes += p.bytes;
    } else if (!p.constant.empty()) {
      give_memory(p, storages);
      figures.constant_bytes += p.bytes;
    } else if (p.used) {
      planned.push_back(&p);
      lifetimes.push_back({p.bytes, p.first, p.last});
    }
  }
  MemoryPlan plan = plan_memory(lifetimes, std::min(kLargestChunk, context.logical.adapter.max_allocation));
  std::vector<StoragePtr> chunks;
  for (std::size_t bytes : plan.chunks) chunks.push_back(etna::allocate(device, bytes));
  for (std::size_t i = 0; i < planned.size(); ++i) {
    planned[i]->real = chunks[plan.places[i].chunk]->address() + plan.places[i].offset;
  }
  storages.insert(storages.end(), chunks.begin(), chunks.end());
  // Only now, when no allocation can fail any more.
  for (auto& [storage, own] : kept) storage->rebind(own, 0);
  figures.planned_bytes = plan.planned;
  figures.live_bytes = plan.live;
  figures.naive_bytes = plan.naive;
}

std::unique_ptr<Executable> Recording::compile() {
  Parts& parts = *parts_;
  CommandList& list = parts.list;
  GraphFigures figures;
  Hazards hazards;
  for (const Command& c : list.commands) {
    if (hazards.access(c.stage(), list.reads(c), list.writes(c))) ++figures.barriers_in_order;
  }
  if (fusion::enabled() && !parts.one_by_one) parts.fuse(figures);
  std::vector<std::uint32_t> groups(list.commands.size());
  if (parts.one_by_one)
    std::iota(groups.begin(), groups.end(), 0u);
  else
    groups = group_commands(parts.accesses());
  for (std::size_t i = 0; i < list.commands.size(); ++i) {
    Command& c = list.commands[i];
    c.group = groups[i];
    ++(c.stage() == kCompute ? figures.dispatches : figures.transfers);
    figures.groups = std::max(figures.groups, c.group + 1);
  }
  figures.barriers = figures.groups;  // one between groups, and one before the first
  parts.set_lifetimes();
  std::stable_sort(list.commands.begin(), list.commands.end(),
                   [](const Command& a, const Command& b) { return a.group < b.group; });

  std::vector<StoragePtr> storages;
  StoragePtr numbers;
  if (parts.number_bytes > 0) {
    parts.placeholders[0].bytes = parts.number_bytes;
    numbers = parts.give_memory(parts.placeholders[0], storages);
    figures.constant_bytes += parts.number_bytes;
  }
  parts.plan(storages, figures);
  if (numbers) parts.numbers->rebind(numbers, 0);
  for (const Command& c : list.commands) {
    parts.relocate(std::span(list.pushes).subspan(c.push_begin, c.push_bytes),
                   std::span(list.addresses).subspan(c.addresses_begin, c.addresses), c.op.data());
  }
  for (const Command& c : list.commands) {
    for (Range& r : std::span(list.ranges).subspan(c.ranges_begin, c.reads + c.writes)) {
      r.address = parts.relocated(r.address, c.op.data());
    }
  }
  for (Placeholder& p : parts.placeholders) {
    if (p.constant.empty()) continue;
    parts.relocate(p.constant, p.addresses, "a table");
    for (std::size_t at = 0; at < p.constant.size(); at += 65536) {
      gpu::record_update(parts.device, *p.own, at,
                         std::span(p.constant).subspan(at, std::min<std::size_t>(65536, p.constant.size() - at)));
    }
  }
  return std::make_unique<CompiledCommands>(parts.context, std::move(list), std::move(storages), std::move(numbers),
                                            figures);
}

}  // namespace etna::vulkan
