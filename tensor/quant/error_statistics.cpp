#include <etna/tensor/quant/block_format.h>

#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::quant {

double ErrorStatistics::signal_to_noise() const {
  if (mean_square_error == 0) return std::numeric_limits<double>::infinity();
  return mean_square == 0 ? 0 : 10 * std::log10(mean_square / mean_square_error);
}

void ErrorStatistics::add(const ErrorStatistics& other) {
  if (other.count == 0) return;
  if (other.largest_error > largest_error) {
    largest_error = other.largest_error;
    largest_error_at = count + other.largest_error_at;
  }
  const double share = static_cast<double>(other.count) / static_cast<double>(count + other.count);
  mean_square_error += (other.mean_square_error - mean_square_error) * share;
  mean_square += (other.mean_square - mean_square) * share;
  count += other.count;
}

std::string ErrorStatistics::str() const {
  return fmt::format("mean square error {:.3g}, largest {:.3g} at {}, {:.1f} dB", mean_square_error, largest_error,
                     largest_error_at, signal_to_noise());
}

ErrorStatistics compare(std::span<const float> exact, std::span<const float> approximate) {
  if (exact.size() != approximate.size())
    throw ShapeError(fmt::format("compare: got {} exact and {} approximate values; wanted the same number of both",
                                 exact.size(), approximate.size()));
  ErrorStatistics result;
  double square_error = 0, square = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double a = exact[i], b = approximate[i];
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    double error = same ? 0 : std::abs(a - b);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    square_error += error * error;
    square += a * a;
    if (error > result.largest_error) {
      result.largest_error = error;
      result.largest_error_at = static_cast<std::int64_t>(i);
    }
  }
  result.count = static_cast<std::int64_t>(exact.size());
  if (result.count == 0) return result;
  result.mean_square_error = square_error / static_cast<double>(result.count);
  result.mean_square = square / static_cast<double>(result.count);
  return result;
}

ErrorStatistics quantization_error(const BlockFormat& format, std::span<const float> values,
                                   std::span<const float> importance) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> bytes(storage_bytes(format, count));
  std::vector<float> decoded(values.size());
  quantize(format, values.data(), bytes, count, importance);
  dequantize(format, bytes, decoded.data(), count);
  return compare(values, decoded);
}

ErrorStatistics quantization_error_of_rows(const BlockFormat& format, std::span<const float> values,
                                           std::int64_t columns, std::span<const float> importance) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (columns <= 0 || count % columns != 0)
    throw ShapeError(fmt::format("quantization_error_of_rows: {} values are not whole rows of {}", count, columns));
  std::vector<std::byte> bytes(storage_bytes(format, count));
  std::vector<float> decoded(values.size());
  quantize_rows(format, values.data(), bytes, count / columns, columns, importance);
  dequantize(format, bytes, decoded.data(), count);
  return compare(values, decoded);
}

}  // namespace etna::quant
