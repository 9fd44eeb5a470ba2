#include <array>
#include <cmath>
#include <utility>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/linalg/internal/factors.h>
#include <etna/tensor/ops/linalg/internal/matrices.h>

// The matrix exponential by scaling, a Padé approximant and squaring (Higham 2005), in double.
namespace etna {
namespace linalg {
namespace {

using Elements = std::vector<double>;

/// c = beta · c + a · b
void multiply_squares(std::int64_t n, const Elements& a, const Elements& b, double beta, Elements& c) {
  cpu::gemm_one_thread({.m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n}, 1.0, a.data(), b.data(), beta, c.data());
}

double one_norm(std::int64_t n, const Elements& a) {
  Elements sums(static_cast<std::size_t>(n));
  for (auto row = a.begin(); row != a.end(); row += n) {
    std::transform(sums.begin(), sums.end(), row, sums.begin(), [](double sum, double x) { return sum + std::abs(x); });
  }
  return *std::max_element(sums.begin(), sums.end());
}

/// Coefficients of x⁰ … xᵒʳᵈᵉʳ of the numerator; the last is 1.
Elements pade_coefficients(int order) {
  Elements b(static_cast<std::size_t>(order) + 1, 1.0);
  for (int j = order - 1; j >= 0; --j) {
    const auto at = static_cast<std::size_t>(j);
    b[at] = b[at + 1] * (2 * order - j) * (j + 1) / (order - j);
  }
  return b;
}

/// The even and the odd part of the numerator p(A); p(-A) is the denominator.
struct PadeParts {
  Elements even, odd, spare;  ///< the contents of `spare` do not matter
};

PadeParts pade(std::int64_t n, const Elements& a, int order) {
  const Elements b = pade_coefficients(order);
  std::vector<Elements> powers(order == 13 ? 3 : static_cast<std::size_t>(order / 2), Elements(a.size()));  // A², A⁴, …
  multiply_squares(n, a, a, 0, powers[0]);
  for (std::size_t j = 1; j < powers.size(); ++j) multiply_squares(n, powers[j - 1], powers[0], 0, powers[j]);
  PadeParts parts{Elements(a.size()), Elements(a.size()), Elements(a.size())};
  const auto set = [&](Elements& y, std::size_t first) {  // y = b[first + 2] · A² + b[first + 4] · A⁴ + …
    std::fill(y.begin(), y.end(), 0.0);
    for (std::size_t j = 0; j < powers.size(); ++j) {
      const double factor = b[first + 2 + 2 * j];
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += factor * powers[j][i];
    }
  };
  const auto side = static_cast<std::size_t>(n);
  for (std::size_t odd : {0, 1}) {
    Elements& y = odd == 1 ? parts.odd : parts.even;
    set(y, odd);
    for (std::size_t i = 0; i < side; ++i) y[i * side + i] += b[odd];
    if (order != 13) continue;
    set(parts.spare, odd + 6);
    multiply_squares(n, powers[2], parts.spare, 1, y);  // A⁸ … A¹² are A⁶ times A² … A⁶
  }
  multiply_squares(n, a, parts.odd, 0, parts.spare);
  std::swap(parts.odd, parts.spare);
  return parts;
}

/// The exponential of a finite matrix.
Elements exponential(std::int64_t n, Elements a) {
  constexpr double kMostOf13 = 5.371920351148152;
  constexpr std::array<std::pair<int, double>, 4> kMostOf = {
      {{3, 1.495585217958292e-2}, {5, 2.539398330063230e-1}, {7, 9.504178996162932e-1}, {9, 2.097847961257068}}};
  const double norm = std::min(one_norm(n, a), std::numeric_limits<double>::max());
  int order = 13, squarings = 0;
  for (auto at = kMostOf.rbegin(); at != kMostOf.rend(); ++at) {
    if (norm <= at->second) order = at->first;
  }
  if (norm > kMostOf13) {
    std::frexp(norm / kMostOf13, &squarings);
    for (double& x : a) x = std::ldexp(x, -squarings);
  }
  auto [x, denominator, spare] = pade(n, a, order);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double even = x[i], odd = denominator[i];
    x[i] = even + odd, denominator[i] = even - odd;
  }
  raw::solve(n, n, denominator.data(), x.data());
  for (; squarings > 0; --squarings) {
    multiply_squares(n, x, x, 0, spare);
    std::swap(x, spare);
  }
  return x;
}

std::vector<OutputSpec> matrix_exp_infer(const OpCall& call) {
  require_square(call.op.name, call.in[0]);
  return {{call.in[0].shape(), call.in[0].dtype()}};
}
void matrix_exp_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const std::int64_t n = a.size(-1);
  if (a.numel() == 0) return;
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    // For a matrix that is not finite, scaling by powers of two would not end.
    if (!raw::all_finite(matrix<T>(a, i), n * n)) return "is not finite";
    convert(exponential(n, copied<double, T>(a, i)).data(), n * n, result<T>(out[0], i));
    return nullptr;
  });
}
/// exp of [[Aᵀ, G], [0, Aᵀ]] has the gradient at the top right (Mathias 1996).
TensorList matrix_exp_vjp(const VjpCall& call) {
  const Tensor a = call.in[0].t(), &g = call.grad[0];
  const std::int64_t n = a.size(-1);
  const Tensor block = cat({cat({a, g}, -1), cat({zeros_like(a), a}, -1)}, -2);
  return {matrix_exp(block).slice(-2, 0, n).slice(-1, n, 2 * n)};
}
const OpDef kMatrixExp = {.name = "matrix_exp",
                          .infer = matrix_exp_infer,
                          .cpu = matrix_exp_cpu,
                          .vjp = matrix_exp_vjp,
                          .saved = Saved::inputs};

}  // namespace

Tensor matrix_exp(const Tensor& a) {
  detail::require_defined("matrix_exp", a);
  return apply1(kMatrixExp, {a});
}

}  // namespace linalg

std::span<const OpDef* const> ops_in_matrix_exp() {
  static const OpDef* const list[] = {&linalg::kMatrixExp};
  return list;
}

}  // namespace etna
