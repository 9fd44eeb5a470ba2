#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna {

/// A number, or nested lists of numbers: what `tensor({{1, 2}, {3, 4}})` takes.
class Literal {
 public:
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Literal(T value)
      : kind_(Kind::integer), integer_(static_cast<std::int64_t>(value)) {}
  template <typename T>
  requires std::is_floating_point_v<T> Literal(T value) : kind_(Kind::floating), number_(static_cast<double>(value)) {}
  template <typename T>
  requires std::is_same_v<T, bool> Literal(T value) : kind_(Kind::boolean), integer_(value) {}
  Literal(std::initializer_list<Literal> items);
  template <typename T>
  requires std::is_arithmetic_v<T> Literal(const std::vector<T>& items) : kind_(Kind::list) {
    for (const T item : items) append(Literal(item));
  }
  Literal(const Literal& other);
  Literal& operator=(const Literal& other);
  ~Literal();

  bool is_list() const { return kind_ == Kind::list; }
  const std::vector<Literal>& items() const { return items_; }
  /// Of a number: i64, bool, or f32 for floating numbers.
  DType dtype() const;
  double number() const;
  std::int64_t integer() const;

 private:
  enum class Kind : std::uint8_t { integer, floating, boolean, list };
  void append(const Literal& item);

  Kind kind_;
  std::int64_t integer_ = 0;
  double number_ = 0;
  std::vector<Literal> items_;
};

/// A tensor of the values of nested lists: `tensor(3)`, `tensor({1., 2.})`, `tensor({{1, 2}, {3, 4}}, device)`. f32 if
/// a number is floating, else i64, else bool.
/// @throws ShapeError where lists beside each other differ in length or depth
Tensor tensor(const Literal& values, Device device = {});
/// The same in another dtype. @throws DtypeError for a number that is not whole in an integer dtype
Tensor tensor(const Literal& values, DType dtype, Device device = {});

}  // namespace etna
