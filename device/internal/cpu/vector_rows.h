#pragma once

#include <cstdint>

/// Operations on a contiguous row of floats, with the widest vectors of the processor. The instruction set is chosen at
/// run time, so a portable build is as fast as a native one. The order of additions depends only on the row's length
/// and the processor. The double versions exist for checks and use plain loops. All functions propagate NaN.
namespace etna::cpu {

/// The maximum; NaN if any element is NaN, -inf for n = 0.
float largest(const float* x, std::int64_t n);
double largest(const double* x, std::int64_t n);

/// Σ x[i], Σ a[i] · b[i] and Σ (x[i] - center)², accumulated in double.
double sum(const float* x, std::int64_t n);
double sum(const double* x, std::int64_t n);
double dot(const float* a, const float* b, std::int64_t n);
double dot(const double* a, const double* b, std::int64_t n);
double squares(const float* x, double center, std::int64_t n);
double squares(const double* x, double center, std::int64_t n);

/// y[i] = exp(x[i] - shift); returns their sum. y may be x, or nullptr. Results below the normal f32 range become 0.
double exp_sum(const float* x, float shift, float* y, std::int64_t n);
double exp_sum(const double* x, double shift, double* y, std::int64_t n);

/// x[i] *= factor
void scale(float* x, float factor, std::int64_t n);
void scale(double* x, double factor, std::int64_t n);

/// y[i] += x[i] · factor
void add_scaled(float* y, const float* x, float factor, std::int64_t n);
void add_scaled(double* y, const double* x, double factor, std::int64_t n);

/// products[r · stride + j] = Σ a[r · n + i] · b[j · n + i] for `rows` rows of a and `count` rows of b, accumulated in
/// f32, each in the same order whatever the numbers of rows.
void dots(const float* a, std::int64_t rows, const float* b, std::int64_t count, std::int64_t n, float* products,
          std::int64_t stride);
/// y[r · n + i] += Σ factors[r · stride + j] · x[j · n + i] for `rows` rows of y, over j = 0 … count - 1 in this order.
void add_weighted(float* y, std::int64_t rows, const float* factors, std::int64_t stride, const float* x,
                  std::int64_t count, std::int64_t n);

/// sums[i] += a[i] · b[i], or a[i] if b is nullptr: sums the columns of a matrix row by row, exactly.
void add_products(double* sums, const float* a, const float* b, std::int64_t n);
void add_products(double* sums, const double* a, const double* b, std::int64_t n);

/// y[i] = (x[i] - mean) · scale · weight[i] + bias[i]. weight and bias may be nullptr; y may be x. f32 subtracts the
/// mean in two parts, so a mean that is large compared with the differences costs no digits.
void normalize(const float* x, double mean, double scale, const float* weight, const float* bias, float* y,
               std::int64_t n);
void normalize(const double* x, double mean, double scale, const double* weight, const double* bias, double* y,
               std::int64_t n);

/// From the bits of f16 to f32.
void widen_half(const std::uint16_t* x, float* y, std::int64_t n);
/// Between f32 and the bits of bf16; narrowing rounds to nearest even.
void widen_bf16(const std::uint16_t* x, float* y, std::int64_t n);
void narrow_bf16(const float* x, std::uint16_t* y, std::int64_t n);

/// The instruction set in use: "AVX2".
const char* vector_target();

}  // namespace etna::cpu
