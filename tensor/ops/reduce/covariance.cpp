#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// Covariances, and scaling by norms.
namespace etna {
namespace {

void covariance_check_weights(const char* what, const Tensor& weights, std::int64_t n, bool integers) {
  if (weights.dim() != 1 || weights.size(0) != n)
    throw ShapeError(
        fmt::format("cov: {} are {}, they must be one for each of {} observations", what, str(weights.shape()), n));
  if (integers ? !is_integral(weights.dtype()) : !is_floating(weights.dtype()))
    throw DtypeError(fmt::format("cov: {} are {}, they must be {}", what, name(weights.dtype()),
                                 integers ? "integers" : "floating"));
}

}  // namespace

Tensor dist(const Tensor& a, const Tensor& b, double p) {
  detail::require_defined("dist", a, b);
  return vector_norm(a - b, p);
}

Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm) {
  detail::require_defined("renorm", x);
  if (x.dim() < 2) throw ShapeError(fmt::format("renorm: x is {}; wanted at least two dimensions", str(x.shape())));
  if (!(p > 0) || !(maxnorm >= 0))
    throw ShapeError(
        fmt::format("renorm: p is {}, maxnorm is {}; p must be positive, maxnorm not negative", p, maxnorm));
  const int d = wrap_dim(dim, x.dim(), "renorm");
  Dims others;
  for (int k = 0; k < x.dim(); ++k) {
    if (k != d) others.push_back(k);
  }
  const Tensor norms = vector_norm(item_size(x.dtype()) == 2 ? x.to(f32) : x, p, others, true);
  const Tensor factors = where(gt(norms, maxnorm), maxnorm / (norms + 1e-7), 1.0);
  return (x * factors).to(x.dtype());
}

Tensor cov(const Tensor& x, std::int64_t correction, const Tensor& fweights, const Tensor& aweights) {
  detail::require_defined("cov", x);
  if (x.dim() > 2)
    throw ShapeError(fmt::format("cov: {} is not a matrix of variables and observations", str(x.shape())));
  if (x.dtype() == boolean) throw DtypeError("cov: bool has no covariance; convert it first, e.g. with .to(f32)");
  Tensor rows = is_floating(x.dtype()) ? x : x.to(f32);
  const DType t = rows.dtype();
  if (item_size(t) == 2) rows = rows.to(f32);
  if (rows.dim() < 2) rows = rows.reshape({1, rows.numel()});
  const std::int64_t n = rows.size(1);
  Tensor weights;
  if (fweights.defined()) {
    covariance_check_weights("fweights", fweights, n, true);
    weights = fweights.to(rows.dtype());
  }
  if (aweights.defined()) {
    covariance_check_weights("aweights", aweights, n, false);
    weights = weights.defined() ? weights * aweights.to(rows.dtype()) : aweights.to(rows.dtype());
  }
  Tensor products;
  const auto less = static_cast<double>(correction);
  if (!weights.defined()) {
    const Tensor centred = rows - mean(rows, 1, true);
    const double freedom = static_cast<double>(n) - less;
    products = matmul(centred, centred.t()) / (freedom > 0 ? freedom : 0.0);
  } else {
    const Tensor total = sum(weights);
    const Tensor centred = rows - sum(rows * weights, 1, true) / total;
    const Tensor freedom = aweights.defined() && correction != 0
                               ? total - sum(weights * aweights.to(rows.dtype())) * less / total
                               : total - less;
    products = matmul(centred * weights, centred.t()) / clamp(freedom, 0.0, {});
  }
  return (x.dim() < 2 ? products.reshape({}) : products).to(t);
}

Tensor corrcoef(const Tensor& x) {
  detail::require_defined("corrcoef", x);
  if (x.dim() > 2)
    throw ShapeError(fmt::format("corrcoef: {} is not a matrix of variables and observations", str(x.shape())));
  const Tensor c = cov(x);
  if (c.dim() == 0) return c / c;
  const Tensor deviations = sqrt(diagonal(c));
  return clamp(c / deviations.unsqueeze(1) / deviations.unsqueeze(0), -1.0, 1.0);
}

}  // namespace etna
