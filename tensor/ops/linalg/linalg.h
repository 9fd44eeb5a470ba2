#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <etna/device/error.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/reduce/reduce.h>
#include <etna/tensor/tensor.h>

namespace etna {

/// Thrown for a matrix that a decomposition or a solver cannot handle: singular, not positive definite, not finite. The
/// message names its index in the batch. Also thrown by svd(), pinv(), eigh(), eig() and qr() if no LAPACK is found
/// (docs/deploying.md).
struct LinalgError : Error {
  using Error::Error;
};

}  // namespace etna

/// Linear algebra on batches of matrices [..., M, N], f32 or f64. Everything is differentiable to every order, except
/// where a comment says otherwise; gradients of decompositions are those of PyTorch.
///
/// On a GPU, cholesky, solve_triangular, solve, inv, det, slogdet and lu_factor have a kernel for f32 matrices of up to
/// 64 x 64. It cannot throw: a matrix that is singular, or not positive definite, gives infinities or NaN. Everything
/// else falls back to the CPU with a warning, and is an error in strict mode.
namespace etna::linalg {

/// L with A = L · Lᵀ, lower triangular; with `upper` its transpose. Reads only the lower triangle of A (only the upper
/// with `upper`); its gradient is symmetric. @throws LinalgError unless A is positive definite
Tensor cholesky(const Tensor& a, bool upper = false);
/// X with A · X = B, or X · A = B unless `left`. Reads one triangle of A; with `unitriangular` its diagonal counts as
/// 1.
/// @param a [..., N, N] @param b [..., N, K] ([..., K, N] unless left); batches broadcast
/// @throws LinalgError for a zero on the diagonal
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left = true, bool unitriangular = false);
/// X with A · X = B, or X · A = B unless `left`.
/// @param b [..., N, K], or a batch of vectors [..., N] if it has A's shape without the last dimension, or one
/// dimension
/// @throws LinalgError for a singular matrix
Tensor solve(const Tensor& a, const Tensor& b, bool left = true);
Tensor inv(const Tensor& a);  ///< @throws LinalgError for a singular matrix
/// The gradient is the matrix of cofactors, which exists for singular matrices too. The second derivative multiplies by
/// the inverse: it throws LinalgError at a singular matrix.
Tensor det(const Tensor& a);
/// The result of slogdet().
struct SignLogDet {
  Tensor sign, logabsdet;
};
/// Sign and logarithm of the absolute value of the determinant. A singular matrix gives 0 and -inf, and its gradient
/// throws LinalgError.
SignLogDet slogdet(const Tensor& a);

/// P · A = L · U with partial pivoting, for any M, N; K = min(M, N).
struct LuFactor {
  Tensor LU;           ///< [..., M, N]: U on and above the diagonal, L below; the ones of L are not stored
  Tensor pivots;       ///< [..., K] i32: row i was swapped with row pivots[i] - 1
  Tensor permutation;  ///< [..., M] i64: row i of P · A is row permutation[i] of A
};
/// Differentiable for square A. Accepts singular matrices.
LuFactor lu_factor(const Tensor& a);
/// The result of lu().
struct Lu {
  Tensor P, L, U;
};
/// A = P · L · U. @return [..., M, M], [..., M, K], [..., K, N]
Lu lu(const Tensor& a);
/// X with A · X = B for A's factors. @param b [..., N, K]
Tensor lu_solve(const LuFactor& factor, const Tensor& b);
/// X with A · X = B for A = L · Lᵀ (Uᵀ · U with `upper`).
Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper = false);
Tensor cholesky_inverse(const Tensor& l, bool upper = false);

/// The factors that qr() computes.
enum class QrMode { reduced, complete, r };
/// The result of qr().
struct Qr {
  Tensor Q, R;  ///< [..., M, K] and [..., K, N]; complete: [..., M, M] and [..., M, N]; r: Q undefined
};
/// A = Q · R. Not differentiable with `complete` where M > N, nor with `r`. The gradient needs the first K columns of A
/// to be independent.
Qr qr(const Tensor& a, QrMode mode = QrMode::reduced);

/// The first N columns of H₁ · H₂ · ... · Hₖ with Hᵢ = I - tauᵢ · v · vᵀ, where v is column i of A below the diagonal,
/// 1 on it and 0 above: Q from the output of LAPACK's geqrf. Runs on every device.
/// @param a [..., M, N], M ≥ N @param tau [..., K], K ≤ N @return [..., M, N]
Tensor householder_product(const Tensor& a, const Tensor& tau);

/// The result of svd().
struct Svd {
  Tensor U, S, Vh;  ///< [..., M, K], [..., K] descending, [..., K, N]; full: [..., M, M] and [..., N, N]
};
/// A = U · diag(S) · Vh. Gradients of U and Vh require full_matrices = false. They are infinite or NaN if singular
/// values are equal, or zero for M ≠ N, and are meaningful only for functions that do not depend on the signs of the
/// vectors. The gradient of S is always finite. @throws LinalgError for matrices that are not finite
Svd svd(const Tensor& a, bool full_matrices = true);
/// The singular values of svd() alone.
Tensor svdvals(const Tensor& a);
/// The result of eigh().
struct Eigh {
  Tensor eigenvalues, eigenvectors;  ///< [..., N] ascending, [..., N, N] in columns
};
/// A = V · diag(L) · Vᵀ for symmetric A. Reads one triangle, by default the lower. The gradient of V is infinite or NaN
/// if eigenvalues are equal.
Eigh eigh(const Tensor& a, bool upper = false);
/// The eigenvalues of eigh() alone.
Tensor eigvalsh(const Tensor& a, bool upper = false);
/// A complex tensor as two real ones, since there is no complex dtype; etna::complex(real, imag) combines them for
/// fft().
struct Complex {
  Tensor real, imag;
};
/// The result of eig().
struct Eig {
  Complex eigenvalues, eigenvectors;  ///< [..., N] ascending by real, then imag; [..., N, N] in columns of length 1
};
/// A · V = V · diag(L) for a square A, both complex. The gradient is infinite or NaN if eigenvalues are equal, and is
/// meaningful only for functions that do not depend on the phases of the vectors.
/// @throws LinalgError for matrices that are not finite
Eig eig(const Tensor& a);
/// The eigenvalues of eig() alone.
Complex eigvals(const Tensor& a);

/// The Moore-Penrose inverse. Singular values of at most rtol · (the largest) count as 0.
/// @param rtol by default the dtype's epsilon · max(M, N)
Tensor pinv(const Tensor& a, std::optional<double> rtol = {});
/// The result of lstsq().
struct Lstsq {
  Tensor solution;         ///< [..., N, K], of least norm
  Tensor residuals;        ///< [..., K] if M > N and all matrices have rank N, else empty
  Tensor rank;             ///< [...] i64
  Tensor singular_values;  ///< [..., min(M, N)]
};
/// X that minimizes ‖A · X - B‖, by pinv(). Reads the ranks on the host. @param b [..., M, K]
Lstsq lstsq(const Tensor& a, const Tensor& b, std::optional<double> rtol = {});
/// The number of singular values above max(atol, rtol · (the largest)). Not differentiable.
/// @param rtol by default the dtype's epsilon · max(M, N), or 0 if atol is given
Tensor matrix_rank(const Tensor& a, std::optional<double> atol = {}, std::optional<double> rtol = {},
                   bool hermitian = false);
Tensor matrix_exp(const Tensor& a);  ///< Σ Aᵏ / k! (Higham 2005)

using etna::vector_norm;
/// @param ord "fro" or "nuc"
Tensor matrix_norm(const Tensor& x, std::string_view ord = "fro", Dims dims = {-2, -1}, bool keepdim = false);
/// @param ord ±1 (column sums of |x|), ±∞ (row sums), ±2 (singular values)
Tensor matrix_norm(const Tensor& x, double ord, Dims dims = {-2, -1}, bool keepdim = false);
/// Without ord: the 2-norm of all elements, or over `dims`. With ord: vector_norm() for one dimension (or a vector),
/// matrix_norm() for two (or a matrix).
Tensor norm(const Tensor& x, std::optional<double> ord = {}, Dims dims = {}, bool keepdim = false);
Tensor norm(const Tensor& x, std::string_view ord, Dims dims = {}, bool keepdim = false);
/// ‖A‖ · ‖A⁻¹‖; by default, and for ±2, the ratio of singular values (then A may be rectangular).
Tensor cond(const Tensor& a, std::optional<double> p = {});
Tensor cond(const Tensor& a, std::string_view p);  ///< "fro" or "nuc"

/// Along dimension -1; etna::cross() takes the first dimension of size 3.
inline Tensor cross(const Tensor& a, const Tensor& b, std::int64_t dim = -1) { return etna::cross(a, b, dim); }
Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t dim = -1);  ///< Σ a · b along a dimension
using etna::matrix_power;
using etna::multi_dot;
/// ln det: -inf for 0, NaN for a negative determinant.
Tensor logdet(const Tensor& a);
/// x [..., N] → [..., N, count]: the powers 0 ... count - 1 of each element. count is N by default.
Tensor vander(const Tensor& x, std::optional<std::int64_t> count = {});
/// The inverse of a, as a map from its last dimensions to its first `ind`.
/// @throws ShapeError unless both have the same number of elements, LinalgError if there is no inverse
Tensor tensorinv(const Tensor& a, std::int64_t ind = 2);
/// X with tensordot(A, X, X.dim()) = B. @param dims of A, first moved to its end
Tensor tensorsolve(const Tensor& a, const Tensor& b, Dims dims = {});

}  // namespace etna::linalg
