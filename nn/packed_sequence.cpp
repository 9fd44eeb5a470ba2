#include <etna/nn/recurrent.h>

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

/// Uploads positions: a step that is being captured cannot, and says so.
Tensor index_on(const std::vector<std::int64_t>& index, Device device) { return from_vector(index, device); }

void check_lengths(const Tensor& input, const std::vector<std::int64_t>& lengths, bool batch_first,
                   bool enforce_sorted) {
  if (input.dim() < 2) {
    throw ShapeError(fmt::format("pack_padded_sequence: the input is {}; wanted [T, B, ...]", str(input.shape())));
  }
  const std::int64_t steps = input.size(batch_first ? 1 : 0), batch = input.size(batch_first ? 0 : 1);
  if (batch == 0 || static_cast<std::int64_t>(lengths.size()) != batch) {
    throw ShapeError(fmt::format("pack_padded_sequence: {} lengths for a batch of {}", lengths.size(), batch));
  }
  for (std::int64_t n : lengths) {
    if (n < 1 || n > steps)
      throw ShapeError(fmt::format("pack_padded_sequence: the length {} is outside [1, {}]", n, steps));
  }
  if (enforce_sorted && !std::is_sorted(lengths.begin(), lengths.end(), std::greater<>())) {
    throw ShapeError("pack_padded_sequence: the lengths do not fall; sort them, or pass enforce_sorted = false");
  }
}

}  // namespace

std::vector<std::int64_t> PackedSequence::sorted_lengths() const {
  std::vector<std::int64_t> found(static_cast<std::size_t>(batch()));
  for (std::int64_t size : batch_sizes) {
    for (std::int64_t i = 0; i < size; ++i) ++found[static_cast<std::size_t>(i)];
  }
  return found;
}

std::vector<std::int64_t> PackedSequence::lengths() const {
  const std::vector<std::int64_t> sorted = sorted_lengths();
  if (sorted_indices.empty()) return sorted;
  std::vector<std::int64_t> found(sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) found[static_cast<std::size_t>(sorted_indices[i])] = sorted[i];
  return found;
}

PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<std::int64_t>& lengths, bool batch_first,
                                    bool enforce_sorted) {
  check_lengths(input, lengths, batch_first, enforce_sorted);
  const Tensor x = batch_first ? input.transpose(0, 1) : input;
  const std::int64_t batch = x.size(1);
  std::vector<std::int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto length = [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return length(a) > length(b); });
  PackedSequence packed;
  std::vector<std::int64_t> taken;
  for (std::int64_t t = 0; t < length(order[0]); ++t) {
    std::int64_t size = 0;
    for (; size < batch && length(order[static_cast<std::size_t>(size)]) > t; ++size)
      taken.push_back(t * batch + order[static_cast<std::size_t>(size)]);
    packed.batch_sizes.push_back(size);
  }
  packed.data = index_select(x.flatten(0, 1), 0, index_on(taken, x.device()));
  if (!enforce_sorted) packed.sorted_indices = order;
  return packed;
}

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first, bool enforce_sorted) {
  if (lengths.dim() != 1 || is_floating(lengths.dtype())) {
    throw ShapeError(fmt::format("pack_padded_sequence: the lengths are {} {}; wanted [B] of integers",
                                 name(lengths.dtype()), str(lengths.shape())));
  }
  return pack_padded_sequence(input, lengths.to_vector<std::int64_t>(), batch_first, enforce_sorted);
}

PaddedSequence pad_packed_sequence(const PackedSequence& packed, bool batch_first, double padding_value,
                                   std::optional<std::int64_t> total_length) {
  if (packed.batch_sizes.empty() || !packed.data.defined())
    throw ShapeError("pad_packed_sequence: the packed sequence is empty");
  const auto longest = static_cast<std::int64_t>(packed.batch_sizes.size());
  const std::int64_t steps = total_length.value_or(longest), batch = packed.batch();
  if (steps < longest) {
    throw ShapeError(
        fmt::format("pad_packed_sequence: total_length {} is shorter than the longest sequence, {}", steps, longest));
  }
  // Padding reads element 0 and is overwritten; its gradient is 0.
  const auto count = static_cast<std::size_t>(checked_product(steps, batch, "pad_packed_sequence"));
  std::vector<std::int64_t> from(count, 0);
  std::vector<std::uint8_t> padding(count, 1);
  std::int64_t first = 0;
  for (std::int64_t t = 0; t < longest; ++t) {
    const std::int64_t size = packed.batch_sizes[static_cast<std::size_t>(t)];
    for (std::int64_t i = 0; i < size; ++i) {
      const auto row = packed.sorted_indices.empty() ? i : packed.sorted_indices[static_cast<std::size_t>(i)];
      from[static_cast<std::size_t>(t * batch + row)] = first + i;
      padding[static_cast<std::size_t>(t * batch + row)] = 0;
    }
    first += size;
  }
  const Device device = packed.data.device();
  Tensor y = index_select(packed.data, 0, index_on(from, device));
  if (std::find(padding.begin(), padding.end(), 1) != padding.end()) {
    Shape mask = y.shape();
    for (int d = 1; d < mask.rank(); ++d) mask[d] = 1;
    y = masked_fill(y, from_vector(padding, mask, device).to(boolean), padding_value);
  }
  Shape shape = packed.data.shape();
  shape[0] = steps;
  shape.insert(1, batch);
  y = y.reshape(shape);
  return {batch_first ? y.transpose(0, 1) : y, packed.lengths()};
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double padding_value) {
  if (sequences.empty()) throw ShapeError("pad_sequence: there are no sequences");
  std::int64_t longest = 0;
  for (const Tensor& x : sequences) {
    if (x.dim() < 1) throw ShapeError("pad_sequence: a sequence is 0-d; wanted [T, ...]");
    longest = std::max(longest, x.size(0));
  }
  const auto filled = [&](const Shape& shape, const Tensor& x) {
    return full(shape, detail::number_held("pad_sequence", x.dtype(), padding_value), {x.dtype(), x.device()});
  };
  std::vector<Tensor> padded;
  for (const Tensor& x : sequences) {
    Shape rest = x.shape();
    rest[0] = longest - x.size(0);
    if (rest[0] == 0)
      padded.push_back(x);
    else
      padded.push_back(cat({x, filled(rest, x)}, 0));
  }
  return stack(padded, batch_first ? 0 : 1);
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted) {
  std::vector<std::int64_t> lengths;
  for (const Tensor& x : sequences) lengths.push_back(x.dim() > 0 ? x.size(0) : 0);
  return pack_padded_sequence(pad_sequence(sequences), lengths, false, enforce_sorted);
}

}  // namespace etna::nn
