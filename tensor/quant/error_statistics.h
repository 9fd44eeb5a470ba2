#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <etna/tensor/quant/block_format.h>

namespace etna::quant {

/// The error of approximate values. Sums are f64.
struct ErrorStatistics {
  std::int64_t count = 0;
  double mean_square_error = 0;
  double mean_square = 0;    ///< of the exact values
  double largest_error = 0;  ///< in magnitude; infinite if only one of two values is NaN or infinite
  std::int64_t largest_error_at = 0;

  /// 10 log10(mean square / mean square error), in dB: infinite without an error, 0 if all exact values are 0.
  double signal_to_noise() const;
  /// Adds the statistics of further values, the first of which gets index `count`.
  void add(const ErrorStatistics& other);
  /// "mean square error 2.1e-06, largest 0.0041 at 17, 31.4 dB"
  std::string str() const;
};

/// @throws ShapeError if the lengths differ
ErrorStatistics compare(std::span<const float> exact, std::span<const float> approximate);

/// The error of quantizing and dequantizing `values`; arguments as quantize().
ErrorStatistics quantization_error(const BlockFormat& format, std::span<const float> values,
                                   std::span<const float> importance = {});
/// The same for quantize_rows(). @throws ShapeError if `columns` does not divide the number of values
ErrorStatistics quantization_error_of_rows(const BlockFormat& format, std::span<const float> values,
                                           std::int64_t columns, std::span<const float> importance = {});

}  // namespace etna::quant
