#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/linalg/linalg.h>

// The products of linear algebra, composed.
namespace etna {
namespace {

void require_rank(const char* op, const Tensor& x, int rank, const char* which) {
  if (x.dim() == rank) return;
  throw ShapeError(fmt::format("{}: {} is {}, it must have {} dimension{}; matmul broadcasts other shapes", op, which,
                               str(x.shape()), rank, rank == 1 ? "" : "s"));
}

Tensor products_product(const char* op, const Tensor& a, int a_rank, const Tensor& b, int b_rank) {
  detail::require_defined(op, a, b);
  require_rank(op, a, a_rank, "a");
  require_rank(op, b, b_rank, "b");
  if (a.size(-1) != b.size(b_rank == 1 ? 0 : -2) || (a_rank == 3 && a.size(0) != b.size(0))) {
    throw ShapeError(fmt::format("{}: a {} and b {} do not fit", op, str(a.shape()), str(b.shape())));
  }
  return matmul(a, b);
}

Tensor scaled(const Tensor& x, double by) { return by == 1 ? x : x * by; }

/// beta · input + alpha · y, of y's shape.
Tensor products_added(const char* op, const Tensor& input, const Tensor& y, double beta, double alpha) {
  detail::require_defined(op, input);
  if (broadcast(input.shape(), y.shape(), op) != y.shape()) {
    throw ShapeError(
        fmt::format("{}: the input {} does not broadcast to the product {}", op, str(input.shape()), str(y.shape())));
  }
  if (beta == 0) return scaled(y, alpha);
  return scaled(input, beta) + scaled(y, alpha);
}

Tensor identity_like(const Tensor& x) {
  return detail::identity(x.size(-1), {x.dtype(), x.device()}).expand(x.shape());
}

}  // namespace

Tensor detail::identity(std::int64_t n, TensorOptions options) { return tril(triu(ones({n, n}, options))); }

Tensor detail::equal_indices(const Tensor& x, int a, int b) {
  Dims order;
  for (int d = 0; d < x.dim(); ++d) {
    if (d != a && d != b) order.push_back(d);
  }
  Shape flat;
  for (std::int64_t d : order) flat.push_back(x.shape()[static_cast<int>(d)]);
  order.push_back(a), order.push_back(b);
  const std::int64_t n = x.shape()[a], all = checked_product(n, n, "diagonal");
  flat.push_back(all);
  return x.permute(order).reshape(flat).slice(-1, 0, all, n + 1);
}

Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t dims) {
  detail::require_defined("tensordot", a, b);
  if (dims < 0 || dims > a.dim() || dims > b.dim()) {
    throw ShapeError(fmt::format("tensordot: {} dimensions of a {} and b {} cannot be summed over", dims,
                                 str(a.shape()), str(b.shape())));
  }
  std::vector<std::int64_t> of_a, of_b;
  for (std::int64_t d = 0; d < dims; ++d) of_a.push_back(a.dim() - dims + d), of_b.push_back(d);
  return tensordot(a, b, of_a, of_b);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const std::vector<std::int64_t>& dims_a,
                 const std::vector<std::int64_t>& dims_b) {
  detail::require_defined("tensordot", a, b);
  if (dims_a.size() != dims_b.size()) {
    throw ShapeError(fmt::format("tensordot: {} dimensions of a, but {} of b; they are summed over in pairs",
                                 dims_a.size(), dims_b.size()));
  }
  Dims of_a, of_b;
  Tensor x = a, y = b;
  for (std::size_t i = 0; i < dims_a.size(); ++i) {
    const int p = wrap_dim(dims_a[i], a.dim(), "tensordot"), q = wrap_dim(dims_b[i], b.dim(), "tensordot");
    if (of_a.contains(p) || of_b.contains(q)) throw ShapeError("tensordot: a dimension is named twice");
    of_a.push_back(p), of_b.push_back(q);
    const std::int64_t n = x.shape()[p], m = y.shape()[q];
    if (n != m && n != 1 && m != 1) {
      throw ShapeError(
          fmt::format("tensordot: dimension {} of a {} and {} of b {} differ", p, str(a.shape()), q, str(b.shape())));
    }
    if (n == 1 && m != 1) y = sum(y, {q}, true).to(b.dtype());
    if (m == 1 && n != 1) x = sum(x, {p}, true).to(a.dtype());
  }
  Dims order_a, order_b = of_b;
  Shape result;
  std::int64_t rows = 1, columns = 1, inner = 1;
  for (int d = 0; d < x.dim(); ++d) {
    if (of_a.contains(d)) continue;
    order_a.push_back(d), result.push_back(x.shape()[d]);
    rows = checked_product(rows, x.shape()[d], "tensordot");
  }
  for (std::int64_t d : of_a) {
    order_a.push_back(d);
    inner = checked_product(inner, x.shape()[static_cast<int>(d)], "tensordot");
  }
  for (int d = 0; d < y.dim(); ++d) {
    if (of_b.contains(d)) continue;
    order_b.push_back(d), result.push_back(y.shape()[d]);
    columns = checked_product(columns, y.shape()[d], "tensordot");
  }
  return matmul(x.permute(order_a).reshape({rows, inner}), y.permute(order_b).reshape({inner, columns}))
      .reshape(result);
}

Tensor mm(const Tensor& a, const Tensor& b) { return products_product("mm", a, 2, b, 2); }
Tensor bmm(const Tensor& a, const Tensor& b) { return products_product("bmm", a, 3, b, 3); }
Tensor mv(const Tensor& a, const Tensor& x) { return products_product("mv", a, 2, x, 1); }
Tensor dot(const Tensor& a, const Tensor& b) { return products_product("dot", a, 1, b, 1); }
Tensor vdot(const Tensor& a, const Tensor& b) { return products_product("vdot", a, 1, b, 1); }

Tensor outer(const Tensor& a, const Tensor& b) {
  detail::require_defined("outer", a, b);
  require_rank("outer", a, 1, "a");
  require_rank("outer", b, 1, "b");
  return a.unsqueeze(1) * b;
}

Tensor inner(const Tensor& a, const Tensor& b) {
  detail::require_defined("inner", a, b);
  if (a.dim() == 0 || b.dim() == 0) return a * b;
  if (a.size(-1) != b.size(-1)) {
    throw ShapeError(fmt::format("inner: the last dimensions of {} and {} differ", str(a.shape()), str(b.shape())));
  }
  return tensordot(a, b, {-1}, {-1});
}

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  const Tensor y = products_product("addmm", a, 2, b, 2);
  return products_added("addmm", input, y, beta, alpha);
}
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& x, double beta, double alpha) {
  return products_added("addmv", input, products_product("addmv", a, 2, x, 1), beta, alpha);
}
Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  detail::require_defined("addr", input, a, b);
  require_rank("addr", a, 1, "a");
  require_rank("addr", b, 1, "b");
  return products_added("addr", input, a.unsqueeze(1) * b, beta, alpha);
}
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  return products_added("baddbmm", input, products_product("baddbmm", a, 3, b, 3), beta, alpha);
}

Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  detail::require_defined("addbmm", input, a, b);
  require_rank("addbmm", a, 3, "a");
  require_rank("addbmm", b, 3, "b");
  if (a.size(0) != b.size(0) || a.size(2) != b.size(1)) {
    throw ShapeError(fmt::format("addbmm: a {} and b {} do not fit", str(a.shape()), str(b.shape())));
  }
  // Adding up the products of a batch is one product with a longer k.
  const std::int64_t k = checked_product(a.size(0), a.size(2), "addbmm");
  const Tensor rows = a.permute({1, 0, 2}).reshape({a.size(1), k}), columns = b.reshape({k, b.size(2)});
  return products_added("addbmm", input, matmul(rows, columns), beta, alpha);
}

Tensor kron(const Tensor& a, const Tensor& b) {
  detail::require_defined("kron", a, b);
  const int rank = std::max(a.dim(), b.dim());
  if (2 * rank > kMaxRank) {
    throw ShapeError(
        fmt::format("kron: got {} and {}; wanted at most {} dimensions", str(a.shape()), str(b.shape()), kMaxRank / 2));
  }
  Shape of_a, of_b, result;
  for (int d = 0; d < rank; ++d) {
    const int i = d - (rank - a.dim()), j = d - (rank - b.dim());
    const std::int64_t n = i < 0 ? 1 : a.shape()[i], m = j < 0 ? 1 : b.shape()[j];
    of_a.push_back(n), of_a.push_back(1);
    of_b.push_back(1), of_b.push_back(m);
    result.push_back(checked_product(n, m, "kron"));
  }
  return (a.reshape(of_a) * b.reshape(of_b)).reshape(result);
}

Tensor trace(const Tensor& x) {
  detail::require_defined("trace", x);
  require_rank("trace", x, 2, "the matrix");
  const std::int64_t n = std::min(x.size(0), x.size(1));
  return sum(detail::equal_indices(x.slice(0, 0, n).slice(1, 0, n), 0, 1));
}

Tensor matrix_power(const Tensor& x, std::int64_t n) {
  detail::require_defined("matrix_power", x);
  if (x.dim() < 2 || x.size(-1) != x.size(-2)) {
    throw ShapeError(fmt::format("matrix_power: x is {}; wanted square matrices [..., N, N]", str(x.shape())));
  }
  if (n == std::numeric_limits<std::int64_t>::min()) throw ShapeError("matrix_power: the power is out of range");
  if (n == 0) return identity_like(x);
  Tensor square = n < 0 ? linalg::inv(x) : x, result;
  for (n = n < 0 ? -n : n; n > 0; n /= 2) {
    if (n % 2 == 1) result = result.defined() ? matmul(result, square) : square;
    if (n > 1) square = matmul(square, square);
  }
  return result;
}

Tensor multi_dot(const std::vector<Tensor>& matrices) {
  const std::size_t n = matrices.size();
  if (n < 2) throw ShapeError(fmt::format("multi_dot: got {} matrices; wanted at least two", n));
  TensorList list = matrices;
  for (std::size_t i = 0; i < n; ++i) {
    if (!list[i].defined()) throw UndefinedTensor("multi_dot", i + 1);
    const bool end = i == 0 || i + 1 == n;
    if (list[i].dim() != 2 && !(end && list[i].dim() == 1)) {
      throw ShapeError(
          fmt::format("multi_dot: operand {} is {}; all must be matrices, except that the first and the last may be "
                      "vectors",
                      i, str(list[i].shape())));
    }
  }
  const bool row = list.front().dim() == 1, column = list.back().dim() == 1;
  if (row) list.front() = list.front().unsqueeze(0);
  if (column) list.back() = list.back().unsqueeze(1);
  for (std::size_t i = 0; i + 1 < n; ++i) {
    if (list[i].size(1) != list[i + 1].size(0)) {
      throw ShapeError(fmt::format("multi_dot: operands {} {} and {} {} do not fit", i, str(list[i].shape()), i + 1,
                                   str(list[i + 1].shape())));
    }
  }
  // The textbook's dynamic program: cost[i][j] of multiplying operands i ... j, split after operand at[i][j].
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<std::size_t>> at(n, std::vector<std::size_t>(n, 0));
  const auto size = [&list](std::size_t i) {
    return static_cast<double>(i == 0 ? list[0].size(0) : list[i - 1].size(1));
  };
  for (std::size_t length = 1; length < n; ++length) {
    for (std::size_t i = 0; i + length < n; ++i) {
      const std::size_t j = i + length;
      cost[i][j] = std::numeric_limits<double>::infinity();
      for (std::size_t k = i; k < j; ++k) {
        const double c = cost[i][k] + cost[k + 1][j] + size(i) * size(k + 1) * size(j + 1);
        if (c < cost[i][j]) cost[i][j] = c, at[i][j] = k;
      }
    }
  }
  const std::function<Tensor(std::size_t, std::size_t)> multiply = [&](std::size_t i, std::size_t j) -> Tensor {
    return i == j ? list[i] : matmul(multiply(i, at[i][j]), multiply(at[i][j] + 1, j));
  };
  Tensor y = multiply(0, n - 1);
  if (column) y = y.squeeze(1);
  return row ? y.squeeze(0) : y;
}

Tensor chain_matmul(const std::vector<Tensor>& matrices) {
  for (const Tensor& x : matrices) {
    if (x.defined()) require_rank("chain_matmul", x, 2, "an operand");
  }
  return matrices.size() == 1 ? matrices[0] : multi_dot(matrices);
}

Tensor cross(const Tensor& a, const Tensor& b, std::int64_t dim) {
  detail::require_defined("cross", a, b);
  const Shape shape = broadcast(a.shape(), b.shape(), "cross");
  const int d = wrap_dim(dim, shape.rank(), "cross");
  if (shape.rank() == 0 || shape[d] != 3) {
    throw ShapeError(fmt::format("cross: dimension {} of {} must have three elements", dim, str(shape)));
  }
  const Tensor x = a.expand(shape), y = b.expand(shape);
  const auto rolled = [d](const Tensor& t, std::int64_t by) { return cat({t.slice(d, by, 3), t.slice(d, 0, by)}, d); };
  return rolled(x, 1) * rolled(y, 2) - rolled(x, 2) * rolled(y, 1);
}

Tensor cross(const Tensor& a, const Tensor& b) {
  detail::require_defined("cross", a, b);
  const Shape shape = broadcast(a.shape(), b.shape(), "cross");
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 3) return cross(a, b, d);
  }
  throw ShapeError(fmt::format("cross: {} and {} have no dimension of three elements", str(a.shape()), str(b.shape())));
}

}  // namespace etna
