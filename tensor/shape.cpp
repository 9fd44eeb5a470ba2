#include <etna/tensor/shape.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <ostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/device/error.h>

namespace etna {

Dims::Dims(const std::int64_t* values, std::size_t count) {
  if (count > kMaxRank) {
    throw ShapeError(fmt::format("a tensor has at most {} dimensions, {} were given", kMaxRank, count));
  }
  std::copy_n(values, count, values_);
  rank_ = static_cast<int>(count);
}

Dims Dims::filled(int count, std::int64_t value) {
  Dims d;
  for (int i = 0; i < count; ++i) d.push_back(value);
  return d;
}

void Dims::push_back(std::int64_t value) { insert(rank_, value); }

void Dims::insert(int at, std::int64_t value) {
  if (rank_ == kMaxRank) throw ShapeError(fmt::format("a tensor has at most {} dimensions", kMaxRank));
  std::copy_backward(begin() + at, end(), end() + 1);
  ++rank_;
  (*this)[at] = value;
}

void Dims::erase(int at) {
  std::copy(begin() + at + 1, end(), begin() + at);
  --rank_;
}

bool Dims::contains(std::int64_t value) const { return std::find(begin(), end(), value) != end(); }

std::int64_t checked_product(std::int64_t a, std::int64_t b, const char* op) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw ShapeError(fmt::format("{}: the product of the sizes {} and {} does not fit in 63 bits", op, a, b));
  }
  return product;
}

std::int64_t checked_sum(std::int64_t a, std::int64_t b, const char* op) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw ShapeError(fmt::format("{}: the sum of the sizes {} and {} does not fit in 63 bits", op, a, b));
  }
  return sum;
}

std::int64_t numel(const Shape& shape, const char* op) {
  std::int64_t n = 1;
  bool fits = true;
  for (std::int64_t s : shape) {
    if (s < 0) throw ShapeError(fmt::format("{}: the size {} in {} is negative", op, s, str(shape)));
    fits = !__builtin_mul_overflow(n, s, &n) && fits;
  }
  if (fits || shape.contains(0)) return fits ? n : 0;
  throw ShapeError(fmt::format("{}: the number of elements of {} does not fit in 63 bits", op, str(shape)));
}

std::size_t byte_size(const Shape& shape, std::size_t item, const char* op) {
  std::int64_t bytes = 0;
  constexpr auto kMost = std::numeric_limits<std::ptrdiff_t>::max();
  if (__builtin_mul_overflow(numel(shape, op), item, &bytes) || bytes > kMost) {
    throw ShapeError(fmt::format("{}: the number of bytes of {}, {} an element, does not fit in {} bits", op,
                                 str(shape), item, std::numeric_limits<std::ptrdiff_t>::digits));
  }
  return static_cast<std::size_t>(bytes);
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Dims::filled(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    if (__builtin_mul_overflow(strides[i + 1], std::max<std::int64_t>(shape[i + 1], 1), &strides[i])) strides[i] = 0;
  }
  return strides;
}

bool has_strides(const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t s : shape) {
    if (__builtin_mul_overflow(n, std::max<std::int64_t>(s, 1), &n)) return false;
  }
  return true;
}

std::string str(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims.begin(), dims.end(), ", ")); }

Shape broadcast(const Shape& a, const Shape& b, const char* op) {
  Shape out = a.rank() >= b.rank() ? a : b;
  for (int i = 1; i <= out.rank(); ++i) {
    std::int64_t x = i <= a.rank() ? a[a.rank() - i] : 1, y = i <= b.rank() ? b[b.rank() - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw ShapeError(fmt::format("{}: shapes {} and {} do not broadcast: {} against {} in dimension -{}", op, str(a),
                                   str(b), x, y, i));
    }
    out[out.rank() - i] = x == 1 ? y : x;
  }
  return out;
}

int wrap_dim(std::int64_t dim, int rank, const char* op) {
  int limit = std::max(rank, 1);
  if (dim < -limit || dim >= limit) {
    throw ShapeError(fmt::format("{}: dimension {} is outside [{}, {}] of a tensor with {} dimensions", op, dim, -limit,
                                 limit - 1, rank));
  }
  return static_cast<int>(dim < 0 ? dim + limit : dim);
}

Dims wrap_dims(const Dims& dims, int rank, const char* op) {
  Dims out;
  if (dims.empty()) {
    for (int i = 0; i < rank; ++i) out.push_back(i);
    return out;
  }
  for (std::int64_t d : dims) {
    int wrapped = wrap_dim(d, rank, op), at = 0;
    if (out.contains(wrapped)) {
      throw ShapeError(fmt::format("{}: dimension {} is named twice in {}", op, wrapped, str(dims)));
    }
    while (at < out.rank() && out[at] < wrapped) ++at;
    out.insert(at, wrapped);
  }
  if (rank == 0) return {};
  return out;
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << str(dims); }

}  // namespace etna
