#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/linalg/internal/matrices.h>

// Norms, and functions of singular values. All are composed.
namespace etna::linalg {
namespace {

void require_floating(const char* op, const Tensor& x) {
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: the tensor holds {}, it must be floating; call .to(f32)", op, name(x.dtype())));
  }
}

/// x with the two dimensions moved last.
Tensor matrices_last(const char* op, const Tensor& x, const Dims& dims) {
  detail::require_defined(op, x);
  require_floating(op, x);
  if (dims.rank() != 2)
    throw ShapeError(fmt::format("{}: {} names {} dimensions, a matrix has two", op, str(dims), dims.rank()));
  const int rows = wrap_dim(dims[0], x.dim(), op), columns = wrap_dim(dims[1], x.dim(), op);
  if (rows == columns) throw ShapeError(fmt::format("{}: dimension {} is named twice", op, rows));
  Dims order;
  for (int d = 0; d < x.dim(); ++d) {
    if (d != rows && d != columns) order.push_back(d);
  }
  order.push_back(rows), order.push_back(columns);
  return x.permute(order);
}

Tensor kept(const char* op, Tensor y, const Tensor& x, const Dims& dims, bool keepdim) {
  if (!keepdim) return y;
  Shape shape = x.shape();
  for (std::int64_t d : dims) shape[wrap_dim(d, x.dim(), op)] = 1;
  return y.reshape(shape);
}

double epsilon_of(const Tensor& a) {
  const double epsilon =
      a.dtype() == f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  return epsilon * static_cast<double>(std::max(a.size(-1), a.size(-2)));
}

}  // namespace

Tensor matrix_norm(const Tensor& x, std::string_view ord, Dims dims, bool keepdim) {
  const Tensor a = matrices_last("matrix_norm", x, dims);
  if (ord == "fro") return vector_norm(x, 2, dims, keepdim);
  if (ord == "nuc") return kept("matrix_norm", sum(svdvals(a), -1), x, dims, keepdim);
  throw ShapeError(fmt::format("matrix_norm: unknown norm '{}'; wanted 'fro', 'nuc' or a number", ord));
}

Tensor matrix_norm(const Tensor& x, double ord, Dims dims, bool keepdim) {
  const Tensor a = matrices_last("matrix_norm", x, dims);
  const double size = std::abs(ord);
  Tensor each;
  if (size == 2)
    each = svdvals(a);
  else if (size == 1 || std::isinf(size))
    each = sum(abs(a), size == 1 ? -2 : -1);
  else
    throw ShapeError(fmt::format("matrix_norm: order is {}; wanted 1, 2, inf or their negatives", ord));
  return kept("matrix_norm", ord > 0 ? max(each, {-1}) : min(each, {-1}), x, dims, keepdim);
}

Tensor norm(const Tensor& x, std::optional<double> ord, Dims dims, bool keepdim) {
  detail::require_defined("norm", x);
  if (!ord) return vector_norm(x, 2, dims, keepdim);
  const int rank = dims.empty() ? x.dim() : dims.rank();
  if (rank == 2) return matrix_norm(x, *ord, dims.empty() ? Dims{-2, -1} : dims, keepdim);
  if (rank > 2) {
    throw ShapeError(
        fmt::format("norm: got {} over {} dimensions; with an order, wanted one or two", str(x.shape()), rank));
  }
  return vector_norm(x, *ord, dims, keepdim);
}
Tensor norm(const Tensor& x, std::string_view ord, Dims dims, bool keepdim) {
  return matrix_norm(x, ord, dims.empty() ? Dims{-2, -1} : dims, keepdim);
}

Tensor cond(const Tensor& a, std::optional<double> p) {
  detail::require_defined("cond", a);
  require_matrices("cond", a);
  if (!p || std::abs(*p) == 2) {
    const Tensor s = svdvals(a), largest = max(s, {-1}), smallest = min(s, {-1});
    return p && *p < 0 ? smallest / largest : largest / smallest;
  }
  return matrix_norm(a, *p) * matrix_norm(inv(a), *p);
}
Tensor cond(const Tensor& a, std::string_view p) { return matrix_norm(a, p) * matrix_norm(inv(a), p); }

Tensor matrix_rank(const Tensor& a, std::optional<double> atol, std::optional<double> rtol, bool hermitian) {
  detail::require_defined("matrix_rank", a);
  require_matrices("matrix_rank", a);
  const GradMode off(false);
  const Tensor s = hermitian ? abs(eigvalsh(a)) : svdvals(a);
  if (s.size(-1) == 0) return zeros(batch_shape(a), {i64, a.device()});
  const double share = rtol.value_or(atol.value_or(0) > 0 ? 0 : epsilon_of(a));
  const Tensor least = clamp(max(s, {-1}, true) * share, atol.value_or(0), std::nullopt);
  return sum(gt(s, least), -1);
}

Lstsq lstsq(const Tensor& a, const Tensor& b, std::optional<double> rtol) {
  detail::require_defined("lstsq", a, b);
  require_matrices("lstsq", a);
  require_matrices("lstsq", b);
  if (a.size(-2) != b.size(-2)) {
    throw ShapeError(
        fmt::format("lstsq: A {} and B {} have different numbers of rows", str(a.shape()), str(b.shape())));
  }
  Lstsq found;
  const double share = rtol.value_or(epsilon_of(a));
  found.solution = matmul(pinv(a, share), b);
  found.rank = matrix_rank(a, {}, share);
  found.singular_values = svdvals(a.detach());
  const std::int64_t n = a.size(-1);
  bool full = a.size(-2) > n;
  for (std::int64_t rank : found.rank.to_vector<std::int64_t>()) full = full && rank == n;
  found.residuals = full ? sum(square(matmul(a, found.solution) - b), -2) : empty({0}, {a.dtype(), a.device()});
  return found;
}

Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t dim) {
  detail::require_defined("vecdot", a, b);
  return sum(a * b, wrap_dim(dim, std::max(a.dim(), b.dim()), "vecdot"));
}

}  // namespace etna::linalg
