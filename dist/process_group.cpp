#include <etna/dist/dist.h>

#include <algorithm>
#include <sstream>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <etna/dist/internal/group.h>

namespace etna::distributed {
namespace {

constexpr double kSplitSeconds = 600;

}  // namespace

int ProcessGroup::rank() const {
  return number_ == 0 ? distributed::rank() : require_group("ProcessGroup").part(number_).rank;
}

int ProcessGroup::size() const {
  return number_ == 0 ? distributed::size()
                      : static_cast<int>(require_group("ProcessGroup").part(number_).members.size());
}

int ProcessGroup::world_rank(int rank) const {
  if (rank < 0 || rank >= size())
    throw Error(fmt::format("ProcessGroup: rank {} of a group of {}; ranks are numbered from 0", rank, size()));
  return number_ == 0 ? rank : require_group("ProcessGroup").part(number_).members[static_cast<std::size_t>(rank)];
}

ProcessGroup ProcessGroup::numbered(int number) {
  ProcessGroup group;
  group.number_ = number;
  return group;
}

ProcessGroup split(int color, int key) {
  const auto check = [](int rank, int its) {
    if (its < 0) throw Error(fmt::format("split: rank {} gives color {}; colors are numbers from 0", rank, its));
  };
  Group* all = group();
  if (all == nullptr) {
    check(0, color);
    return {};
  }
  static int calls = 0;
  const std::vector<std::string> given =
      all->meeting().gather(fmt::format("split/{}", ++calls), fmt::format("{} {}", color, key), kSplitSeconds);
  std::vector<std::pair<int, int>> order;  // key, rank
  for (std::size_t r = 0; r < given.size(); ++r) {
    int its_color = -1, its_key = 0;
    std::istringstream(given[r]) >> its_color >> its_key;
    check(static_cast<int>(r), its_color);
    if (its_color == color) order.emplace_back(its_key, static_cast<int>(r));
  }
  std::sort(order.begin(), order.end());
  std::vector<int> members;
  for (const auto& [its_key, r] : order) members.push_back(r);
  return ProcessGroup::numbered(all->add_part(members));
}

}  // namespace etna::distributed
