#include <etna/dist/internal/host_engine.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/device/internal/os/clock.h>
#include <etna/dist/internal/member_transport.h>
#include <etna/dist/internal/reduce.h>

namespace etna::distributed {
namespace {

constexpr int kHeaderTag = 1, kDataTag = 2;
/// Below it, all ranks reduce all elements: one message instead of two.
constexpr std::size_t kSmall = 16384;

std::byte* bytes_of(const Tensor& x) { return static_cast<std::byte*>(x.raw_host()); }

std::size_t data_bytes(const Tensor& x) { return static_cast<std::size_t>(x.numel()) * item_size(x.dtype()); }

/// The first element of a rank's part.
std::int64_t part_begin(std::int64_t count, int rank, int size) {
  return count / size * rank + std::min<std::int64_t>(rank, count % size);
}

}  // namespace

/// What a rank calls, as it tells the others.
struct HostEngine::Header {
  static constexpr int kDims = 8;
  std::uint64_t number = 0;
  std::uint64_t begun = 0;  ///< collectives of this rank, this one included
  std::int64_t dims[kDims] = {};
  std::int32_t rank_of_shape = -1;  ///< -1: no tensor
  std::int32_t peer = 0;
  Kind kind{};
  Reduce reduce{};
  DType dtype{};
  std::uint8_t padding[1] = {};
  std::uint32_t group = 0;  ///< number of the part

  static Header of(const Collective& c, const Tensor& x, std::uint32_t group) {
    Header h;
    h.group = group;
    h.number = c.number, h.peer = c.peer, h.kind = c.kind, h.reduce = c.reduce;
    if (!x.defined()) return h;
    h.dtype = x.dtype();
    h.rank_of_shape = x.dim();
    for (int i = 0; i < std::min(x.dim(), kDims); ++i) h.dims[i] = x.size(i);
    return h;
  }
  std::string str() const {
    std::string text = distributed::str({kind, reduce, peer, number, 0});
    if (group > 0) text += fmt::format(" in group {}", group);
    if (rank_of_shape < 0) return text;
    const std::span<const std::int64_t> sizes(dims, static_cast<std::size_t>(std::min(rank_of_shape, kDims)));
    return fmt::format("{} of {} [{}]", text, etna::name(dtype), fmt::join(sizes, ", "));
  }
  /// Whether both take part in the same collective.
  bool fits(const Header& other) const {
    if (std::memcmp(dims, other.dims, sizeof dims) != 0 || rank_of_shape != other.rank_of_shape ||
        dtype != other.dtype || group != other.group)
      return false;
    if (kind == Kind::send || kind == Kind::receive)
      return other.kind == (kind == Kind::send ? Kind::receive : Kind::send);
    return number == other.number && kind == other.kind && reduce == other.reduce && peer == other.peer;
  }
};

HostEngine::HostEngine(std::unique_ptr<Transport> transport, Meeting& meeting, double late)
    : transport_(std::move(transport)),
      meeting_(meeting),
      late_(late),
      progress_(std::make_shared<Progress>()),
      met_(std::make_shared<std::vector<std::uint64_t>>(transport_->size())) {}

HostEngine::HostEngine(const HostEngine& all, const std::vector<int>& members, std::uint32_t number)
    : transport_(std::make_unique<MemberTransport>(*all.transport_, members)),
      meeting_(all.meeting_),
      late_(all.late_),
      members_(members),
      number_(number),
      progress_(all.progress_),
      met_(all.met_) {}

std::unique_ptr<Engine> HostEngine::part(const std::vector<int>& members) {
  return std::make_unique<HostEngine>(*this, members, ++parts_);
}

HostEngine::~HostEngine() = default;

void HostEngine::message(int number, int peer) {
  messages_.push_back(number);
  peers_.push_back(peer);
}

void HostEngine::exchange_headers(const Header& mine, const std::vector<int>& peers) {
  headers_.assign(static_cast<std::size_t>(transport_->size()), mine);
  header_messages_.clear();
  header_peers_.clear();
  for (const int peer : peers) {
    Header& theirs = headers_[static_cast<std::size_t>(peer)];
    header_messages_.push_back(transport_->receive(peer, kHeaderTag, &theirs, sizeof(Header)));
    header_peers_.push_back(peer);
  }
  // The own one is sent from its place, which nothing overwrites.
  const Header& own = headers_[static_cast<std::size_t>(transport_->rank())];
  for (const int peer : peers) {
    header_messages_.push_back(transport_->send(peer, kHeaderTag, &own, sizeof(Header)));
    header_peers_.push_back(peer);
  }
}

/// Waits for headers and for data; looks meanwhile who is gone.
void HostEngine::wait(const std::vector<int>& messages, const std::vector<int>& peers, const std::string& what) {
  const double began = os::steady_seconds();
  double looked = began, left_since = 0;
  bool ended = false;
  for (std::int64_t round = 0;; ++round) {
    const std::string wrong = transport_->progress();
    std::vector<int> missing;
    bool all = true;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (transport_->done(messages[i])) continue;
      all = false;
      if (round > 0 && std::find(missing.begin(), missing.end(), peers[i]) == missing.end())
        missing.push_back(peers[i]);
    }
    if (all) break;
    const double now = os::steady_seconds();
    if (!wrong.empty() || now - looked > 0.001) {
      looked = now;
      // What a rank sent before it ended is read first: it may say why.
      if (meeting_.failed() && std::exchange(ended, true))
        throw RankLost(fmt::format("{}: {}; the group has ended", what, meeting_.failure()));
      if (!wrong.empty()) throw RankLost(fmt::format("{}: {} reports: {}", what, name(), wrong));
      const bool left =
          std::any_of(missing.begin(), missing.end(), [&](int peer) { return meeting_.left(world_rank(peer)); });
      if (left && left_since == 0) left_since = now;
      if ((left && now - left_since > 2) || now - began > late_) {
        std::string who;
        const std::vector<Member> members = meeting_.members();
        for (const int peer : missing) {
          const Member& one = members[static_cast<std::size_t>(world_rank(peer))];
          // Signs of life are a second apart; the last collective with that rank may be newer.
          const std::uint64_t begun = std::max(one.progress.begun, (*met_)[static_cast<std::size_t>(world_rank(peer))]);
          who += fmt::format("{}rank {} ({}, process {}) {}", who.empty() ? "" : ", ", world_rank(peer), one.host,
                             one.process,
                             one.left ? "has left the group" : fmt::format("has called {} collectives", begun));
        }
        throw RankLost(fmt::format("{}, collective {} of this rank: no answer after {:.0f} seconds from {}", what,
                                   progress_->begun, now - began, who));
      }
    }
    // A core may be shared by several ranks.
    if (round > 1000)
      std::this_thread::sleep_for(std::chrono::microseconds(now - began < 0.01 ? 20 : 200));
    else if (round > 50)
      std::this_thread::yield();
  }
  progress_->waited += os::steady_seconds() - began;
}

void HostEngine::check_headers(const std::vector<int>& peers) const {
  const Header& mine = headers_[static_cast<std::size_t>(transport_->rank())];
  if (std::all_of(peers.begin(), peers.end(),
                  [&](int peer) { return mine.fits(headers_[static_cast<std::size_t>(peer)]); }))
    return;
  std::map<std::string, std::vector<int>> calls;
  std::vector<int> ranks = peers;
  ranks.push_back(transport_->rank());
  std::sort(ranks.begin(), ranks.end());
  for (const int rank : ranks) calls[headers_[static_cast<std::size_t>(rank)].str()].push_back(world_rank(rank));
  std::vector<std::string> parts;
  for (const auto& [call, who] : calls)
    parts.push_back(fmt::format("{} {} {} {}", who.size() > 1 ? "ranks" : "rank", fmt::join(who, ", "),
                                who.size() > 1 ? "call" : "calls", call));
  std::sort(parts.begin(), parts.end());
  if (parts.size() == 1) parts.push_back("but as different ones of their collectives: one of them has left one out");
  throw RanksDiffer(fmt::format("distributed: the ranks do not call the same: {}", fmt::join(parts, "; ")));
}

void HostEngine::to_all(const std::byte* in, std::byte* out, std::size_t bytes) {
  for (int r = 0; r < transport_->size(); ++r) {
    if (r == transport_->rank()) continue;
    message(transport_->receive(r, kDataTag, out + bytes * static_cast<std::size_t>(r), bytes), r);
    message(transport_->send(r, kDataTag, in, bytes), r);
  }
}

void HostEngine::all_reduce(const Collective& c, const Tensor& in, const Tensor& out, bool scatter) {
  const int rank = transport_->rank(), size = transport_->size();
  const auto ranks = static_cast<std::size_t>(size);
  const std::int64_t count = in.numel();
  const std::size_t item = item_size(in.dtype()), total = static_cast<std::size_t>(count) * item;
  const std::byte* from = bytes_of(in);
  std::vector<const std::byte*> parts(ranks);
  if (!scatter && total <= kSmall) {
    scratch_.resize(std::max(scratch_.size(), total * ranks));
    to_all(from, scratch_.data(), total);
    for (std::size_t r = 0; r < ranks; ++r) parts[r] = scratch_.data() + r * total;
    parts[static_cast<std::size_t>(rank)] = from;
    wait(messages_, peers_, what_);
    return reduce_parts(c.reduce, in.dtype(), parts, bytes_of(out), count);
  }
  // Parts of a scatter are of whole rows, and equal; these need not be.
  const auto begin = [&](int r) { return part_begin(count, r, size); };
  const std::int64_t mine = begin(rank + 1) - begin(rank);
  const std::size_t bytes = static_cast<std::size_t>(mine) * item;
  scratch_.resize(std::max(scratch_.size(), bytes * ranks));
  for (int r = 0; r < size; ++r) {
    std::byte* place = scratch_.data() + static_cast<std::size_t>(r) * bytes;
    parts[static_cast<std::size_t>(r)] = r == rank ? from + static_cast<std::size_t>(begin(rank)) * item : place;
    if (r == rank) continue;
    message(transport_->receive(r, kDataTag, place, bytes), r);
    message(transport_->send(r, kDataTag, from + static_cast<std::size_t>(begin(r)) * item,
                             static_cast<std::size_t>(begin(r + 1) - begin(r)) * item),
            r);
  }
  wait(messages_, peers_, what_);
  std::byte* to = bytes_of(out);
  std::byte* own = scatter ? to : to + static_cast<std::size_t>(begin(rank)) * item;
  reduce_parts(c.reduce, in.dtype(), parts, own, mine);
  if (scatter) return;
  messages_.clear(), peers_.clear();
  for (int r = 0; r < size; ++r) {
    if (r == rank) continue;
    message(transport_->receive(r, kDataTag, to + static_cast<std::size_t>(begin(r)) * item,
                                static_cast<std::size_t>(begin(r + 1) - begin(r)) * item),
            r);
    message(transport_->send(r, kDataTag, own, bytes), r);
  }
  wait(messages_, peers_, what_);
}

void HostEngine::run(const Collective& c, const Tensor& in, const Tensor& out) {
  const int rank = transport_->rank(), size = transport_->size();
  const bool pair = c.kind == Kind::send || c.kind == Kind::receive;
  std::vector<int> others;
  for (int r = 0; r < size; ++r)
    if (r != rank && (!pair || r == c.peer)) others.push_back(r);
  ++progress_->begun;
  meeting_.report(*progress_);
  const Tensor& shaped = in.defined() ? in : out;
  what_ = "distributed: " + Header::of(c, shaped, number_).str();
  transport_->clear();
  messages_.clear(), peers_.clear();
  // Headers first, alone: data of another size than the receiver expects would be an error of the library.
  Header mine = Header::of(c, shaped, number_);
  mine.begun = progress_->begun;
  exchange_headers(mine, others);
  wait(header_messages_, header_peers_, what_);
  for (const int r : others)
    (*met_)[static_cast<std::size_t>(world_rank(r))] = headers_[static_cast<std::size_t>(r)].begun;
  check_headers(others);
  switch (c.kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter:
      all_reduce(c, in, out, c.kind == Kind::reduce_scatter);
      break;
    case Kind::all_gather: {
      const std::size_t bytes = data_bytes(in);
      to_all(bytes_of(in), bytes_of(out), bytes);
      if (bytes > 0) std::memcpy(bytes_of(out) + bytes * static_cast<std::size_t>(rank), bytes_of(in), bytes);
      break;
    }
    case Kind::broadcast: {
      const std::size_t bytes = data_bytes(in);
      if (rank == c.peer) {
        for (const int r : others) message(transport_->send(r, kDataTag, bytes_of(in), bytes), r);
        if (bytes > 0 && bytes_of(in) != bytes_of(out)) std::memcpy(bytes_of(out), bytes_of(in), bytes);
      } else {
        message(transport_->receive(c.peer, kDataTag, bytes_of(out), bytes), c.peer);
      }
      break;
    }
    case Kind::all_to_all: {
      const std::size_t bytes = static_cast<std::size_t>(in.numel() / size) * item_size(in.dtype());
      for (int r = 0; r < size; ++r) {
        const std::size_t at = bytes * static_cast<std::size_t>(r);
        if (r == rank) {
          if (bytes > 0) std::memcpy(bytes_of(out) + at, bytes_of(in) + at, bytes);
          continue;
        }
        message(transport_->receive(r, kDataTag, bytes_of(out) + at, bytes), r);
        message(transport_->send(r, kDataTag, bytes_of(in) + at, bytes), r);
      }
      break;
    }
    case Kind::send:
      message(transport_->send(c.peer, kDataTag, bytes_of(in), data_bytes(in)), c.peer);
      break;
    case Kind::receive:
      message(transport_->receive(c.peer, kDataTag, bytes_of(out), data_bytes(out)), c.peer);
      break;
    case Kind::barrier:
      break;
  }
  wait(messages_, peers_, what_);
  ++progress_->ended;
  meeting_.report(*progress_);
}

std::string str(const Collective& c) {
  static constexpr const char* kReductions[] = {"sum", "mean", "max", "min", "product"};
  const char* reduction = kReductions[static_cast<int>(c.reduce)];
  switch (c.kind) {
    case Kind::all_reduce:
      return fmt::format("all_reduce({})", reduction);
    case Kind::reduce_scatter:
      return fmt::format("reduce_scatter({})", reduction);
    case Kind::all_gather:
      return "all_gather";
    case Kind::broadcast:
      return fmt::format("broadcast from rank {}", c.peer);
    case Kind::all_to_all:
      return "all_to_all";
    case Kind::send:
      return fmt::format("send to rank {}", c.peer);
    case Kind::receive:
      return fmt::format("receive from rank {}", c.peer);
    case Kind::barrier:
      return "barrier";
  }
  return "?";
}

}  // namespace etna::distributed
