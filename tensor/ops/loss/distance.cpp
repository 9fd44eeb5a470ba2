#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/loss/reduction.h>

namespace etna {

using losses::norm_of_last;
using losses::result_dtype;
using losses::widened;

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, std::int64_t dim, double eps) {
  constexpr const char* op = "cosine_similarity";
  const Tensor a = widened(op, x1), b = widened(op, x2);
  const int rank = std::max(a.dim(), b.dim());
  if (dim < -rank || dim >= rank) {
    throw ShapeError(
        fmt::format("{}: there is no dimension {} of {} and {}", op, dim, str(x1.shape()), str(x2.shape())));
  }
  // From the end: the inputs broadcast there.
  const Dims along = {dim < 0 ? dim : dim - rank};
  const Tensor product = a * b;
  // Norms are at least eps; as in PyTorch, the gradient ignores that bound.
  const auto norm = [&](const Tensor& x) {
    const Tensor root = losses::root(sum(square(x.expand(product.shape())), along)), fixed = detail::alias(root);
    return root + (clamp(fixed, eps, {}) - fixed);
  };
  return (sum(product, along) / (norm(a) * norm(b))).to(result_dtype(x1));
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

}  // namespace etna
