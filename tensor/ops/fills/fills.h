#pragma once

#include <cstdint>
#include <optional>

#include <etna/tensor/tensor.h>

/// Tensors filled by a rule; zeros(), ones(), full() and arange() are in <etna/tensor/tensor.h>.
namespace etna {

/// `value` everywhere, in the shape, dtype and device of x.
Tensor full_like(const Tensor& x, double value);
/// rand() of the shape, dtype and device of x.
Tensor rand_like(const Tensor& x);
/// randn() of the shape, dtype and device of x.
Tensor randn_like(const Tensor& x);
/// randint() of the shape, dtype and device of x.
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high);
/// `steps` evenly spaced numbers from begin to end, both exact. @throws ShapeError for negative steps
Tensor linspace(double begin, double end, std::int64_t steps, TensorOptions options = {});
/// base^linspace(begin, end, steps)
Tensor logspace(double begin, double end, std::int64_t steps, double base = 10, TensorOptions options = {});
/// 1 on the diagonal, else 0. @param columns rows by default
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = {}, TensorOptions options = {});

}  // namespace etna
