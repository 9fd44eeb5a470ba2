#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include <etna/models/grammar/internal/json_grammar.h>

namespace etna::models {
namespace {

/// Two decimals of at most this many digits never round to the same double.
constexpr int kExactDigits = 15;
constexpr int kMostFractionDigits = 6;

std::int64_t power_of_ten(int exponent) {
  std::int64_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

/// A double's shortest decimal times 10^scale, rounded towards -infinity, or up. Saturates beyond 10^17.
/// @param exact whether nothing was rounded
std::int64_t scaled_decimal(double value, int scale, bool up, bool& exact) {
  constexpr std::int64_t kSaturated = 100'000'000'000'000'000;
  const std::string shortest = fmt::format("{}", std::abs(value));
  std::string digits;
  int exponent = 0;
  bool fraction = false;
  for (std::size_t i = 0; i < shortest.size(); ++i) {
    const char c = shortest[i];
    if (c == '.') {
      fraction = true;
    } else if (c == 'e') {
      exponent += std::atoi(shortest.c_str() + i + 1);
      break;
    } else {
      digits += c;
      if (fraction) --exponent;
    }
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  exponent += scale;
  exact = true;
  std::int64_t result = 0;
  if (static_cast<int>(digits.size()) + exponent > 17) {
    result = digits.empty() ? 0 : kSaturated;
  } else {
    const int kept = std::max(0, static_cast<int>(digits.size()) + std::min(exponent, 0));
    for (int i = 0; i < kept; ++i) result = result * 10 + (digits[static_cast<std::size_t>(i)] - '0');
    for (int i = 0; i < exponent; ++i) result *= 10;
    exact = digits.find_first_not_of('0', static_cast<std::size_t>(kept)) == std::string::npos;
  }
  const bool negative = value < 0;
  if (!exact && up != negative) ++result;
  return negative ? -result : result;
}

/// The smallest (or largest) multiple of 10^-scale within a bound, times 10^scale.
std::int64_t scaled_bound(const NumberBound& bound, int scale, bool lowest) {
  bool exact = true;
  const std::int64_t scaled = scaled_decimal(bound.value, scale, lowest, exact);
  if (!exact || !bound.exclusive) return scaled;
  return lowest ? scaled + 1 : scaled - 1;
}

int digits_of_magnitude(double value) {
  return std::abs(value) < 1 ? 1 : static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
}

}  // namespace

Expressions::Id JsonGrammar::integer() {
  Expressions& e = expressions_;
  ByteSet digit, first;
  digit.add('0', '9');
  first.add('1', '9');
  return e.choice({e.text("0"), e.sequence({e.optional(e.text("-")), e.bytes(first),
                                            e.repeat(e.bytes(digit), 0, kExactDigits - 1)})});
}

Expressions::Id JsonGrammar::number() {
  Expressions& e = expressions_;
  ByteSet digit, first, sign, exponent;
  digit.add('0', '9');
  first.add('1', '9');
  sign.add('+', '+');
  sign.add('-', '-');
  exponent.add('E', 'E');
  exponent.add('e', 'e');
  const Id digits = e.bytes(digit);
  const Id whole = e.choice({e.text("0"), e.sequence(e.bytes(first), e.repeat(digits, 0, kExactDigits - 1))});
  const Id fraction = e.sequence(e.text("."), e.repeat(digits, 1, kExactDigits));
  // Neither overflows nor becomes 0.
  const Id scale = e.sequence({e.bytes(exponent), e.optional(e.bytes(sign)), e.repeat(digits, 1, 2)});
  return e.sequence({e.optional(e.text("-")), whole, e.optional(fraction), e.optional(scale)});
}

/// Digits between two numbers of the same length.
Expressions::Id JsonGrammar::digits_between(const std::string& low, const std::string& high) {
  Expressions& e = expressions_;
  const auto digit = [&](int first, int last) {
    if (last < first) return e.never();
    ByteSet set;
    set.add(static_cast<unsigned>(first), static_cast<unsigned>(last));
    return e.bytes(set);
  };
  Id any = e.empty(), from = e.empty(), to = e.empty(), both = e.empty();
  for (std::size_t i = low.size(); i-- > 0;) {
    const int a = low[i], b = high[i];
    both = a == b ? e.sequence(digit(a, a), both)
                  : e.choice({e.sequence(digit(a, a), from), e.sequence(digit(a + 1, b - 1), any),
                              e.sequence(digit(b, b), to)});
    from = e.choice({e.sequence(digit(a, a), from), e.sequence(digit(a + 1, '9'), any)});
    to = e.choice({e.sequence(digit(b, b), to), e.sequence(digit('0', b - 1), any)});
    any = e.sequence(digit('0', '9'), any);
  }
  return both;
}

/// Integers, 0 <= low.
Expressions::Id JsonGrammar::natural_between(std::int64_t low, std::int64_t high) {
  std::vector<Id> all;
  for (int length = 1; length <= 18; ++length) {
    const std::int64_t from = std::max(low, length == 1 ? 0 : power_of_ten(length - 1));
    const std::int64_t to = std::min(high, power_of_ten(length) - 1);
    if (from <= to) all.push_back(digits_between(fmt::to_string(from), fmt::to_string(to)));
  }
  return expressions_.choice(all);
}

Expressions::Id JsonGrammar::integer_between(std::int64_t low, std::int64_t high) {
  Expressions& e = expressions_;
  std::vector<Id> all;
  if (low < 0 && low <= high)
    all.push_back(e.sequence(e.text("-"), natural_between(-std::min<std::int64_t>(high, -1), -low)));
  if (high >= 0 && low <= high) all.push_back(natural_between(std::max<std::int64_t>(low, 0), high));
  return e.choice(all);
}

/// Nothing, or a point and up to `digits` digits, between two fractions of that many digits; null: unbounded.
Expressions::Id JsonGrammar::fraction(const std::string* low, const std::string* high, std::size_t digits) {
  Expressions& e = expressions_;
  const auto digit = [&](int first, int last) {
    if (last < first) return e.never();
    ByteSet set;
    set.add(static_cast<unsigned>(first), static_cast<unsigned>(last));
    return e.bytes(set);
  };
  // Digits that are left out are zeros. What follows at a position: [reaches the low bound][the high bound].
  std::array<std::array<Id, 2>, 2> rest{};
  for (auto& row : rest) row.fill(e.empty());
  Id all = e.empty();
  for (std::size_t i = digits; i-- > 0;) {
    std::array<std::array<Id, 2>, 2> here{};
    for (const bool tight_low : {false, true}) {
      for (const bool tight_high : {false, true}) {
        const int a = tight_low && low != nullptr ? (*low)[i] : '0',
                  b = tight_high && high != nullptr ? (*high)[i] : '9';
        const bool on_low = tight_low && low != nullptr, on_high = tight_high && high != nullptr;
        std::vector<Id> some;
        for (int d = a; d <= b; ++d) some.push_back(e.sequence(digit(d, d), rest[on_low && d == a][on_high && d == b]));
        const Id more = e.choice(some);
        const bool may_end = !on_low || low->find_first_not_of('0', i) == std::string::npos;
        here[tight_low][tight_high] = may_end ? e.optional(more) : more;
        if (i == 0 && tight_low && tight_high) {
          all = e.sequence(e.text("."), more);
          if (may_end) all = e.optional(all);
        }
      }
    }
    rest = here;
  }
  return all;
}

/// Numbers between 10^-scale times two numbers, 0 <= low.
Expressions::Id JsonGrammar::decimal_between(std::int64_t low, std::int64_t high, int scale) {
  if (high < low) return expressions_.never();
  const std::int64_t one = power_of_ten(scale), first = low / one, last = high / one;
  const auto digits = static_cast<std::size_t>(scale);
  const std::string from = fmt::format("{:0{}}", low % one, scale), to = fmt::format("{:0{}}", high % one, scale);
  const auto whole = [&](std::int64_t number) { return expressions_.text(fmt::to_string(number)); };
  if (first == last) return expressions_.sequence(whole(first), fraction(&from, &to, digits));
  std::vector<Id> all{expressions_.sequence(whole(first), fraction(&from, nullptr, digits)),
                      expressions_.sequence(whole(last), fraction(nullptr, &to, digits))};
  if (first + 1 < last)
    all.push_back(expressions_.sequence(natural_between(first + 1, last - 1), fraction(nullptr, nullptr, digits)));
  return expressions_.choice(all);
}

Expressions::Id JsonGrammar::number_between(const NumberBound* low, const NumberBound* high) {
  int whole = 1;
  for (const NumberBound* bound : {low, high})
    if (bound != nullptr) whole = std::max(whole, digits_of_magnitude(bound->value));
  // Without a bound, somewhat larger numbers than the other bound; with few digits before the point, more after it.
  if (low == nullptr || high == nullptr) whole = std::max(whole + 1, kExactDigits - kMostFractionDigits);
  whole = std::min(whole, kExactDigits);
  const int scale = std::min(kMostFractionDigits, kExactDigits - whole);
  const std::int64_t largest = power_of_ten(whole + scale) - 1;
  const std::int64_t from = low == nullptr ? -largest : std::max(-largest, scaled_bound(*low, scale, true));
  const std::int64_t to = high == nullptr ? largest : std::min(largest, scaled_bound(*high, scale, false));
  std::vector<Id> all;
  if (from <= to) {
    if (from < 0)
      all.push_back(expressions_.sequence(expressions_.text("-"),
                                          decimal_between(-std::min<std::int64_t>(to, -1), -from, scale)));
    if (to >= 0) all.push_back(decimal_between(std::max<std::int64_t>(from, 0), to, scale));
  }
  return expressions_.choice(all);
}

}  // namespace etna::models
