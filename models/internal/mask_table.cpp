#include <etna/models/internal/mask_table.h>

#include <algorithm>
#include <bit>
#include <vector>

#include <fmt/format.h>

#include <etna/tensor/ops.h>

namespace etna::models {

MaskTable::MaskTable(std::int64_t vocabulary, std::int64_t rows, Device device)
    : vocabulary_(vocabulary), masks_(zeros({rows, (vocabulary + 31) / 32}, {i32, device})) {}

std::int32_t MaskTable::row(const std::shared_ptr<TokenGrammar>& grammar, TokenGrammar::State state) {
  const Key key{grammar, state};
  if (const auto found = found_.find(key); found != found_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }
  const std::span<const std::uint32_t> allowed = grammar->allowed(state);
  if (std::ssize(allowed) != masks_.size(1)) {
    throw Error(fmt::format("Generator: the grammar's mask has {} words; wanted {} for {} tokens", allowed.size(),
                            masks_.size(1), vocabulary_));
  }
  std::vector<std::int32_t> words(allowed.size());
  std::transform(allowed.begin(), allowed.end(), words.begin(),
                 [](std::uint32_t word) { return std::bit_cast<std::int32_t>(word); });
  // Bits after the last token mean nothing.
  const auto last = static_cast<std::uint32_t>(vocabulary_ % 32);
  if (last != 0) words.back() &= std::bit_cast<std::int32_t>((1u << last) - 1);
  if (std::all_of(words.begin(), words.end(), [](std::int32_t word) { return word == 0; }))
    throw Error(fmt::format("Generator: the grammar allows no token in state {}", state));
  std::int32_t row = static_cast<std::int32_t>(order_.size());
  if (row == masks_.size(0)) {
    row = order_.back().second;
    found_.erase(order_.back().first);
    order_.pop_back();
  }
  masks_.select(0, row).copy_(from_vector(words));
  ++writes_;
  order_.emplace_front(key, row);
  found_.emplace(key, order_.begin());
  return row;
}

}  // namespace etna::models
