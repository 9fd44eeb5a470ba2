#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace etna::models {

/// A set of Unicode code points. Surrogates can be added, but are no characters of UTF-8.
class CodePoints {
 public:
  static constexpr std::uint32_t kLast = 0x10FFFF;
  using Range = std::pair<std::uint32_t, std::uint32_t>;  ///< first and last

  CodePoints() = default;
  CodePoints(std::uint32_t first, std::uint32_t last) { add(first, last); }
  static CodePoints all() { return {0, kLast}; }

  void add(std::uint32_t first, std::uint32_t last);
  void add(const CodePoints& other);
  void remove(std::uint32_t first, std::uint32_t last);
  CodePoints inverse() const;
  bool has(std::uint32_t point) const;
  bool empty() const { return ranges_.empty(); }
  /// Sorted, neither overlapping nor adjacent.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

}  // namespace etna::models
