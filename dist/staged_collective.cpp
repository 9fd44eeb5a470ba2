#include <etna/dist/internal/staged_collective.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/foreign_work.h>
#include <etna/device/kernel.h>
#include <etna/tensor/internal/capture_hooks.h>

namespace etna::distributed {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::size_t kStagedAlignment = 256;
/// Of pieces in a chunk. A graph lets kernels write what is only copied to the place where it goes if that begins at a
/// multiple of 256. A kernel that does so over the bus is slower than a copy.
constexpr std::size_t kStagedOffset = 64;

/// Mapped memory for several collectives: drivers allow some thousand allocations.
struct MappedChunk {
  gpu::MappedMemory memory;
  std::size_t bytes = 0, used = kStagedOffset;
};

/// Bytes that the device and the host reach.
struct MappedPiece {
  std::shared_ptr<MappedChunk> chunk;
  std::size_t offset = 0, bytes = 0;

  std::byte* host() const { return chunk->memory.host + offset; }
  MemoryRange range() const { return {chunk->memory.storage->address() + offset, bytes}; }
};

MappedPiece map_piece(Device device, std::size_t bytes) {
  static auto* mutex = new std::mutex;
  static auto* chunks = new std::map<std::pair<DeviceType, int>, std::weak_ptr<MappedChunk>>;
  const std::lock_guard lock(*mutex);
  std::weak_ptr<MappedChunk>& last = (*chunks)[{device.type, device.index}];
  std::shared_ptr<MappedChunk> chunk = last.lock();
  if (chunk == nullptr || chunk->bytes - chunk->used < bytes) {
    chunk = std::make_shared<MappedChunk>();
    chunk->bytes = std::max(kChunk, kStagedOffset + bytes + kStagedAlignment);
    chunk->memory = gpu::mapped_memory(device, chunk->bytes);
    last = chunk;
  }
  const std::size_t offset = chunk->used;
  chunk->used = std::min(chunk->bytes, offset + (bytes + kStagedAlignment - 1) / kStagedAlignment * kStagedAlignment);
  return {std::move(chunk), offset, bytes};
}

/// As a tensor of the host, which does not keep it alive.
Tensor host_tensor(const MappedPiece& piece, const Tensor& like) {
  const auto at = reinterpret_cast<std::uintptr_t>(piece.host());
  return detail::make_view(
      std::make_shared<Storage>(kCPU, std::max<std::size_t>(piece.bytes, 1), piece.host(), at, nullptr), kCPU,
      like.dtype(), like.shape(), contiguous_strides(like.shape()), 0);
}

std::size_t staged_bytes(const Tensor& x) { return static_cast<std::size_t>(x.numel()) * item_size(x.dtype()); }
std::size_t byte_offset(const Tensor& x) { return static_cast<std::size_t>(x.offset()) * item_size(x.dtype()); }

/// Of one place in a captured step; each run of the step queues it again.
class StagedCollective final : public gpu::ForeignWork {
 public:
  StagedCollective(Group& group, const Collective& collective) : group_(group.id()), collective_(collective) {}
  ~StagedCollective() override {
    if (last_ != nullptr) last_->wait_for_end();  // it works on the memory
  }

  gpu::ForeignPlace place() const override { return gpu::ForeignPlace::host; }
  void check() override {
    if (Group* own = group(); own != nullptr && own->id() == group_) own->check();
  }
  std::function<bool()> prepare() override {
    Group* own = group();
    if (own == nullptr || own->id() != group_)
      throw Error(fmt::format("{}: the step was captured in a group of processes that has ended; capture it again",
                              str(collective_)));
    last_ = own->queue(collective_, in_host, out_host);
    // Its copies end together: with the last one, nobody comes any more.
    std::shared_ptr<QueuedRun> run(last_.get(), [kept = last_](QueuedRun* r) { r->give_up(); });
    return [run = std::move(run)] {
      run->reach();
      return run->ended();
    };
  }

  MappedPiece in, out;
  Tensor in_host, out_host;

 private:
  const std::uint64_t group_;
  const Collective collective_;
  std::shared_ptr<QueuedRun> last_;
};

}  // namespace

void stage_collective(Group& group, const Collective& c, const char* op, const Tensor& in, const Tensor& out) {
  const Device device = (in.defined() ? in : out).device();
  auto work = std::make_shared<StagedCollective>(group, c);
  if (in.defined()) {
    work->in = map_piece(device, staged_bytes(in));
    work->in_host = host_tensor(work->in, in);
  }
  if (out.defined()) {
    // These work in place.
    const bool same = in.defined() && (c.kind == Kind::all_reduce || c.kind == Kind::broadcast);
    work->out = same ? work->in : map_piece(device, staged_bytes(out));
    work->out_host = same ? work->in_host : host_tensor(work->out, out);
  }
  for (const MappedPiece* piece : {&work->in, &work->out}) {
    if (piece->chunk == nullptr) continue;
    const auto bytes = static_cast<std::int64_t>(piece->chunk->bytes);
    capture_hooks::touch(op, detail::make_view(piece->chunk->memory.storage, device, u8, {bytes}, {1}, 0));
  }
  if (in.defined())
    gpu::enqueue_copy(device, *in.storage(), byte_offset(in), *work->in.chunk->memory.storage, work->in.offset,
                      work->in.bytes);
  const bool reads = work->in.bytes > 0, writes = work->out.bytes > 0;
  const MemoryRange read = reads ? work->in.range() : MemoryRange{}, write = writes ? work->out.range() : MemoryRange{};
  gpu::enqueue_foreign(device, {op, work, std::span(&read, reads ? 1 : 0), std::span(&write, writes ? 1 : 0)});
  if (out.defined())
    gpu::enqueue_copy(device, *work->out.chunk->memory.storage, work->out.offset, *out.storage(), byte_offset(out),
                      work->out.bytes);
}

}  // namespace etna::distributed
