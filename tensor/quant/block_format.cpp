#include <etna/tensor/quant/block_format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/cpu/parallel.h>
#include <etna/tensor/quant/internal/block_bytes.h>
#include <etna/tensor/quant/internal/decode.h>
#include <etna/tensor/quant/internal/formats.h>
#include <etna/tensor/quant/internal/unquantized_formats.h>
#include <etna/tensor/shape.h>

namespace etna::quant {
namespace {

/// A format with one element per block. Formats without an encoder are read-only.
constexpr BlockFormat unquantized(std::string_view name, std::uint32_t type, std::uint32_t file_type, std::size_t bytes,
                                  float largest, std::string_view holds, Decode* decode, Encode* encode) {
  return {name, type, 1, bytes, 0, largest, holds, file_type, {}, decode, encode};
}

template <typename F>
constexpr BlockFormat described() {
  constexpr Description d = F::kDescription;
  BlockFormat format = {d.name,  d.gguf_type,      F::kElements, F::kBytes,        d.tail, d.largest,
                        d.holds, d.gguf_file_type, F::kF16,      decode_blocks<F>, nullptr};
  if constexpr (requires { F::encode; }) format.encode = encode_blocks<F>;
  if constexpr (requires { F::encode_row; }) format.encode_row = F::encode_row;
  return format;
}

template <typename... F>
constexpr auto all_formats(FormatList<F...>) {
  constexpr std::uint32_t kNone = kNoGgufType;
  return std::array{
      unquantized("F32", 0, 0, 4, FLT_MAX, "IEEE 754 binary32", decode_f32, encode_f32),
      unquantized("F16", 1, 1, 2, kLargestF16, "IEEE 754 binary16", decode_f16, encode_f16),
      unquantized("BF16", 30, 32, 2, 0x1.fep127f, "the upper half of an f32", decode_bf16, encode_bf16),
      unquantized("F64", 28, kNone, 8, 0, "IEEE 754 binary64", decode_f64, nullptr),
      unquantized("I8", 24, kNone, 1, 0, "integers of 8 bits", decode_i8, nullptr),
      unquantized("I16", 25, kNone, 2, 0, "integers of 16 bits", decode_i16, nullptr),
      unquantized("I32", 26, kNone, 4, 0, "integers of 32 bits", decode_i32, nullptr),
      unquantized("I64", 27, kNone, 8, 0, "integers of 64 bits", decode_i64, nullptr),
      described<F>()...,
  };
}
constexpr auto kFormats = all_formats(BlockFormats());

/// The least number of elements per thread when decoding, and the number of values that are encoded at a time, so that
/// the buffer with the weights of their errors stays small.
constexpr std::int64_t kGrain = 65536, kEncodedAtOnce = 4096;

void check_values(const BlockFormat& format, const float* values, std::int64_t count) {
  std::int64_t bad = 0;
  const float largest = format.largest;
  for (std::int64_t i = 0; i < count; ++i) bad += std::abs(values[i]) <= largest ? 0 : 1;
  if (bad == 0) return;
  const float* first = std::find_if(values, values + count, [&](float x) { return !(std::abs(x) <= largest); });
  const std::string what = std::isnan(*first)   ? "is NaN"
                           : std::isinf(*first) ? "is infinite"
                                                : fmt::format("is {}, beyond {}", *first, largest);
  throw FormatError(fmt::format("quantize: element {} {}, which {} cannot hold{}; fix the weights first",
                                first - values, what, format.name,
                                bad > 1 ? fmt::format(" ({} of {} elements are invalid)", bad, count) : std::string()));
}

/// Checks the factors of one row.
void check_importance(std::span<const float> importance, std::int64_t count) {
  if (importance.empty()) return;
  const auto row = static_cast<std::int64_t>(importance.size());
  if (count % row != 0) {
    throw ShapeError(fmt::format(
        "quantize: importance has {} factors, which does not divide {} elements; give one for each element of a row",
        row, count));
  }
  for (std::size_t i = 0; i < importance.size(); ++i) {
    if (!(importance[i] >= 0) || std::isinf(importance[i]))
      throw FormatError(
          fmt::format("quantize: importance of column {} is {}; wanted a finite number, 0 or more", i, importance[i]));
  }
}

/// The weights of blocks from `first` on. The largest weight of a block becomes 1, because only ratios within a block
/// matter; a block of zeros gets equal weights.
void block_weights(std::span<const float> importance, std::int64_t first, std::int64_t count, std::int64_t block,
                   float* weights) {
  const auto row = static_cast<std::int64_t>(importance.size());
  for (std::int64_t begin = 0; begin < count; begin += block) {
    float largest = 0.0f;
    for (std::int64_t i = begin; i < begin + block; ++i) {
      weights[i] = importance[static_cast<std::size_t>((first + i) % row)];
      largest = std::max(largest, weights[i]);
    }
    for (std::int64_t i = begin; i < begin + block; ++i) weights[i] = largest > 0.0f ? weights[i] / largest : 1.0f;
  }
}

}  // namespace

std::span<const BlockFormat> block_formats() { return kFormats; }

const BlockFormat* find_format(std::string_view name) {
  const auto same = [&](const BlockFormat& format) {
    return std::equal(name.begin(), name.end(), format.name.begin(), format.name.end(),
                      [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); });
  };
  const auto found = std::find_if(kFormats.begin(), kFormats.end(), same);
  return found == kFormats.end() ? nullptr : &*found;
}

const BlockFormat* find_format(std::uint32_t gguf_type) {
  if (gguf_type == kNoGgufType) return nullptr;
  const auto found = std::find_if(kFormats.begin(), kFormats.end(),
                                  [&](const BlockFormat& format) { return format.gguf_type == gguf_type; });
  return found == kFormats.end() ? nullptr : &*found;
}

const BlockFormat& format_named(std::string_view name) {
  if (const BlockFormat* found = find_format(name)) return *found;
  std::string known;
  for (const BlockFormat& format : kFormats) known += (known.empty() ? "" : ", ") + std::string(format.name);
  throw FormatError(fmt::format("unknown block format '{}'; known are {}", name, known));
}

std::size_t storage_bytes(const BlockFormat& format, std::int64_t count) {
  if (count < 0 || count % format.elements != 0) {
    throw ShapeError(fmt::format("{}: {} elements are not whole blocks of {}; wanted rows of a multiple of that",
                                 format.name, count, format.elements));
  }
  const std::int64_t blocks = count / format.elements;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(blocks, static_cast<std::int64_t>(format.bytes), &bytes) ||
      __builtin_add_overflow(bytes, static_cast<std::int64_t>(count > 0 ? format.tail : 0), &bytes) ||
      static_cast<std::uint64_t>(bytes) > std::numeric_limits<std::size_t>::max())
    throw ShapeError(fmt::format("{}: {} elements take more bytes than fit in memory", format.name, count));
  return static_cast<std::size_t>(bytes);
}

void dequantize(const BlockFormat& format, std::span<const std::byte> bytes, float* out, std::int64_t count) {
  const std::size_t wanted = storage_bytes(format, count);
  if (bytes.size() < wanted) {
    throw ShapeError(
        fmt::format("dequantize: {} elements of {} take {} bytes; got {}", count, format.name, wanted, bytes.size()));
  }
  const float scale = format.tail != 0 && count > 0 ? load<float>(bytes.data() + wanted - format.tail) : 1.0f;
  cpu::parallel_for(count / format.elements, kGrain / format.elements, [&](std::int64_t begin, std::int64_t end) {
    float* to = out + begin * format.elements;
    format.decode(bytes.data() + begin * static_cast<std::int64_t>(format.bytes), to, end - begin);
    if (format.tail == 0) return;
    for (std::int64_t i = 0; i < (end - begin) * format.elements; ++i) to[i] *= scale;
  });
}

namespace {

/// Checks the arguments of quantize() and quantize_rows(). @return the number of bytes of the blocks
std::size_t checked_bytes(const BlockFormat& format, const float* values, std::span<std::byte> bytes,
                          std::int64_t count, std::span<const float> importance) {
  const std::size_t wanted = storage_bytes(format, count);
  if (!format.can_quantize())
    throw FormatError(fmt::format("quantize: {} is read-only; choose a format of weights, like Q8_0", format.name));
  if (bytes.size() < wanted) {
    throw ShapeError(fmt::format("quantize: {} elements of {} take {} bytes, but there is room for {}", count,
                                 format.name, wanted, bytes.size()));
  }
  check_importance(importance, count);
  check_values(format, values, count);
  return wanted;
}

}  // namespace

void quantize(const BlockFormat& format, const float* values, std::span<std::byte> bytes, std::int64_t count,
              std::span<const float> importance) {
  const std::size_t wanted = checked_bytes(format, values, bytes, count, importance);
  if (count == 0) return;
  if (std::all_of(importance.begin(), importance.end(), [](float factor) { return factor == 0.0f; })) importance = {};
  float scale = 1.0f;
  if (format.tail != 0) {
    const float even[1] = {1.0f};
    scale = importance.empty()
                ? ternary_scale(values, even, 1, count)
                : ternary_scale(values, importance.data(), static_cast<std::int64_t>(importance.size()), count);
    std::byte* tail = bytes.data() + wanted - format.tail;
    std::fill(tail, tail + format.tail, std::byte{0});
    store(tail, scale);
  }
  cpu::parallel_for((count + kEncodedAtOnce - 1) / kEncodedAtOnce, 1, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> weights(static_cast<std::size_t>(std::min(count, kEncodedAtOnce)), 1.0f);
    std::vector<float> scaled(format.tail != 0 ? weights.size() : 0);
    for (std::int64_t at = first * kEncodedAtOnce; at < std::min(count, last * kEncodedAtOnce); at += kEncodedAtOnce) {
      const std::int64_t n = std::min(kEncodedAtOnce, count - at);
      if (!importance.empty()) block_weights(importance, at, n, format.elements, weights.data());
      const float* from = values + at;
      if (format.tail != 0) {
        for (std::int64_t i = 0; i < n; ++i)
          scaled[static_cast<std::size_t>(i)] = scale > 0.0f ? values[at + i] / scale : 0.0f;
        from = scaled.data();
      }
      std::byte* to = bytes.data() + at / format.elements * static_cast<std::int64_t>(format.bytes);
      format.encode(from, weights.data(), to, n / format.elements);
    }
  });
}

void quantize_rows(const BlockFormat& format, const float* values, std::span<std::byte> bytes, std::int64_t rows,
                   std::int64_t columns, std::span<const float> importance) {
  if (format.encode_row == nullptr) {
    throw FormatError(fmt::format(
        "quantize_rows: blocks of {} have more than one scale, so rows cannot share it; choose INT4_... or INT8_...",
        format.name));
  }
  storage_bytes(format, columns);  // whole blocks
  if (!importance.empty() && static_cast<std::int64_t>(importance.size()) != columns) {
    throw ShapeError(fmt::format("quantize_rows: importance has {} factors; wanted one for each of {} columns",
                                 importance.size(), columns));
  }
  checked_bytes(format, values, bytes, checked_product(rows, columns, "quantize_rows"), importance);
  if (rows == 0 || columns == 0) return;
  std::vector<float> weights(static_cast<std::size_t>(columns), 1.0f);
  if (!importance.empty()) block_weights(importance, 0, columns, columns, weights.data());
  const std::int64_t blocks = columns / format.elements;
  cpu::parallel_for(rows, std::max<std::int64_t>(1, kEncodedAtOnce / columns),
                    [&](std::int64_t first, std::int64_t last) {
                      for (std::int64_t r = first; r < last; ++r) {
                        format.encode_row(values + r * columns, weights.data(),
                                          bytes.data() + r * blocks * static_cast<std::int64_t>(format.bytes), blocks);
                      }
                    });
}

}  // namespace etna::quant
