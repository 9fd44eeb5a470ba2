#include <etna/models/internal/text_batches.h>

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::models {
namespace {

/// Padded tokens that are read at once.
constexpr std::size_t kTokensAtOnce = 8192;

}  // namespace

void for_each_batch(const TokenRows& rows, Device device, bool typed,
                    const std::function<void(const EncoderInput& input, std::span<const std::size_t> texts)>& read) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a].ids.size() > rows[b].ids.size(); });
  for (std::size_t at = 0; at < order.size();) {
    const std::size_t longest = rows[order[at]].ids.size();
    const std::size_t count = std::min(order.size() - at, std::max<std::size_t>(1, kTokensAtOnce / longest));
    const auto batch = static_cast<std::int64_t>(count), steps = static_cast<std::int64_t>(longest);
    std::vector<std::int32_t> ids, types;
    std::vector<std::int64_t> lengths;
    for (std::size_t i = at; i < at + count; ++i) {
      const data::TokenPair& row = rows[order[i]];
      lengths.push_back(std::ssize(row.ids));
      ids.insert(ids.end(), row.ids.begin(), row.ids.end());
      ids.resize((i - at + 1) * longest, 0);
      types.insert(types.end(), row.types.begin(), row.types.end());
      types.resize((i - at + 1) * longest, 0);
    }
    EncoderInput input{from_vector(ids, {batch, steps}, device), from_vector(lengths, {batch, 1}, device)};
    if (typed) input.types = from_vector(types, {batch, steps}, device);
    read(input, std::span(order).subspan(at, count));
    at += count;
  }
}

Tensor hidden_of_texts(const Decoder& decoder, const EncoderInput& input) {
  // Where later tokens are not seen, padding is not, either.
  if (!decoder.config.bidirectional) return decoder.hidden(input.tokens);
  return decoder.hidden(input.tokens, {}, document_bounds(input.lengths, input.tokens.size(1)));
}

void require_tokenizer(const data::Tokenizer* tokenizer, const FilePath& path) {
  if (tokenizer == nullptr)
    throw FormatError(fmt::format("{}: the model has no tokenizer, so it cannot read text", path.string()));
}

}  // namespace etna::models
