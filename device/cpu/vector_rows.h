#pragma once

#include <cstdint>

/// What kernels do to a row of floats in memory, by the widest vectors the processor has: chosen when the program runs,
/// so that a portable build loses nothing. The order of additions depends on the row's length and on the processor, on
/// nothing else. Rows of doubles are there for checks; they are worked on by plain loops. NaN stays NaN in all of them.
namespace etna::cpu {

/// Functions of one number. f32: at most 4 units in the last place off (gelu and its slopes, where they
/// come near 0: 4 units of 1).
enum class Curve { exp, tanh, sigmoid, erf, gelu, gelu_slope, gelu_tanh, gelu_tanh_slope, silu, silu_slope };

/// y[i] = f(x[i]); y may be x.
void curve(Curve f, const float* x, float* y, std::int64_t n);
void curve(Curve f, const double* x, double* y, std::int64_t n);

/// The largest; NaN where there is one, -inf for n = 0.
float largest(const float* x, std::int64_t n);
double largest(const double* x, std::int64_t n);

/// Σ x[i], Σ a[i] · b[i] and Σ (x[i] - center)², carried in double.
double sum(const float* x, std::int64_t n);
double sum(const double* x, std::int64_t n);
double dot(const float* a, const float* b, std::int64_t n);
double dot(const double* a, const double* b, std::int64_t n);
double squares(const float* x, double center, std::int64_t n);
double squares(const double* x, double center, std::int64_t n);

/// y[i] = exp(x[i] - shift), of which it returns the sum; y may be x, or nullptr. Where f32 has no normal number so
/// small it is 0.
double exp_sum(const float* x, float shift, float* y, std::int64_t n);
double exp_sum(const double* x, double shift, double* y, std::int64_t n);

/// x[i] *= factor
void scale(float* x, float factor, std::int64_t n);
void scale(double* x, double factor, std::int64_t n);

/// y[i] += x[i] · factor
void add_scaled(float* y, const float* x, float factor, std::int64_t n);
void add_scaled(double* y, const double* x, double factor, std::int64_t n);

/// sums[i] += a[i] · b[i], or a[i] where b is nullptr: columns of a matrix added up row by row, exactly.
void add_products(double* sums, const float* a, const float* b, std::int64_t n);
void add_products(double* sums, const double* a, const double* b, std::int64_t n);

/// y[i] = (x[i] - mean) · scale · weight[i] + bias[i], where weight and bias may be nullptr; y may be x. f32 takes the
/// mean off in two parts, so that digits are not lost to one that is large beside the differences.
void normalize(const float* x, double mean, double scale, const float* weight, const float* bias, float* y,
               std::int64_t n);
void normalize(const double* x, double mean, double scale, const double* weight, const double* bias, double* y,
               std::int64_t n);

/// Between f32 and the bits of bf16; narrowing rounds to nearest even.
void widen_bf16(const std::uint16_t* x, float* y, std::int64_t n);
void narrow_bf16(const float* x, std::uint16_t* y, std::int64_t n);

/// "AVX2": the vectors in use.
const char* vector_target();

}  // namespace etna::cpu
