#include <etna/device/internal/graph/command_list.h>

#include <algorithm>
#include <cstring>

namespace etna::graph {
namespace {

template <typename T>
Slice append(std::vector<T>& pool, std::span<const T> values) {
  const auto begin = static_cast<std::uint32_t>(pool.size());
  pool.insert(pool.end(), values.begin(), values.end());
  return {begin, static_cast<std::uint32_t>(values.size())};
}

/// Appends elements of the pool to its end.
template <typename T>
Slice append_again(std::vector<T>& pool, Slice s) {
  const auto begin = static_cast<std::uint32_t>(pool.size());
  pool.resize(pool.size() + s.count);
  std::copy_n(pool.begin() + s.begin, s.count, pool.begin() + begin);
  return {begin, s.count};
}

}  // namespace

void Command::name(std::string_view text) {
  op = {};
  std::memcpy(op.data(), text.data(), std::min(text.size(), op.size() - 1));
}

const FusionInfo* CommandList::info(const Command& c) const {
  const DispatchCommand* d = std::get_if<DispatchCommand>(&c.work);
  return d != nullptr && d->info != DispatchCommand::kUnknown ? &infos[d->info] : nullptr;
}

void CommandList::set_arguments(Command& c, const Arguments& arguments, const Command* first) {
  const Slice before = append_again(bytes, first != nullptr ? first->arguments : Slice{});
  const Slice known = append_again(offsets, first != nullptr ? first->addresses : Slice{});
  c.arguments = {before.begin, before.count + append(bytes, arguments.bytes()).count};
  for (const Arguments::Address& a : arguments.addresses()) offsets.push_back(before.count + a.offset);
  c.addresses = {known.begin, known.count + static_cast<std::uint32_t>(arguments.addresses().size())};
}

void CommandList::set_ranges(Command& c, std::span<const MemoryRange> reads, std::span<const MemoryRange> writes) {
  c.reads = append(ranges, reads);
  c.writes = append(ranges, writes);
}

Slice CommandList::add_constants(std::span<const std::uint32_t> values) { return append(constants, values); }

}  // namespace etna::graph
