#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <variant>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna {

/// A number, or nested lists of numbers: what `tensor({{1, 2}, {3, 4}})` takes.
class Literal {
 public:
  template <typename T>
  requires std::integral<T> &&(!std::same_as<T, bool>)Literal(T value) : value_(static_cast<std::int64_t>(value)) {}
  Literal(std::floating_point auto value) : value_(static_cast<double>(value)) {}
  Literal(std::same_as<bool> auto value) : value_(value) {}
  Literal(std::initializer_list<Literal> items) : value_(std::vector<Literal>(items)) {}
  template <typename T>
  requires std::is_arithmetic_v<T> Literal(const std::vector<T>& items)
      : value_(std::vector<Literal>(items.begin(), items.end())) {}

  bool is_list() const { return std::holds_alternative<std::vector<Literal>>(value_); }
  const std::vector<Literal>& items() const { return std::get<std::vector<Literal>>(value_); }
  /// Of a number: i64, bool, or f32 for floating numbers.
  DType dtype() const;
  double number() const;
  std::int64_t integer() const;

 private:
  std::variant<std::int64_t, double, bool, std::vector<Literal>> value_;
};

/// A tensor of the values of nested lists: `tensor(3)`, `tensor({1., 2.})`, `tensor({{1, 2}, {3, 4}}, device)`. f32 if
/// a number is floating, else i64, else bool.
/// @throws ShapeError where lists beside each other differ in length or depth
Tensor tensor(const Literal& values, Device device = {});
/// The same in another dtype. @throws DtypeError for a number that is not whole in an integer dtype
Tensor tensor(const Literal& values, DType dtype, Device device = {});

}  // namespace etna
