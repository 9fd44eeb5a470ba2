#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/loss/internal/reduction.h>

namespace etna {

using loss::norm_of_last;
using loss::result_dtype;
using loss::widened;

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, std::int64_t dim, double eps) {
  constexpr const char* op = "cosine_similarity";
  const Tensor a = widened(op, x1), b = widened(op, x2);
  const int rank = std::max(a.dim(), b.dim());
  if (dim < -rank || dim >= rank) {
    throw ShapeError(
        fmt::format("{}: there is no dimension {} of {} and {}", op, dim, str(x1.shape()), str(x2.shape())));
  }
  // Counted from the end, since the inputs broadcast from the end.
  const Dims along = {dim < 0 ? dim : dim - rank};
  const Shape shape = broadcast(a.shape(), b.shape(), op);
  // Divides by a norm of at least eps. As in PyTorch, the bound applies to the square, and its gradient is that of the
  // square.
  const auto unit = [&](const Tensor& x) {
    const Tensor size = vector_norm(x.expand(shape), 2, along, true), fixed = detail::alias(size);
    const Tensor bounded = clamp(fixed, eps, {});
    return x / (bounded + (size - fixed) * (fixed / bounded));
  };
  return sum(unit(a) * unit(b), along).to(result_dtype(x1));
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  constexpr const char* op = "pairwise_distance";
  const Tensor difference = widened(op, x1) - widened(op, x2) + eps;
  return norm_of_last(op, difference, p, keepdim).to(result_dtype(x1));
}

Tensor cdist(const Tensor& x1, const Tensor& x2, double p) {
  constexpr const char* op = "cdist";
  const Tensor a = widened(op, x1), b = widened(op, x2);
  if (a.dim() < 2 || b.dim() < 2 || a.size(-1) != b.size(-1)) {
    throw ShapeError(
        fmt::format("{}: got {} and {}, wanted [..., P, M] and [..., R, M]", op, str(x1.shape()), str(x2.shape())));
  }
  return norm_of_last(op, a.unsqueeze(-2) - b.unsqueeze(-3), p, false).to(result_dtype(x1));
}

Tensor pdist(const Tensor& given, double p) {
  constexpr const char* op = "pdist";
  const Tensor x = widened(op, given);
  if (x.dim() != 2) throw ShapeError(fmt::format("{}: x is {}, wanted [P, M]", op, str(given.shape())));
  const std::int64_t n = x.size(0), pairs = n < 2 ? 0 : checked_product(n, n - 1, op) / 2;
  if (pairs == 0) return zeros({0}, {result_dtype(given), x.device()});
  // Row i has n-1-i later rows; pair k belongs to the first row whose last pair is at or after k. The integers are
  // generated on the device: arange() would upload them.
  const auto counted = [&](std::int64_t count) { return cumsum(ones({count}, {i64, x.device()}), 0); };
  const Tensor counts = static_cast<double>(n) - counted(n - 1), ends = cumsum(counts, 0), k = counted(pairs) - 1.0;
  const Tensor first = searchsorted(ends, k, false, true), begins = index_select(ends - counts, 0, first);
  const Tensor second = k - begins + first + 1.0;
  const Tensor difference = index_select(x, 0, first) - index_select(x, 0, second);
  return norm_of_last(op, difference, p, false).to(result_dtype(given));
}

Tensor normalize(const Tensor& given, double p, std::int64_t dim, double eps) {
  const Tensor x = widened("normalize", given);
  const int along = wrap_dim(dim, x.dim(), "normalize");
  return (x / clamp(norm(x, p, {along}, true), eps, {})).to(result_dtype(given));
}

}  // namespace etna
