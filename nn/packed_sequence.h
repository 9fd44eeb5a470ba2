#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::nn {

/// Sequences of different lengths without padding: the first steps of all, longest sequence first, then the second
/// steps, and so on.
struct PackedSequence {
  Tensor data;                            ///< [sum of lengths, ...]
  std::vector<std::int64_t> batch_sizes;  ///< how many sequences have a t-th step
  /// Where each sequence of the packed order stood in the batch; empty: it was sorted.
  std::vector<std::int64_t> sorted_indices;

  std::int64_t batch() const { return batch_sizes.empty() ? 0 : batch_sizes.front(); }
  /// In packed order.
  std::vector<std::int64_t> sorted_lengths() const;
  /// In the batch's order.
  std::vector<std::int64_t> lengths() const;
};

struct PaddedSequence {
  Tensor data;                        ///< [T, B, ...], or [B, T, ...]
  std::vector<std::int64_t> lengths;  ///< of each sequence of the batch
};

/// Packs a padded batch. The lengths are numbers of the host, as in PyTorch, so a captured step cannot pack sequences:
/// there, give the lengths to recurrent_layer() as a tensor.
/// @param input [T, B, ...], or [B, T, ...] with batch_first @param lengths of each sequence, 1 ... T
/// @param enforce_sorted refuse lengths that are not in falling order; false: sorts them
/// @throws ShapeError
PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<std::int64_t>& lengths,
                                    bool batch_first = false, bool enforce_sorted = true);
/// @param lengths [B] i64 or i32 on the host; on a GPU it is read back
PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first = false,
                                    bool enforce_sorted = true);
/// The inverse; the sequences return to the batch's order.
/// @param total_length T; {}: the longest length @throws ShapeError if it is shorter than that
PaddedSequence pad_packed_sequence(const PackedSequence& packed, bool batch_first = false, double padding_value = 0,
                                   std::optional<std::int64_t> total_length = {});
/// Pads sequences [T_i, ...] of one device and dtype to the longest. @return [T, B, ...], or [B, T, ...]
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false, double padding_value = 0);
/// Packs sequences [T_i, ...].
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true);

}  // namespace etna::nn
