#include <limits>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/linalg/linalg.h>

// Functions that reshape and call another function.
namespace etna::linalg {

Tensor logdet(const Tensor& a) {
  const SignLogDet both = slogdet(a);
  return where(lt(both.sign, 0.0), std::numeric_limits<double>::quiet_NaN(), both.logabsdet);
}

Tensor vander(const Tensor& x, std::optional<std::int64_t> count) {
  detail::require_defined("vander", x);
  if (x.dim() < 1) throw ShapeError("vander: got a 0-d tensor; wanted at least one dimension");
  const std::int64_t n = count.value_or(x.size(-1));
  if (n < 1) throw ShapeError(fmt::format("vander: count is {}; it must not be negative", n));
  TensorList columns = {ones_like(x)};
  while (static_cast<std::int64_t>(columns.size()) < n) columns.push_back(columns.back() * x);
  return stack(columns, -1);
}

Tensor tensorinv(const Tensor& a, std::int64_t ind) {
  detail::require_defined("tensorinv", a);
  if (ind < 1 || ind >= a.dim()) {
    throw ShapeError(
        fmt::format("tensorinv: ind is {} for {}; it must be from 1 to the number of dimensions", ind, str(a.shape())));
  }
  Shape rows, columns;
  for (int d = 0; d < a.dim(); ++d) (d < ind ? rows : columns).push_back(a.shape()[d]);
  const std::int64_t m = numel(rows, "tensorinv"), n = numel(columns, "tensorinv");
  if (m != n) {
    throw ShapeError(fmt::format("tensorinv: {} has {} and {} elements; both must be equal", str(a.shape()), m, n));
  }
  Shape shape = columns;
  for (std::int64_t size : rows) shape.push_back(size);
  return inv(a.reshape({m, n})).reshape(shape);
}

Tensor tensorsolve(const Tensor& a, const Tensor& b, Dims dims) {
  detail::require_defined("tensorsolve", a, b);
  Dims moved, order;
  for (std::int64_t d : dims) moved.push_back(wrap_dim(d, a.dim(), "tensorsolve"));
  for (int d = 0; d < a.dim(); ++d) {
    if (!moved.contains(d)) order.push_back(d);
  }
  for (std::int64_t d : moved) order.push_back(d);
  const Tensor x = a.permute(order);
  Shape rest;
  for (int d = b.dim(); d < x.dim(); ++d) rest.push_back(x.shape()[d]);
  const std::int64_t n = b.numel();
  if (numel(rest, "tensorsolve") != n || x.numel() != checked_product(n, n, "tensorsolve")) {
    throw ShapeError(
        fmt::format("tensorsolve: A {} and B {} do not fit: A's last dimensions must have as many elements "
                    "as B",
                    str(x.shape()), str(b.shape())));
  }
  return solve(x.reshape({n, n}), b.reshape({n})).reshape(rest);
}

}  // namespace etna::linalg
