#pragma once

#include <cstdint>

#include <etna/tensor/ops/activations/activations.h>

/// Functions of one variable over rows in memory. f32 uses the widest vectors of the processor, chosen at run time, so
/// a portable build is as fast as a native one; f64 uses plain loops. NaN gives NaN; relu's derivative there is 0.
namespace etna::cpu {

enum class UnaryOp { exp, tanh, sigmoid, erf };

/// y[i] = f(x[i]); y may be x. f32: within 4 units in the last place.
void unary(UnaryOp f, const float* x, float* y, std::int64_t n);
void unary(UnaryOp f, const double* x, double* y, std::int64_t n);

/// y[i] = activation(x[i]), or its derivative; y may be x. f32: within 4 units in the last place; where the function
/// approaches 0, within 4 units in the last place of 1.
void activate(Activation activation, const float* x, float* y, std::int64_t n);
void activate(Activation activation, const double* x, double* y, std::int64_t n);
void activation_derivative(Activation activation, const float* x, float* y, std::int64_t n);
void activation_derivative(Activation activation, const double* x, double* y, std::int64_t n);

}  // namespace etna::cpu
