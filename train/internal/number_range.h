#pragma once

#include <limits>
#include <string>

namespace etna::training {

/// The numbers that an option takes, in words.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool integer = false;
  bool above = false;  ///< `least` itself is refused

  /// "an integer of 1 or more", "a number from 0 to 1", "a number above 0", "a finite number".
  std::string str() const;
  /// "'-3' should be an integer of 1 or more"; empty for text that is one of the numbers. NaN and infinity are none.
  std::string refuse(const std::string& text) const;
};

/// Integers from `least`; without `most`, as large as any.
inline NumberRange integers(double least, double most = std::numeric_limits<double>::infinity()) {
  return {.least = least, .most = most, .integer = true};
}

}  // namespace etna::training
