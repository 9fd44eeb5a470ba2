#pragma once

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/loss/loss.h>

/// Code that the composed losses share.
namespace etna::loss {

/// Converts inputs to the dtype that losses compute in: f32 for f16 and bf16. @throws UndefinedTensor, DtypeError
Tensor widened(const char* op, const Tensor& x);
/// The dtype of a loss of x.
DType result_dtype(const Tensor& x);
/// Reduces and rounds to `dtype`.
Tensor reduced(const Tensor& losses, Reduction reduction, DType dtype);
/// @throws ShapeError
void require_same(const char* op, const Tensor& x, const Tensor& target);
/// losses · weight in losses' dtype; losses if weight is undefined.
Tensor weighted(const char* op, const Tensor& losses, const Tensor& weight);
/// @throws DtypeError unless i64 or i32
void require_classes(const char* op, const Tensor& target);

/// The p-norm over the last dimension. The gradient of a norm of 0 is 0.
Tensor norm_of_last(const char* op, const Tensor& x, double p, bool keepdim);

}  // namespace etna::loss
