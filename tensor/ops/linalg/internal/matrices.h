#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops/linalg/linalg.h>

/// Batches of matrices.
namespace etna::linalg {

/// @throws DtypeError, ShapeError
void require_matrices(const char* op, const Tensor& a);
void require_square(const char* op, const Tensor& a);

/// Number of matrices of a contiguous tensor; a tensor without elements has as many as its batch dimensions give.
std::int64_t batch_size(const Tensor& a);
inline Shape batch_shape(const Tensor& a) {
  Shape batch = a.shape();
  batch.erase(batch.rank() - 1);
  batch.erase(batch.rank() - 1);
  return batch;
}
inline Shape with_sizes(Shape batch, std::initializer_list<std::int64_t> sizes) {
  for (std::int64_t n : sizes) batch.push_back(n);
  return batch;
}

/// Matrix `index` of a contiguous tensor, by rows.
template <typename T>
const T* matrix(const Tensor& a, std::int64_t index) {
  return a.host<T>() + index * a.size(-2) * a.size(-1);
}
template <typename T>
T* result(Tensor& y, std::int64_t index) {
  return y.host<T>() + index * y.size(-2) * y.size(-1);
}
/// A copy of that matrix in To.
template <typename To, typename T>
std::vector<To> copied(const Tensor& a, std::int64_t index) {
  const T* const from = matrix<T>(a, index);
  return {from, from + a.size(-2) * a.size(-1)};
}
/// Converts numbers to T. @return the end of `to`
template <typename From, typename T>
T* convert(const From* from, std::int64_t n, T* to) {
  return std::transform(from, from + n, to, [](From x) { return static_cast<T>(x); });
}
/// The identity's first rows and columns.
template <typename T>
void set_identity(std::int64_t m, std::int64_t n, T* a) {
  std::fill_n(a, m * n, T(0));
  for (std::int64_t i = 0; i < std::min(m, n); ++i) a[i * n + i] = T(1);
}

/// Calls body(zero of T, index) for each matrix of the batch, from several threads. body returns null, or a description
/// of the problem. @throws LinalgError about the first such matrix
template <typename Body>
void each_matrix(const char* op, const Tensor& a, const Body& body) {
  const std::int64_t count = batch_size(a), work = std::max<std::int64_t>(1, a.size(-1) * a.size(-1) * a.size(-2));
  std::atomic<std::int64_t> first{std::numeric_limits<std::int64_t>::max()};
  const auto run = [&](auto zero) {
    cpu::parallel_for(count, std::max<std::int64_t>(1, 20000 / work), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (body(zero, i) == nullptr) continue;
        std::int64_t least = first.load();
        while (i < least && !first.compare_exchange_weak(least, i)) {}
      }
    });
    const std::int64_t failed = first.load();
    if (failed == std::numeric_limits<std::int64_t>::max()) return;
    const char* why = body(zero, failed);
    throw LinalgError(fmt::format(
        "{}: {} {}", op, a.dim() == 2 ? "the matrix" : fmt::format("matrix {} of the batch {}", failed, str(a.shape())),
        why != nullptr ? why : "failed"));
  };
  if (a.dtype() == f64)
    run(double{});
  else
    run(float{});
}

/// Broadcasts the batches of A and B; the matrices keep their sizes.
void broadcast_batches(const char* op, Tensor& a, Tensor& b);

/// The diagonals of a batch of matrices; matrices with such diagonals; A with only its upper (or lower) triangle.
Tensor diagonal(const Tensor& a);
Tensor as_diagonal(const Tensor& d);

/// The operation that shaders/linalg/small_matrix.comp performs on a batch.
enum class Small : std::uint32_t { lu, solve, det, slogdet, triangular, cholesky, cofactor };
/// Runs that shader. Returns false if matrices are too large for it, or not f32.
bool run_small(const OpCall& call, Small what, const Tensor& a, const Tensor& b, Tensor& y, const Tensor& second = {},
               const Tensor& third = {}, bool upper = false, bool unit = false);

}  // namespace etna::linalg
