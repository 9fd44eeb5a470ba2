#include <etna/train/settings.h>

#include <charconv>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include <etna/train/progress.h>

namespace etna::training {
namespace {

template <typename Number>
bool is_number(const std::string& text, Number& value) {
  const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  return error == std::errc() && stop == end;
}

std::string bound(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value) ? with_commas(static_cast<std::int64_t>(value))
                                                              : fmt::format("{:g}", value);
}

}  // namespace

std::string NumberRange::str() const {
  const std::string kind = integer ? "an integer" : "a number";
  if (std::isfinite(least) && std::isfinite(most))
    return fmt::format("{} from {} to {}", kind, bound(least), bound(most));
  if (above) return fmt::format("{} above {}", kind, bound(least));
  if (std::isfinite(least)) return fmt::format("{} of {} or more", kind, bound(least));
  return std::isfinite(most) ? fmt::format("{} of {} or less", kind, bound(most)) : "a finite number";
}

std::string NumberRange::refuse(const std::string& text) const {
  double value = 0;
  std::int64_t whole = 0;
  bool number = integer ? is_number(text, whole) : is_number(text, value);
  if (integer) value = static_cast<double>(whole);
  number = number && std::isfinite(value) && value >= least && value <= most && !(above && value == least);
  return number ? "" : fmt::format("'{}' should be {}", shortened(text, 40), str());
}

}  // namespace etna::training
