#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace etna {

inline constexpr int kMaxRank = 8;

/// Up to eight numbers stored inline: sizes, strides, or a list of dimensions.
class Dims {
 public:
  constexpr Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) : Dims(values.begin(), values.size()) {}
  /// One number: `zeros(5)`, `sum(x, 1)`.
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Dims(T value)
      : values_{static_cast<std::int64_t>(value)}, rank_(1) {}
  Dims(const std::vector<std::int64_t>& values) : Dims(values.data(), values.size()) {}
  /// @throws ShapeError for more than kMaxRank values. A template, so that compilers do not ask at each copy of a Dims
  /// whether it is a range.
  template <typename T, std::size_t N>
  requires(std::is_same_v<std::remove_const_t<T>, std::int64_t>) explicit Dims(std::span<T, N> values)
      : Dims(values.data(), values.size()) {}
  static Dims filled(int count, std::int64_t value);

  int rank() const { return rank_; }
  std::size_t size() const { return static_cast<std::size_t>(rank_); }
  bool empty() const { return rank_ == 0; }
  std::int64_t operator[](int i) const { return values_[i]; }
  std::int64_t& operator[](int i) { return values_[i]; }
  const std::int64_t* begin() const { return values_; }
  const std::int64_t* end() const { return values_ + rank_; }
  std::int64_t* begin() { return values_; }
  std::int64_t* end() { return values_ + rank_; }
  std::int64_t back() const { return values_[rank_ - 1]; }
  std::int64_t& back() { return values_[rank_ - 1]; }
  void push_back(std::int64_t value);
  void insert(int at, std::int64_t value);
  void erase(int at);
  bool contains(std::int64_t value) const;

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  Dims(const std::int64_t* values, std::size_t count);

  std::int64_t values_[kMaxRank] = {};
  int rank_ = 0;
};

/// Sizes of a tensor, outermost first.
using Shape = Dims;
/// Distance between neighbours along each dimension, in elements.
using Strides = Dims;

/// The only functions that multiply and add sizes. @throws ShapeError naming `op` if the result does not fit in 63
/// bits.
std::int64_t checked_product(std::int64_t a, std::int64_t b, const char* op);
std::int64_t checked_sum(std::int64_t a, std::int64_t b, const char* op);
/// Number of elements of a shape; 0 if any size is 0, however large the others are.
/// @throws ShapeError naming `op` if a size is negative or the number does not fit in 63 bits.
std::int64_t numel(const Shape& shape, const char* op = "numel");
/// Bytes of a shape's elements, `item` bytes each. @throws ShapeError as numel()
std::size_t byte_size(const Shape& shape, std::size_t item, const char* op);
/// Row-major strides. In a shape without elements, a stride that does not fit is 0.
Strides contiguous_strides(const Shape& shape);
/// False if the product of the nonzero sizes does not fit. Such a shape has no elements, and no strides are right for
/// it.
bool has_strides(const Shape& shape);
/// "[2, 3]"
std::string str(const Dims& dims);
std::ostream& operator<<(std::ostream& out, const Dims& dims);

/// NumPy broadcasting of two shapes. @throws ShapeError naming `op`.
Shape broadcast(const Shape& a, const Shape& b, const char* op);

/// Maps a dimension from [-rank, rank) to [0, rank). @throws ShapeError naming `op`.
int wrap_dim(std::int64_t dim, int rank, const char* op);
/// Wraps each dimension, refuses repeats, and sorts; an empty list means all dimensions.
Dims wrap_dims(const Dims& dims, int rank, const char* op);

}  // namespace etna
