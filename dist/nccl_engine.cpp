#include <etna/dist/internal/nccl_engine.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/foreign_work.h>
#include <etna/device/memory.h>
#include <etna/dist/internal/nccl.h>
#include <etna/dist/internal/peer_exchange.h>

namespace etna::distributed {
namespace {

int nccl_type(DType dtype) {
  switch (dtype) {
    case f64:
      return nccl::kF64;
    case f32:
      return nccl::kF32;
    case f16:
      return nccl::kF16;
    case bf16:
      return nccl::kBf16;
    case i64:
      return nccl::kI64;
    case i32:
      return nccl::kI32;
    case i8:
      return nccl::kI8;
    case u8:
    case boolean:
      return nccl::kU8;
  }
  return nccl::kU8;
}

int nccl_reduction(Reduce reduce) {
  constexpr std::array kReductions{nccl::kSum, nccl::kMean, nccl::kMax, nccl::kMin, nccl::kProduct};
  return kReductions[static_cast<std::size_t>(reduce)];
}

std::string to_hex(const nccl::UniqueId& id) {
  std::string text;
  for (const char c : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

nccl::UniqueId from_hex(const std::string& text) {
  nccl::UniqueId id{};
  for (std::size_t i = 0; i < id.bytes.size() && 2 * i + 1 < text.size(); ++i)
    id.bytes[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

MemoryRange range_of(const Tensor& x) {
  const auto item = static_cast<std::uint64_t>(item_size(x.dtype()));
  return {x.storage()->address() + static_cast<std::uint64_t>(x.offset()) * item,
          static_cast<std::size_t>(x.numel()) * static_cast<std::size_t>(item)};
}

}  // namespace

/// What queued work refers to, too. A thread ends the communicator when a rank is lost: NCCL's kernels would wait for
/// it forever, and the device for them.
struct NcclEngine::State {
  const nccl::Library& nccl;
  Meeting& meeting;
  gpu::ForeignStream& stream;
  double late;
  int ranks, rank;
  Place place;
  nccl::Communicator communicator = nullptr;
  std::timed_mutex calling;  ///< while NCCL is called
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> begun{0};
  std::string failure;  ///< set before `over`, if it was not left in order
  std::mutex mutex;
  std::condition_variable changed;
  bool left = false;
  bool is_part = false;  ///< of some ranks
  /// Seconds that gradients waited for the other rank (PeerExchange).
  std::shared_ptr<std::atomic<double>> exchange_waits = std::make_shared<std::atomic<double>>(0);
  std::thread watch;

  State(const nccl::Library& library, Meeting& m, gpu::ForeignStream& s, double late_seconds, const Place& p)
      : nccl(library), meeting(m), stream(s), late(late_seconds), ranks(p.size), rank(p.rank), place(p) {}

  void require_alive() const {
    if (over && !failure.empty()) throw RankLost(failure);
    if (!over && meeting.failed()) throw RankLost("distributed: " + meeting.failure());
  }
  void check(nccl::Result result, const char* call) {
    if (result == 0) return;
    require_alive();
    const std::string text =
        fmt::format("{} failed: {} ({})", call, nccl.error_text(result), nccl.last_error(communicator));
    meeting.fail(text);
    throw RankLost("distributed: " + text);
  }
  void progress() {
    const std::uint64_t running = stream.queued() - stream.done();
    const std::uint64_t all = begun;
    // The stream is that of all groups of ranks.
    const double waited = is_part ? 0 : stream.busy_seconds() + exchange_waits->load();
    meeting.report({all, all - std::min(all, running), waited}, this);
  }
  void end(const std::string& why) {
    failure = "distributed: " + why;
    over = true;
    // A call may itself wait for the lost rank.
    const bool locked = calling.try_lock_for(std::chrono::seconds(3));
    nccl.abort(communicator);
    if (locked) calling.unlock();
  }
  /// The rank that has come to the fewest collectives.
  std::string late_rank() {
    const std::vector<Member> members = meeting.members();
    std::size_t least = 0;
    for (std::size_t i = 1; i < members.size(); ++i)
      if (members[i].progress.begun < members[least].progress.begun) least = i;
    return fmt::format("rank {} ({}, process {}) lives, but did not come to a collective for {:g} seconds", least,
                       members.empty() ? "" : members[least].host, members.empty() ? 0 : members[least].process, late);
  }
  void watch_group() {
    using Clock = std::chrono::steady_clock;
    Clock::time_point moved = Clock::now();
    std::uint64_t done = 0;
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, std::chrono::milliseconds(100), [this] { return left; })) {
      if (meeting.failed()) return end(meeting.failure());
      const std::uint64_t now_done = stream.done();
      if (now_done != std::exchange(done, now_done) || now_done >= stream.queued()) moved = Clock::now();
      progress();
      if (std::chrono::duration<double>(Clock::now() - moved).count() < late) continue;
      meeting.fail(late_rank());
      return end(meeting.failure());
    }
  }
};

namespace {

struct NcclWork final : gpu::ForeignWork {
  NcclWork(std::shared_ptr<NcclEngine::State> s, const Collective& c, const Tensor& in, const Tensor& out)
      : state(std::move(s)),
        collective(c),
        type(nccl_type((in.defined() ? in : out).dtype())),
        count(static_cast<std::size_t>((in.defined() ? in : out).numel())),
        item(item_size((in.defined() ? in : out).dtype())) {}

  gpu::ForeignPlace place() const override { return gpu::ForeignPlace::cuda; }
  void check() override { state->require_alive(); }

  void queue(void* stream, std::span<const std::uint64_t> reads, std::span<const std::uint64_t> writes) override {
    const std::lock_guard lock(state->calling);
    state->require_alive();
    ++state->begun;
    const nccl::Library& n = state->nccl;
    const auto address = [](std::span<const std::uint64_t> at) {
      return at.empty() ? nullptr : reinterpret_cast<std::byte*>(at[0]);
    };
    std::byte* in = address(reads);
    std::byte* out = address(writes);
    const nccl::Communicator c = state->communicator;
    const auto ranks = static_cast<std::size_t>(state->ranks);
    const int reduction = nccl_reduction(collective.reduce);
    switch (collective.kind) {
      case Kind::all_reduce:
        return state->check(n.all_reduce(in, out, count, type, reduction, c, stream), "ncclAllReduce");
      case Kind::reduce_scatter:
        return state->check(n.reduce_scatter(in, out, count / ranks, type, reduction, c, stream), "ncclReduceScatter");
      case Kind::all_gather:
        return state->check(n.all_gather(in, out, count, type, c, stream), "ncclAllGather");
      case Kind::broadcast:
        return state->check(n.broadcast(in, out, count, type, collective.peer, c, stream), "ncclBroadcast");
      case Kind::send:
        return state->check(n.send(in, count, type, collective.peer, c, stream), "ncclSend");
      case Kind::receive:
        return state->check(n.receive(out, count, type, collective.peer, c, stream), "ncclRecv");
      case Kind::all_to_all: {
        const std::size_t part = count / ranks;
        state->check(n.group_start(), "ncclGroupStart");
        for (std::size_t r = 0; r < ranks; ++r) {
          state->check(n.send(in + r * part * item, part, type, static_cast<int>(r), c, stream), "ncclSend");
          state->check(n.receive(out + r * part * item, part, type, static_cast<int>(r), c, stream), "ncclRecv");
        }
        return state->check(n.group_end(), "ncclGroupEnd");
      }
      case Kind::barrier:
        return;
    }
  }

  std::shared_ptr<NcclEngine::State> state;
  Collective collective;
  int type;
  std::size_t count, item;
};

}  // namespace

std::unique_ptr<NcclEngine> NcclEngine::join(Meeting& meeting, const Place& place, Device device, double seconds,
                                             double late, std::string& why) {
  std::string mine;
  const nccl::Library* library = nccl::library(mine);
  gpu::ForeignStream* stream = library != nullptr ? gpu::foreign_stream(device, mine) : nullptr;
  const std::string can = stream != nullptr ? fmt::format("can {} {}", library->name, stream->gpu()) : "cannot " + mine;
  const std::vector<std::string> all = meeting.gather("nccl", can, seconds);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].starts_with("cannot ")) {
      why = fmt::format("rank {}: {}", r, all[r].substr(7));
      return nullptr;
    }
    // NCCL takes no two ranks on one GPU. GPUs of several computers differ, too.
    const auto same = std::find(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(r), all[r]);
    if (same != all.begin() + static_cast<std::ptrdiff_t>(r)) {
      why = fmt::format("ranks {} and {} share one GPU", same - all.begin(), r);
      return nullptr;
    }
  }
  const auto version = [](const std::string& text) { return text.substr(0, text.rfind(' ')); };
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (version(all[r]) != version(all[0]))
      throw RanksDiffer(fmt::format("distributed: rank {} has {}, rank 0 has {}; load the same with ETNA_NCCL", r,
                                    version(all[r]).substr(4), version(all[0]).substr(4)));
  }
  auto state = std::make_shared<State>(*library, meeting, *stream, late, place);
  nccl::UniqueId id{};
  if (place.rank == 0) {
    state->check(library->unique_id(&id), "ncclGetUniqueId");
    meeting.put("nccl/id", to_hex(id));
  } else {
    id = from_hex(meeting.get("nccl/id", 0, seconds));
  }
  stream->enter();
  state->check(library->join(&state->communicator, place.size, id, place.rank), "ncclCommInitRank");
  return std::unique_ptr<NcclEngine>(new NcclEngine(std::move(state), device));
}

NcclEngine::NcclEngine(std::shared_ptr<State> state, Device device) : state_(std::move(state)), device_(device) {
  state_->watch = std::thread([s = state_.get()] { s->watch_group(); });
}

NcclEngine::~NcclEngine() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->left = true;
  }
  state_->changed.notify_all();
  state_->watch.join();
  // Queued work may outlive the group.
  if (!state_->over) state_->end("the group has ended");
}

std::string NcclEngine::name() const { return state_->nccl.name; }

void NcclEngine::run(const Collective& c, const Tensor& in, const Tensor& out) {
  state_->require_alive();
  const Tensor& shaped = in.defined() ? in : out;
  if (!shaped.defined()) return;
  const std::string what =
      fmt::format("{} of {} {}", distributed::str(c), etna::name(shaped.dtype()), etna::str(shaped.shape()));
  // The meeting knows all ranks only.
  if (c.kind != Kind::send && c.kind != Kind::receive && !is_part_) require_equal(what);
  if (shaped.numel() == 0) return;
  const bool reads = in.defined(), writes = out.defined() && c.kind != Kind::send;
  const MemoryRange read = reads ? range_of(in) : MemoryRange{}, write = writes ? range_of(out) : MemoryRange{};
  gpu::enqueue_foreign(device_, {std::string_view(what).substr(0, what.find_first_of("( ")),
                                 std::make_shared<NcclWork>(state_, c, in, out), std::span(&read, reads ? 1 : 0),
                                 std::span(&write, writes ? 1 : 0)});
}

/// The first time that this rank makes a call, it asks whether the others make the same. @throws RanksDiffer
void NcclEngine::require_equal(const std::string& call) {
  if (!known_.insert(call).second) return;
  const std::vector<std::string> all =
      state_->meeting.gather(fmt::format("nccl/call/{}", known_.size()), call, state_->late);
  const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& text) { return text != all[0]; });
  if (other != all.end())
    throw RanksDiffer(fmt::format("distributed: the ranks do not call the same: rank 0 calls {}; rank {} calls {}",
                                  all[0], other - all.begin(), *other));
}

std::unique_ptr<Engine> NcclEngine::part(const std::vector<int>& members) {
  Place place = state_->place;
  place.size = static_cast<int>(members.size());
  place.rank = static_cast<int>(std::find(members.begin(), members.end(), state_->rank) - members.begin());
  auto state = std::make_shared<State>(state_->nccl, state_->meeting, state_->stream, state_->late, place);
  state->is_part = true;
  state_->stream.enter();
  state_->check(state_->nccl.split(state_->communicator, members.front(), place.rank, &state->communicator, nullptr),
                "ncclCommSplit");
  std::unique_ptr<NcclEngine> made(new NcclEngine(std::move(state), device_));
  made->is_part_ = true;
  return made;
}

std::shared_ptr<PeerExchange> NcclEngine::make_exchange(std::size_t bytes, std::size_t parts) {
  std::string why;
  std::shared_ptr<PeerExchange> made =
      PeerExchange::make(state_->meeting, state_->place, state_->stream, bytes, parts, state_->late, why);
  if (made == nullptr) return nullptr;
  made->require_alive = [state = state_] { state->require_alive(); };
  made->waits = state_->exchange_waits;
  return made;
}

void NcclEngine::finish() {
  synchronize(device_);
  {
    const std::lock_guard lock(state_->calling);
    if (!state_->over.exchange(true)) state_->nccl.destroy(state_->communicator);
  }
}

}  // namespace etna::distributed
