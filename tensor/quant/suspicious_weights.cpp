#include <etna/tensor/quant/block_format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/quant/internal/block_bytes.h>

namespace etna::quant {
namespace {

bool f16_is_finite(const std::byte* at) { return (load<std::uint16_t>(at) & 0x7c00u) != 0x7c00u; }

/// Whether a block has a scale that makes all of its values NaN or infinite.
bool lost_scale(const BlockFormat& format, const std::byte* block) {
  // OCP's microscaling reserves this exponent for NaN; ggml reads it as 2^128.
  if (format.name == "MXFP4") return byte_at(block, 0) == 255;
  const auto lost = [&](int at) { return at >= 0 && !f16_is_finite(block + at); };
  return lost(format.f16_fields.first) || lost(format.f16_fields.second);
}

/// The number of 2-bit quants equal to 3 in a block of a ternary format.
std::int64_t fourth_quants(const std::byte* block, int bytes) {
  std::int64_t found = 0;
  for (int i = 0; i < bytes; ++i) {
    const unsigned both = byte_at(block, i) & byte_at(block, i) >> 1 & 0x55u;
    found += std::popcount(both);
  }
  return found;
}

class Report {
 public:
  void add(Finding::Kind kind, std::int64_t count, std::int64_t index) {
    if (count == 0) return;
    Finding& finding = findings_[static_cast<std::size_t>(kind)];
    if (finding.count == 0) finding.first = index;
    finding.count += count;
  }

  std::vector<Finding> take(const BlockFormat& format, SuspicionLimits limits) {
    std::vector<Finding> found;
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      Finding& f = findings_[i];
      if (f.count == 0) continue;
      f.kind = static_cast<Finding::Kind>(i);
      f.text = words(f, format, limits);
      found.push_back(f);
    }
    return found;
  }

 private:
  static std::string words(const Finding& f, const BlockFormat& format, SuspicionLimits limits) {
    const bool one = f.count == 1;
    const std::string where = fmt::format("{} element {}", one ? "at" : "the first at", f.first);
    switch (f.kind) {
      case Finding::Kind::not_finite:
        return fmt::format("{} value{} NaN or infinite, {}", f.count, one ? " is" : "s are", where);
      case Finding::Kind::scale:
        return fmt::format("{} elements of {} have a scale that is NaN or infinite, {}", f.count, format.name, where);
      case Finding::Kind::large:
        return fmt::format("{} value{} larger than {}, {}", f.count, one ? " is" : "s are", limits.largest, where);
      case Finding::Kind::quant:
        return fmt::format("{} quant{} not one of the three of {}, {}", f.count, one ? " is" : "s are", format.name,
                           where);
      case Finding::Kind::zeros:
        break;
    }
    return fmt::format("all {} values are 0", f.count);
  }

  std::array<Finding, 5> findings_{};
};

}  // namespace

std::vector<Finding> find_suspicious(const BlockFormat& format, std::span<const std::byte> bytes, std::int64_t count,
                                     SuspicionLimits limits) {
  const std::size_t wanted = storage_bytes(format, count);
  if (bytes.size() < wanted) {
    throw ShapeError(fmt::format("find_suspicious: {} elements of {} take {} bytes; got {}", count, format.name, wanted,
                                 bytes.size()));
  }
  const int quant_bytes = format.name == "TQ2_0" ? 64 : format.name == "I2_S" ? 32 : 0;

  float scale = 1.0f;
  if (format.tail != 0 && count > 0) scale = load<float>(bytes.data() + wanted - format.tail);

  Report report;
  bool zeros = true;
  if (!std::isfinite(scale)) report.add(Finding::Kind::scale, count, 0);
  // As many blocks at a time as fit in a buffer, so that formats with one element per block are fast.
  constexpr std::int64_t kBuffer = 1024;
  std::array<float, kBuffer> values;
  const std::int64_t at_once = kBuffer / format.elements;
  for (std::int64_t first = 0, blocks = count / format.elements; first < blocks; first += at_once) {
    const std::int64_t n = std::min(at_once, blocks - first);
    const std::byte* begin = bytes.data() + first * static_cast<std::int64_t>(format.bytes);
    format.decode(begin, values.data(), n);
    for (std::int64_t b = 0; b < n; ++b) {
      const std::byte* block = begin + b * static_cast<std::int64_t>(format.bytes);
      const std::int64_t index = (first + b) * format.elements;
      if (quant_bytes > 0) report.add(Finding::Kind::quant, fourth_quants(block, quant_bytes), index);
      if (!std::isfinite(scale) || lost_scale(format, block)) {
        if (std::isfinite(scale)) report.add(Finding::Kind::scale, format.elements, index);
        zeros = false;
        continue;
      }
      for (std::int64_t i = 0; i < format.elements; ++i) {
        const float value = values[static_cast<std::size_t>(b * format.elements + i)] * scale;
        zeros = zeros && value == 0.0f;
        if (!std::isfinite(value))
          report.add(Finding::Kind::not_finite, 1, index + i);
        else if (std::abs(value) > limits.largest)
          report.add(Finding::Kind::large, 1, index + i);
      }
    }
  }
  if (zeros) report.add(Finding::Kind::zeros, count, 0);
  return report.take(format, limits);
}

}  // namespace etna::quant
