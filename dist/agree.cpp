#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/dist/dist.h>
#include <etna/dist/internal/group.h>
#include <etna/tensor/capture.h>

namespace etna::distributed {
namespace {

constexpr double kAgreeSeconds = 600;

/// FNV-1a, the same on every machine.
std::uint64_t digest_of(const std::string& text) {
  std::uint64_t digest = 0xcbf29ce484222325u;
  for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return digest;
}

/// The first lines of both that differ.
std::pair<std::string, std::string> difference(const std::string& a, const std::string& b) {
  std::istringstream as(a), bs(b);
  std::string x, y;
  for (;;) {
    const bool more_x = static_cast<bool>(std::getline(as, x)), more_y = static_cast<bool>(std::getline(bs, y));
    if (!more_x) x = "nothing more";
    if (!more_y) y = "nothing more";
    if (x != y || (!more_x && !more_y)) return {x, y};
  }
}

/// For groups without MPI.
std::vector<std::string> of_all_ranks(const std::string& mine) {
  static std::uint64_t calls = 0;
  return group()->meeting().gather(fmt::format("agree/{}", ++calls), mine, kAgreeSeconds);
}

}  // namespace

void require_same(const std::string& what, const std::string& text) {
  Group* one = group();
  if (one == nullptr) return;
  static std::uint64_t calls = 0;
  const std::string key = fmt::format("same/{}", ++calls);
  Meeting& meeting = one->meeting();
  const std::vector<std::string> digests =
      meeting.gather(key, fmt::format("{} {:016x} {}", what, digest_of(text), text.size()), kAgreeSeconds);
  const auto other = std::find_if(digests.begin(), digests.end(), [&](const auto& d) { return d != digests[0]; });
  if (other == digests.end()) return;
  const auto who = static_cast<int>(other - digests.begin());
  for (const int r : {0, who})
    if (rank() == r) meeting.put(fmt::format("{}/text/{}", key, r), text);
  const auto [first, second] = difference(meeting.get(fmt::format("{}/text/0", key), 0, kAgreeSeconds),
                                          meeting.get(fmt::format("{}/text/{}", key, who), who, kAgreeSeconds));
  throw RanksDiffer(
      fmt::format("distributed: rank {} has another {} than rank 0: {}; rank 0 has {}", who, what, second, first));
}

void require_same(const std::string& what, const std::string& text, const ProcessGroup& group) {
  if (group.number() == 0) return require_same(what, text);
  const NotCaptured now;
  const auto digest = static_cast<std::int64_t>(digest_of(text));
  const std::vector<std::int64_t> all =
      all_gather(from_vector(std::vector<std::int64_t>{digest}), group).to_vector<std::int64_t>();
  const auto other = std::find_if(all.begin(), all.end(), [&](std::int64_t one) { return one != all[0]; });
  if (other == all.end()) return;
  throw RanksDiffer(fmt::format("distributed: rank {} has another {} than rank {}",
                                group.world_rank(static_cast<int>(other - all.begin())), what, group.world_rank(0)));
}

bool any_rank(bool mine) {
  if (!is_distributed()) return mine;
  const NotCaptured now;
  if (!group()->has_host_engine()) {
    const std::vector<std::string> all = of_all_ranks(mine ? "1" : "0");
    return std::find(all.begin(), all.end(), "1") != all.end();
  }
  return all_reduce(scalar(mine ? 1 : 0, {i32}), Reduce::max).item<int>() != 0;
}

std::uint64_t seed_of_rank(std::uint64_t seed) {
  return seed + 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(rank());
}

double number_of_first(double mine) {
  if (!is_distributed()) return mine;
  const NotCaptured now;
  if (!group()->has_host_engine()) return std::stod(of_all_ranks(fmt::format("{:a}", mine))[0]);
  return broadcast(scalar(mine, {f64})).item<double>();
}

}  // namespace etna::distributed
