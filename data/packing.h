#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace etna::data {

/// Where a run of a document's tokens lies in a packed sequence.
struct PackedRun {
  std::int64_t document;  ///< index of the document
  std::int64_t begin;     ///< the first token within the document
  std::int64_t count;
  std::int64_t at;         ///< the first position within the sequence
  bool end_token = false;  ///< the last of the `count` is the end token
};

/// Documents placed in sequences of one length.
struct Packing {
  std::int64_t seq = 0;
  std::vector<std::vector<PackedRun>> sequences;
  /// Follows the last token of every document, if there is one.
  std::optional<std::int32_t> end_token = {};

  /// Tokens, end tokens among them, over positions of all sequences; 1 for no sequences.
  double efficiency() const;
  /// Writes sequence `index`: `ids` gets its tokens, then `padding`; `documents` the index of each position's document,
  /// -1 for padding, so that attention can be masked to positions of the same document. Both hold seq elements.
  /// @throws ShapeError for an index, a document or a size that does not fit
  void fill(std::int64_t index, std::span<const std::span<const std::int32_t>> texts, std::int32_t padding,
            std::span<std::int32_t> ids, std::span<std::int32_t> documents) const;
};

/// Places documents by best fit, longest first: each goes where it leaves the least room. A document longer than `seq`
/// is first cut into full sequences and a rest; empty ones are left out. O(n log n), and the same for the same lengths.
/// @throws ShapeError for seq < 1 or a negative length
Packing pack_best_fit(std::span<const std::int64_t> lengths, std::int64_t seq);

/// What becomes of the tokens at the end that fill no sequence.
enum class Remainder { drop, pad };

/// Joins documents in order, each followed by the end token, and cuts the result into full sequences, wherever that is
/// within a document. Empty documents are left out. O(n), and no position is padded, but for those of
/// a last sequence with Remainder::pad.
/// @throws ShapeError for seq < 1 or a negative length
Packing pack_concatenated(std::span<const std::int64_t> lengths, std::int64_t seq, std::int32_t end_token,
                          Remainder remainder = Remainder::drop);

}  // namespace etna::data
