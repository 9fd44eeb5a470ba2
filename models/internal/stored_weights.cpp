#include <etna/models/internal/stored_weights.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/host_import.h>
#include <etna/models/internal/decoder_parts.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// Bytes of a mapping as a tensor. On the CPU, and on a GPU that shares its memory, they are not copied, and the tensor
/// keeps the mapping alive.
Tensor bytes_on(Device device, const StoredTensor& stored, std::size_t begin, std::size_t size) {
  const std::byte* from = stored.span().data() + begin;
  const auto count = static_cast<std::int64_t>(size);
  if (device != kCPU && !stored.owned.defined()) {
    const auto mapping = std::make_shared<const io::MappedBytes>(stored.bytes);
    if (const StoragePtr there = import_host(device, {from, size}, mapping))
      return detail::make_view(there, device, u8, {count}, {1}, 0);
  }
  if (device != kCPU || stored.owned.defined()) return from_bytes(from, {count}, u8, device);
  auto* host = const_cast<std::byte*>(from);
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(host));
  StoragePtr storage(new Storage(kCPU, size, host, address, nullptr),
                     [bytes = stored.bytes](Storage* own) { delete own; });
  return detail::make_view(storage, kCPU, u8, {count}, {1}, 0);
}

/// Rounds weights like BitNet's layers do.
Tensor ternary(const Tensor& values) {
  const double scale = std::max(1e-5, abs(values).mean().item<double>());
  return clamp(round(values * (1 / scale)), -1.0, 1.0) * scale;
}

/// The rows of all, one below the other: in their blocks if these are of one format.
Matrix joined(const std::vector<Matrix>& all) {
  std::vector<Tensor> rows;
  if (all[0].dense.defined()) {
    for (const Matrix& one : all) rows.push_back(one.dense);
    return {cat(rows), {}};
  }
  const QuantizedTensor& first = all[0].blocks;
  const bool alike = std::all_of(all.begin(), all.end(), [&](const Matrix& one) {
    return &one.blocks.format() == &first.format() && first.format().tail == 0;
  });
  std::int64_t count = 0;
  for (const Matrix& one : all) {
    count += one.blocks.size(0);
    rows.push_back(alike ? one.blocks.blocks() : dequantize(one.blocks));
  }
  const Tensor together = cat(rows);
  return {{},
          alike ? QuantizedTensor(first.format(), {count, first.size(1)}, together)
                : QuantizedTensor::unquantized(together)};
}

}  // namespace

Device WeightPlacement::of(const std::string& weight) const {
  constexpr std::string_view kBlocks = "blocks.";
  if (host_layers == 0 || !weight.starts_with(kBlocks)) return device;
  std::int64_t block = 0;
  std::from_chars(weight.data() + kBlocks.size(), weight.data() + weight.size(), block);
  return block < host_layers ? kCPU : device;
}

std::span<const std::byte> StoredTensor::span() const {
  if (!owned.defined()) return bytes;
  return {static_cast<const std::byte*>(owned.raw_data()),
          static_cast<std::size_t>(owned.numel()) * item_size(owned.dtype())};
}

std::vector<std::string> StoredWeights::unused(const std::vector<std::string>& names) const {
  std::vector<std::string> left;
  std::copy_if(names.begin(), names.end(), std::back_inserter(left),
               [this](const std::string& name) { return !used_.contains(name); });
  return left;
}

StoredTensor StoredWeights::find(const std::string& name) {
  std::optional<StoredTensor> found = find_(name);
  if (!found) throw FormatError(fmt::format("{}: tensor '{}' is missing", file_, name));
  if (found->format == nullptr) throw FormatError(fmt::format("{}: tensor '{}' has an unknown format", file_, name));
  used_.insert(name);
  return *found;
}

Device StoredWeights::device_of(const std::string& name) const {
  if (placement_.host_experts && config_ != nullptr && is_expert_matrix(*config_, name)) return kCPU;
  return placement_.of(name);
}

ModelSplit StoredWeights::divide(const DecoderConfig& config, ModelSplit split) {
  config_ = &config;
  if (!split.is_split()) return split;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    for (const char* name : {"attention.output", "ffn.down"}) {
      for (const StoredPlace& place : locate_(fmt::format("blocks.{}.{}.weight", i, name))) {
        const std::optional<StoredTensor> found = find_(place.name);
        if (found && found->format != nullptr) split.block = std::lcm(split.block, found->format->elements);
      }
    }
  }
  try {
    decoder_part(config, split);
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: {}", file_, error.what()));
  }
  divided_ = &config;
  return split_ = split;
}

WeightPart StoredWeights::part_of(const std::string& name, std::int64_t rows, std::int64_t columns) const {
  if (divided_ == nullptr) return {rows, columns, {{0, rows}}, {0, columns}};
  return weight_part(*divided_, split_, name, rows, columns);
}

Matrix StoredWeights::matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  const WeightPart part = part_of(name, rows, columns);
  const StoredPlaces places = locate_(name);
  std::vector<Matrix> all;
  for (const PartRange& range : part.rows) {
    std::int64_t at = 0;  // of the place, in the whole weight
    for (const StoredPlace& place : places) {
      const std::int64_t place_rows = place.rows > 0 ? place.rows : part.all_rows;
      const std::int64_t begin = std::max(range.begin, at), end = std::min(range.end(), at + place_rows);
      if (begin < end) all.push_back(matrix_at(place, name, place_rows, part, {begin - at, end - begin}));
      at += place_rows;
    }
  }
  return all.size() == 1 ? all[0] : joined(all);
}

/// @param place_rows of the weight in this place @param own those of them that are asked for
Matrix StoredWeights::matrix_at(const StoredPlace& place, const std::string& name, std::int64_t place_rows,
                                const WeightPart& part, const PartRange& own) {
  StoredTensor stored = find(place.name);
  // The matrices of experts, one below the other.
  if (stored.shape.rank() == 3) stored.shape = {stored.shape[0] * stored.shape[1], stored.shape[2]};
  if (stored.shape.rank() == 1 && part.all_rows == 1) stored.shape = {1, stored.shape[0]};
  // A packed tensor may also be transposed; then the rows are a range of its columns.
  const int across = place.transposed ? 1 : 0;
  const std::int64_t all = place.packed > 0 ? place.packed : place_rows, columns = part.all_columns;
  if (stored.shape.rank() != 2 || stored.shape[1 - across] != columns || stored.shape[across] != all) {
    const Shape wanted = place.transposed ? Shape{columns, all} : Shape{all, columns};
    throw FormatError(fmt::format("{}: tensor '{}' is {}; the model's sizes require {}", file_, place.name,
                                  str(stored.shape), str(wanted)));
  }
  const quant::BlockFormat& format = *stored.format;
  if (!format.can_quantize() && format.elements == 1)
    throw FormatError(fmt::format(
        "{}: tensor '{}' has format {}, which cannot hold weights; wanted F32, F16, BF16 or a quantized format", file_,
        place.name, format.name));
  const bool whole = stored.shape[0] == own.size && part.columns.size == columns && !place.transposed;
  const std::optional<double> factor = factor_of ? factor_of(place.name) : std::nullopt;
  const bool rounds = rounds_to_ternary && name.starts_with("blocks.");
  const bool decoded = placement_.trainable || factor || rounds || place.transposed || (!whole && format.tail != 0);
  if (!decoded) return blocks_at(place, name, stored, part, own);
  Tensor values = empty(stored.shape);
  quant::dequantize(format, stored.span(), values.mutable_data<float>(), values.numel());
  if (place.transposed) values = values.t();
  values = values.slice(0, place.begin, place.begin + place_rows).contiguous();
  if (factor) values = values * *factor;
  if (rounds) values = ternary(values);
  values = values.slice(0, own.begin, own.end()).slice(1, part.columns.begin, part.columns.end()).contiguous();
  if (placement_.trainable) return {(whole ? values : values.clone()).to(device_of(name)), {}};
  return {{}, QuantizedTensor::unquantized(values.to(device_of(name)))};
}

/// Rows in their blocks: bytes of the file as they lie there, or those of some columns.
Matrix StoredWeights::blocks_at(const StoredPlace& place, const std::string& name, const StoredTensor& stored,
                                const WeightPart& part, const PartRange& own) const {
  const quant::BlockFormat& format = *stored.format;
  const auto bytes_of = [&](std::int64_t columns) {
    return static_cast<std::size_t>(columns / format.elements) * format.bytes;
  };
  const std::size_t row = bytes_of(part.all_columns);
  const std::size_t from = static_cast<std::size_t>(place.begin + own.begin) * row;
  const std::size_t size = quant::storage_bytes(format, own.size * part.all_columns);
  if (stored.span().size() < from + size) {
    throw FormatError(fmt::format("{}: tensor '{}' has {} bytes, but its rows end at byte {}", file_, place.name,
                                  stored.span().size(), from + size));
  }
  const Device device = device_of(name);
  const PartRange& columns = part.columns;
  const Shape shape{own.size, columns.size};
  if (columns.size == part.all_columns) return {{}, {format, shape, bytes_on(device, stored, from, size)}};
  if (columns.begin % format.elements != 0 || columns.size % format.elements != 0) {
    throw FormatError(fmt::format("{}: tensor '{}' is in blocks of {} elements, which columns {} to {} divide", file_,
                                  place.name, format.elements, columns.begin, columns.end()));
  }
  const std::size_t part_row = bytes_of(columns.size);
  Tensor bytes = empty({own.size * static_cast<std::int64_t>(part_row)}, {u8, kCPU});
  auto* to = bytes.mutable_data<std::uint8_t>();
  const std::byte* at = stored.span().data() + from + bytes_of(columns.begin);
  for (std::int64_t i = 0; i < own.size; ++i, to += part_row, at += row) std::memcpy(to, at, part_row);
  return {{}, {format, shape, bytes.to(device)}};
}

Tensor StoredWeights::vector(const std::string& name, std::int64_t size) {
  const WeightPart part = part_of(name, size, 1);
  std::vector<Tensor> all;
  for (const StoredPlace& place : locate_(name))
    all.push_back(vector_at(place, name, place.rows > 0 ? place.rows : part.all_rows));
  Tensor values = all.size() == 1 ? all[0] : cat(all);
  if (!part.is_whole()) {
    std::vector<Tensor> own;
    for (const PartRange& range : part.rows) own.push_back(values.slice(0, range.begin, range.end()));
    values = cat(own);
  }
  if (part.is_zero) values = zeros_like(values);
  if (has_decay_rates && name.ends_with(".log_decay")) return log(-values);
  const bool offset = name.ends_with("norm.weight") && !name.ends_with(".delta.norm.weight");
  return norm_offset != 0 && offset ? values + norm_offset : values;
}

Tensor StoredWeights::vector_at(const StoredPlace& place, const std::string& name, std::int64_t size) {
  const StoredTensor stored = find(place.name);
  const std::int64_t count = numel(stored.shape);
  const std::int64_t all = place.packed > 0 ? place.packed : size;
  if (count != all || (place.packed > 0 && stored.shape.rank() != 1)) {
    throw FormatError(
        fmt::format("{}: tensor '{}' is {}; the model's sizes require {}", file_, place.name, str(stored.shape), all));
  }
  Tensor values = empty({count});
  quant::dequantize(*stored.format, stored.span(), values.mutable_data<float>(), count);
  return values.slice(0, place.begin, place.begin + size).clone().to(device_of(name));
}

}  // namespace etna::models
