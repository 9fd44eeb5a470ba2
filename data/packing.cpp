#include <etna/data/batches.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>

#include <etna/device/error.h>

namespace etna::data {

double Packing::efficiency() const {
  if (sequences.empty()) return 1;
  std::int64_t tokens = 0;
  for (const auto& runs : sequences)
    for (const PackedRun& run : runs) tokens += run.count;
  return static_cast<double>(tokens) / (static_cast<double>(seq) * static_cast<double>(sequences.size()));
}

void Packing::fill(std::int64_t index, std::span<const std::span<const std::int32_t>> texts, std::int32_t padding,
                   std::span<std::int32_t> ids, std::span<std::int32_t> documents) const {
  const auto size = static_cast<std::size_t>(seq);
  if (index < 0 || static_cast<std::size_t>(index) >= sequences.size())
    throw ShapeError(fmt::format("packing: sequence {} is outside [0, {})", index, sequences.size()));
  if (ids.size() != size || documents.size() != size)
    throw ShapeError(fmt::format("packing: room for {} ids and {} document numbers, but a sequence has {} of each",
                                 ids.size(), documents.size(), seq));
  std::fill(ids.begin(), ids.end(), padding);
  std::fill(documents.begin(), documents.end(), -1);
  for (const PackedRun& run : sequences[static_cast<std::size_t>(index)]) {
    const auto document = static_cast<std::size_t>(run.document);
    const auto size = static_cast<std::int64_t>(document < texts.size() ? texts[document].size() : 0);
    const std::int64_t tokens = run.end_token ? run.count - 1 : run.count;
    if (document >= texts.size() || size < run.begin + tokens)
      throw ShapeError(fmt::format("packing: document {} is missing or shorter than when it was packed", run.document));
    std::copy_n(texts[document].begin() + run.begin, tokens, ids.begin() + run.at);
    if (run.end_token) ids[static_cast<std::size_t>(run.at + tokens)] = end_token.value_or(padding);
    std::fill_n(documents.begin() + run.at, run.count, static_cast<std::int32_t>(run.document));
  }
}

namespace {

void packing_check(std::span<const std::int64_t> lengths, std::int64_t seq) {
  if (seq < 1) throw ShapeError(fmt::format("packing: sequences of {} tokens; it takes at least 1", seq));
  for (std::size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] < 0 || lengths[i] == INT64_MAX)
      throw ShapeError(fmt::format("packing: document {} has {} tokens", i, lengths[i]));
}

}  // namespace

Packing pack_concatenated(std::span<const std::int64_t> lengths, std::int64_t seq, std::int32_t end_token,
                          Remainder remainder) {
  packing_check(lengths, seq);
  Packing packing{seq, {}, end_token};
  std::int64_t room = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] == 0) continue;
    const std::int64_t size = lengths[i] + 1;  // with the end token
    for (std::int64_t begin = 0; begin < size;) {
      if (room == 0) {
        packing.sequences.emplace_back();
        room = seq;
      }
      const std::int64_t count = std::min(room, size - begin);
      packing.sequences.back().push_back(
          {static_cast<std::int64_t>(i), begin, count, seq - room, begin + count == size});
      begin += count;
      room -= count;
    }
  }
  if (room > 0 && remainder == Remainder::drop) packing.sequences.pop_back();
  return packing;
}

Packing pack_best_fit(std::span<const std::int64_t> lengths, std::int64_t seq) {
  packing_check(lengths, seq);
  Packing packing{seq, {}, {}};
  std::vector<PackedRun> rests;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto document = static_cast<std::int64_t>(i);
    std::int64_t begin = 0;
    for (; lengths[i] - begin >= seq; begin += seq) packing.sequences.push_back({{document, begin, seq, 0}});
    if (begin < lengths[i]) rests.push_back({document, begin, lengths[i] - begin, 0});
  }
  std::stable_sort(rests.begin(), rests.end(),
                   [](const PackedRun& a, const PackedRun& b) { return a.count > b.count; });
  std::map<std::int64_t, std::vector<std::size_t>> by_room;  // sequences with that much room left
  for (PackedRun run : rests) {
    std::size_t target = packing.sequences.size();
    std::int64_t room = seq;
    if (const auto best = by_room.lower_bound(run.count); best != by_room.end()) {
      room = best->first;
      target = best->second.back();
      best->second.pop_back();
      if (best->second.empty()) by_room.erase(best);
    } else {
      packing.sequences.emplace_back();
    }
    run.at = seq - room;
    packing.sequences[target].push_back(run);
    if (room > run.count) by_room[room - run.count].push_back(target);
  }
  return packing;
}

}  // namespace etna::data
