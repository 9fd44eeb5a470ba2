#pragma once

#include <cstdint>

/// Decompositions of one matrix that is finite and has elements, row-major without gaps. LAPACK computes them where
/// Etna loads OpenBLAS, Eigen elsewhere (docs/decisions/024-lapack.md). Iterative ones overwrite `a`, and return false
/// if they do not converge.
namespace etna::linalg::raw {

/// Call it before starting a batch. @throws LinalgError without LAPACK, or for sizes beyond its 32-bit integers
void require_decompositions(const char* op, std::int64_t m, std::int64_t n);

enum class Vectors { none, reduced, full };
/// @param s [k] descending, k = min(m, n) @param u [m, k], or [m, m] if full @param vh [k, n], or [n, n] if full
bool svd(std::int64_t m, std::int64_t n, Vectors vectors, double* a, double* s, double* u, double* vh);

/// Reads the lower triangle. Replaces the rows of a by the eigenvectors.
/// @param values [n] ascending
bool eigh(std::int64_t n, double* a, double* values);

/// @param real, imag the eigenvalues [n] in any order @param vectors_real, vectors_imag [n, n], rows of length 1
bool eig(std::int64_t n, double* a, double* real, double* imag, double* vectors_real, double* vectors_imag);

/// QR by Householder reflections. @param q [m, k] @param r [k, n], where k is m or min(m, n)
template <typename T>
void qr(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, T* q, T* r);

}  // namespace etna::linalg::raw
