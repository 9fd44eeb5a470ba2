#include <etna/device/internal/graph/storages.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <etna/device/capture_report.h>
#include <etna/device/error.h>
#include <etna/device/internal/graph/graph.h>
#include <etna/device/internal/graph/memory_plan.h>

namespace etna::graph {
namespace {

/// The placeholder addresses of commands, which all captures share.
constexpr std::uint64_t kShared = std::uint64_t{1} << 44;
constexpr std::size_t kStoragesAlign = 256;
constexpr std::size_t kMaxNumberBytes = 65536;

/// Placeholder addresses increase over all captures, so that those of a failed capture are recognized as stale.
/// Each capture has at least half of the range.
std::atomic<std::uint64_t> next_placeholder{0};

/// Allocates from the device, whatever hook this thread has.
StoragePtr allocate_now(Device device, std::size_t bytes) {
  struct WithoutHook {
    AllocationHook* before = set_allocation_hook(nullptr);
    ~WithoutHook() { set_allocation_hook(before); }
  } scope;
  return etna::allocate(device, bytes);
}

}  // namespace

Storages::Storages(Device device, GraphForm form) : device_(device), calls_(form == GraphForm::calls) {
  if (!calls_ && next_placeholder > kShared / 2) next_placeholder = 0;
}

std::uint64_t Storages::take_addresses(std::size_t bytes) {
  // A gap follows each placeholder, so that an address one past its end belongs to no other.
  const std::uint64_t run = (bytes + 2 * kStoragesAlign - 1) / kStoragesAlign * kStoragesAlign;
  // Those of calls never leave the graph.
  if (calls_) return kFirstPlaceholder + std::exchange(taken_, taken_ + run);
  // A request that is far too large leaves the counter unchanged, since all captures share it.
  const bool fits = std::uint64_t{bytes} <= kShared / 2;
  const std::uint64_t at = next_placeholder.fetch_add(fits ? run : 0);
  if (!fits || at + run > kShared) {
    throw OutOfMemory(fmt::format("a captured step asks for more than {} TiB in all", (kShared / 2) >> 40));
  }
  return kFirstPlaceholder + at;
}

Storages::Made& Storages::add(std::size_t bytes) {
  const std::uint64_t address = take_addresses(bytes);
  if (!made_.empty() && address <= made_.back().address) {
    throw CaptureError("another thread began a capture just when placeholder addresses began anew; capture again");
  }
  Made& made = made_.emplace_back();
  made.address = address;
  made.bytes = bytes;
  return made;
}

StoragePtr Storages::allocate(std::size_t bytes) {
  StoragePtr storage = calls_ ? allocate_now(device_, bytes) : nullptr;
  Made& made = add(bytes);
  auto placeholder = std::make_shared<Storage>(device_, bytes, nullptr, made.address, nullptr);
  if (calls_) {
    made.proxy = std::move(placeholder);
    place_[storage.get()] = made_.size() - 1;
  } else {
    storage = std::move(placeholder);
  }
  made.storage = storage;
  return storage;
}

bool Storages::made(const Storage& storage) const {
  return calls_ ? proxy(storage) != nullptr : is_placeholder(storage.address());
}

StoragePtr Storages::proxy(const Storage& storage) const {
  // An address alone is not enough: it may be another storage's by now.
  auto found = place_.find(&storage);
  if (found == place_.end() || made_[found->second].storage.lock().get() != &storage) return nullptr;
  return made_[found->second].proxy;
}

void Storages::pin(const StoragePtr& storage) {
  if (is_placeholder(storage->address())) return;
  pins_.push_back({storage->address(), storage->bytes()});
  pins_sorted_ = false;
}

NumberPlace Storages::reserve_numbers(std::size_t bytes) {
  if (calls_) return {allocate_now(device_, bytes), 0};
  const std::size_t place = (number_bytes_ + 15) / 16 * 16;
  if (place + bytes > kMaxNumberBytes) {
    throw CaptureError(fmt::format("a captured step wants {} bytes of numbers that change from run to run, {} fit",
                                   place + bytes, kMaxNumberBytes));
  }
  if (numbers_ == nullptr) {
    numbers_ = allocate(kMaxNumberBytes);
    numbers_at_ = made_.size() - 1;
  }
  number_bytes_ = place + bytes;
  return {numbers_, place};
}

Pointer Storages::constant(const Arguments& rows) {
  Made& made = add(rows.bytes().size());
  made.constant.assign(rows.bytes().begin(), rows.bytes().end());
  for (const Arguments::Address& a : rows.addresses()) made.addresses.push_back(a.offset);
  return {made.address, {made.address, made.bytes}};
}

void Storages::set_constant(std::uint64_t to, const Arguments& rows) {
  Made* found = find(to);
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

std::vector<MemoryRange> Storages::dropped() const {
  std::vector<MemoryRange> all;
  for (const Made& m : made_) {
    if (m.storage.expired() && m.constant.empty() && m.real == 0) all.push_back({m.address, m.bytes});
  }
  return all;
}

const Storages::Made* Storages::find(std::uint64_t address) const {
  auto next = std::upper_bound(made_.begin(), made_.end(), address,
                               [](std::uint64_t at, const Made& m) { return at < m.address; });
  if (next == made_.begin()) return nullptr;
  const Made& found = *std::prev(next);
  return address <= found.address + found.bytes ? &found : nullptr;
}
Storages::Made* Storages::find(std::uint64_t address) { return const_cast<Made*>(std::as_const(*this).find(address)); }

/// Whether the range is in memory from before the capture, of a tensor that the step was given.
bool Storages::is_pinned(const MemoryRange& range) {
  if (!pins_sorted_) {
    std::sort(pins_.begin(), pins_.end(),
              [](const MemoryRange& a, const MemoryRange& b) { return a.address < b.address; });
    pins_sorted_ = true;
  }
  auto next = std::upper_bound(pins_.begin(), pins_.end(), range.address,
                               [](std::uint64_t at, const MemoryRange& r) { return at < r.address; });
  if (next == pins_.begin()) return false;
  const MemoryRange& found = *std::prev(next);
  return range.address + range.bytes <= found.address + found.bytes;
}

void Storages::touch(const MemoryRange& range, std::uint32_t group, const char* op) {
  if (range.bytes == 0) return;
  if (!is_placeholder(range.address)) {
    // Otherwise nobody would keep it alive. A call's tensors are the caller's to check.
    if (calls_ || is_pinned(range)) return;
    throw CaptureError(fmt::format("{}: works on memory that belongs to none of the tensors it was given", op));
  }
  Made* found = find(range.address);
  if (found == nullptr) throw CaptureError(fmt::format("{}: works on a tensor from a capture that failed", op));
  if (!found->used) found->first = found->last = group;
  found->used = true;
  found->first = std::min(found->first, group);
  found->last = std::max(found->last, group);
}

/// Allocates memory for this storage alone.
const StoragePtr& Storages::give_memory(Made& made, MemoryUse use) {
  const MemoryScope scope(use);
  made.own = etna::allocate(device_, made.bytes);
  made.real = made.own->address();
  return memory_.emplace_back(made.own);
}

void Storages::plan(std::size_t largest_chunk, std::vector<StoragePtr>* shared, CaptureReport& report) {
  struct Rebound {
    StoragePtr storage, whole;
    std::size_t offset;
  };
  std::vector<Rebound> rebound;
  if (numbers_at_) {
    made_[*numbers_at_].bytes = number_bytes_;
    rebound.push_back({numbers_, give_memory(made_[*numbers_at_]), 0});
    report.constant_bytes += number_bytes_;
  }
  std::vector<Lifetime> lifetimes;
  std::vector<Made*> planned;
  for (std::size_t i = 0; i < made_.size(); ++i) {
    Made& m = made_[i];
    if (i == numbers_at_) continue;
    if (StoragePtr alive = m.storage.lock()) {
      report.kept_bytes += m.bytes;
      if (m.proxy) {
        m.real = alive->address();
        rebound.push_back({m.proxy, std::move(alive), 0});
      } else {
        // Gradients that replays leave are gradients; what nobody claims is the step's.
        const MemoryUse use = alive->use();
        rebound.push_back(
            {std::move(alive), give_memory(m, use == MemoryUse::activations ? MemoryUse::captured_steps : use), 0});
      }
    } else if (!m.constant.empty()) {
      give_memory(m);
      report.constant_bytes += m.bytes;
    } else if (m.real == 0 && (m.used || m.proxy)) {
      // A call may refer to a storage without touching it: through a tensor without elements, which has an address.
      planned.push_back(&m);
      lifetimes.push_back({m.used ? m.bytes : 0, m.first, m.last});
    }
  }
  const MemoryPlan plan = plan_memory(lifetimes, largest_chunk);
  std::vector<StoragePtr> chunks;
  const MemoryScope scope(MemoryUse::captured_steps);
  for (std::size_t i = 0; i < plan.chunks.size(); ++i) {
    const bool there = shared != nullptr && i < shared->size() && (*shared)[i]->device() == device_ &&
                       (*shared)[i]->bytes() >= plan.chunks[i];
    chunks.push_back(there ? (*shared)[i] : etna::allocate(device_, plan.chunks[i]));
  }
  if (shared != nullptr) {
    shared->resize(std::max(shared->size(), chunks.size()));
    std::copy(chunks.begin(), chunks.end(), shared->begin());
  }
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const StoragePtr& chunk = chunks[plan.places[i].chunk];
    planned[i]->real = chunk->address() + plan.places[i].offset;
    if (planned[i]->proxy) rebound.push_back({planned[i]->proxy, chunk, plan.places[i].offset});
  }
  memory_.insert(memory_.end(), chunks.begin(), chunks.end());
  // Only now, when no allocation can fail any more.
  for (Rebound& r : rebound) r.storage->rebind(std::move(r.whole), r.offset);
  report.planned_bytes = plan.planned;
  report.live_bytes = plan.live;
  report.naive_bytes = plan.naive;
}

std::uint64_t Storages::relocated(std::uint64_t address, const char* op) const {
  if (!is_placeholder(address)) return address;
  const Made* found = find(address);
  if (found == nullptr) throw CaptureError(fmt::format("{}: works on a tensor from a capture that failed", op));
  if (found->real == 0) return 0;  // nothing uses it: an empty tensor's, or meant for another kernel of the same op
  return found->real + (address - found->address);
}

void Storages::relocate(std::span<std::byte> bytes, std::span<const std::uint32_t> addresses, const char* op) const {
  for (std::uint32_t at : addresses) {
    std::uint64_t address;
    std::memcpy(&address, bytes.data() + at, sizeof(address));
    address = relocated(address, op);
    std::memcpy(bytes.data() + at, &address, sizeof(address));
  }
}

void Storages::finish() {
  for (Made& m : made_) {
    if (m.constant.empty()) continue;
    relocate(m.constant, m.addresses, "a table");
    for (std::size_t at = 0; at < m.constant.size(); at += 65536) {
      gpu::enqueue_update(device_, *m.own, at,
                          std::span(m.constant).subspan(at, std::min<std::size_t>(65536, m.constant.size() - at)));
    }
  }
  made_ = {};
  place_ = {};
  pins_ = {};
}

}  // namespace etna::graph
