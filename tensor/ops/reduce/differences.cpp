#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// Numerical derivatives and integrals from differences and sums of slices.
namespace etna {
namespace {

Tensor differences_floating(const Tensor& x) { return is_floating(x.dtype()) ? x : x.to(f32); }

/// Elements [begin, end) along a dimension.
Tensor part(const Tensor& x, int d, std::int64_t begin, std::int64_t end) { return x.slice(d, begin, end); }

void require_dimensions(const char* op, const Tensor& x) {
  if (x.dim() == 0) throw ShapeError(fmt::format("{}: got a 0-d tensor; wanted at least one dimension", op));
}

/// A list along dimension d of a tensor with `rank` dimensions.
Tensor differences_along(const Tensor& list, int d, int rank) {
  Shape shape = Dims::filled(rank, 1);
  shape[d] = list.numel();
  return list.reshape(shape);
}

/// The derivative along d, as the mean of the difference quotients on both sides.
/// @param first, before, last weights of the quotients of the first, the inner and the last elements: (distance on the
/// own side) / (sum of both distances)
template <typename Share>
Tensor derivative(const Tensor& x, const Tensor& quotients, int d, int edge_order, const Share& first,
                  const Share& before, const Share& last) {
  const std::int64_t n = quotients.size(d);
  const auto at = [&](std::int64_t i) { return part(quotients, d, i, i + 1); };
  TensorList parts = {at(0)};
  if (edge_order == 2) parts[0] = parts[0] + (at(0) - at(1)) * first;
  if (n > 1) {
    const Tensor left = part(quotients, d, 0, n - 1);
    parts.push_back(left + (part(quotients, d, 1, n) - left) * before);
  }
  parts.push_back(edge_order == 2 ? at(n - 1) + (at(n - 1) - at(n - 2)) * last : at(n - 1));
  return cat(parts, d).to(x.dtype());
}

Dims checked_dims(const Tensor& x, const Dims& dims, int edge_order) {
  detail::require_defined("gradient", x);
  require_dimensions("gradient", x);
  if (edge_order != 1 && edge_order != 2)
    throw ShapeError(fmt::format("gradient: the edge order is {}, it must be 1 or 2", edge_order));
  Dims all;
  if (dims.empty()) {
    for (int d = 0; d < x.dim(); ++d) all.push_back(d);
  }
  for (std::int64_t d : dims) {
    const int wrapped = wrap_dim(d, x.dim(), "gradient");
    if (all.contains(wrapped)) throw ShapeError(fmt::format("gradient: dimension {} is named twice", wrapped));
    all.push_back(wrapped);
  }
  for (std::int64_t d : all) {
    if (x.shape()[static_cast<int>(d)] <= edge_order) {
      throw ShapeError(
          fmt::format("gradient: dimension {} of {} has fewer than {} elements", d, str(x.shape()), edge_order + 1));
    }
  }
  return all;
}

void check_count(const char* what, std::size_t given, const Dims& dims) {
  if (given != dims.size())
    throw ShapeError(fmt::format("gradient: got {} {} for {} dimensions; pass one each", given, what, dims.rank()));
}

/// y[i + 1] + y[i] along d.
Tensor neighbours(const Tensor& y, int d) {
  const std::int64_t n = y.size(d);
  return n == 0 ? y : part(y, d, 1, n) + part(y, d, 0, n - 1);
}

/// @return the areas between neighbours
Tensor areas(const char* op, const Tensor& y, double dx, int d) {
  detail::require_defined(op, y);
  return neighbours(differences_floating(y), d) * (0.5 * dx);
}
Tensor areas(const char* op, const Tensor& y, const Tensor& x, int d) {
  const bool list = x.dim() == 1;
  if (!(list || x.dim() == y.dim()) || x.size(list ? 0 : d) != y.size(d)) {
    throw ShapeError(fmt::format("{}: x {} does not give the positions of the elements along dimension {} of y {}", op,
                                 str(x.shape()), d, str(y.shape())));
  }
  const Tensor at = differences_floating(list ? differences_along(x, d, y.dim()) : x);
  const std::int64_t n = at.size(d);
  if (n == 0) return differences_floating(y);
  return (part(at, d, 1, n) - part(at, d, 0, n - 1)) * neighbours(differences_floating(y), d) * 0.5;
}

int checked_dim(const char* op, const Tensor& y, std::int64_t dim) {
  detail::require_defined(op, y);
  require_dimensions(op, y);
  if (y.dtype() == boolean)
    throw DtypeError(fmt::format("{}: y is bool, it must hold numbers; convert it first, e.g. with .to(f32)", op));
  return wrap_dim(dim, y.dim(), op);
}

}  // namespace

Tensor diff(const Tensor& x, std::int64_t n, std::int64_t dim, const Tensor& prepend, const Tensor& append) {
  detail::require_defined("diff", x);
  require_dimensions("diff", x);
  if (n < 0) throw ShapeError(fmt::format("diff: n is {}, it must not be negative", n));
  const int d = wrap_dim(dim, x.dim(), "diff");
  if (n == 0) return x.clone();
  TensorList tensors;
  if (prepend.defined()) tensors.push_back(prepend);
  tensors.push_back(x);
  if (append.defined()) tensors.push_back(append);
  Tensor y = tensors.size() == 1 ? x : cat(tensors, d);
  for (std::int64_t left = std::min(n, y.size(d)); left > 0; --left) {
    const std::int64_t size = y.size(d);
    const Tensor later = part(y, d, std::min<std::int64_t>(1, size), size),
                 earlier = part(y, d, 0, std::max<std::int64_t>(0, size - 1));
    y = y.dtype() == boolean ? logical_xor(later, earlier) : later - earlier;
  }
  return y;
}

std::vector<Tensor> gradient(const Tensor& x, double spacing, Dims dims, int edge_order) {
  const Dims all = checked_dims(x, dims, edge_order);
  return gradient(x, std::vector<double>(all.size(), spacing), all, edge_order);
}

std::vector<Tensor> gradient(const Tensor& x, const std::vector<double>& spacing, Dims dims, int edge_order) {
  const Dims all = checked_dims(x, dims, edge_order);
  check_count("distances", spacing.size(), all);
  std::vector<Tensor> found;
  for (int k = 0; k < all.rank(); ++k) {
    const int d = static_cast<int>(all[k]);
    const Tensor from = differences_floating(x), quotients = diff(from, 1, d) / spacing[static_cast<std::size_t>(k)];
    found.push_back(derivative(from, quotients, d, edge_order, 0.5, 0.5, 0.5));
  }
  return found;
}

std::vector<Tensor> gradient(const Tensor& x, const std::vector<Tensor>& coordinates, Dims dims, int edge_order) {
  const Dims all = checked_dims(x, dims, edge_order);
  check_count("lists of coordinates", coordinates.size(), all);
  std::vector<Tensor> found;
  for (int k = 0; k < all.rank(); ++k) {
    const int d = static_cast<int>(all[k]);
    const Tensor& at = coordinates[static_cast<std::size_t>(k)];
    detail::require_defined("gradient", at);
    if (at.dim() != 1 || at.size(0) != x.size(d)) {
      throw ShapeError(
          fmt::format("gradient: the coordinates {} do not match the elements along dimension {} of {} "
                      "lie",
                      str(at.shape()), d, str(x.shape())));
    }
    const Tensor from = differences_floating(x), steps = differences_along(diff(differences_floating(at)), d, x.dim());
    const std::int64_t n = steps.size(d);
    const Tensor quotients = diff(from, 1, d) / steps;
    if (n == 1) {
      found.push_back(derivative(from, quotients, d, edge_order, 0.5, 0.5, 0.5));
      continue;
    }
    const Tensor before = part(steps, d, 0, n - 1), both = before + part(steps, d, 1, n), share = before / both;
    const Tensor last = 1.0 - part(share, d, n - 2, n - 1);
    found.push_back(derivative(from, quotients, d, edge_order, part(share, d, 0, 1), share, last));
  }
  return found;
}

Tensor trapezoid(const Tensor& y, double dx, std::int64_t dim) {
  const int d = checked_dim("trapezoid", y, dim);
  return sum(areas("trapezoid", y, dx, d), d);
}
Tensor trapezoid(const Tensor& y, const Tensor& x, std::int64_t dim) {
  const int d = checked_dim("trapezoid", y, dim);
  detail::require_defined("trapezoid", x);
  return sum(areas("trapezoid", y, x, d), d);
}
Tensor cumulative_trapezoid(const Tensor& y, double dx, std::int64_t dim) {
  const int d = checked_dim("cumulative_trapezoid", y, dim);
  return cumsum(areas("cumulative_trapezoid", y, dx, d), d);
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, std::int64_t dim) {
  const int d = checked_dim("cumulative_trapezoid", y, dim);
  detail::require_defined("cumulative_trapezoid", x);
  return cumsum(areas("cumulative_trapezoid", y, x, d), d);
}

}  // namespace etna
