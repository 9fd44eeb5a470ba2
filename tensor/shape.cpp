#include <etna/tensor/shape.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/device/error.h>

namespace etna {

Dims::Dims(std::span<const std::int64_t> values) {
  if (values.size() > kMaxRank) {
    throw ShapeError(fmt::format("a tensor has at most {} dimensions, {} were given", kMaxRank, values.size()));
  }
  std::copy(values.begin(), values.end(), values_.begin());
  rank_ = static_cast<int>(values.size());
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

std::int64_t numel(const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t s : shape) n *= s;
  return n;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Dims::filled(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * std::max<std::int64_t>(shape[i + 1], 1);
  return strides;
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

}  // namespace etna
