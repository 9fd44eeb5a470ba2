#include <etna/tensor/ops/loss/internal/reduction.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/op.h>

namespace etna::loss {

Tensor widened(const char* op, const Tensor& x) {
  detail::require_defined(op, x);
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: an input holds {}; it must be f64, f32, f16 or bf16", op, name(x.dtype())));
  }
  return x.dtype() == f16 || x.dtype() == bf16 ? x.to(f32) : x;
}

DType result_dtype(const Tensor& x) {
  const bool half = x.dtype() == f16 || x.dtype() == bf16;
  return half && autocast_dtype() != f32 ? f32 : x.dtype();
}

Tensor reduced(const Tensor& losses, Reduction reduction, DType dtype) {
  const Tensor loss = reduction == Reduction::none ? losses : reduction == Reduction::sum ? sum(losses) : mean(losses);
  return loss.dtype() == dtype ? loss : loss.to(dtype);
}

void require_same(const char* op, const Tensor& x, const Tensor& target) {
  detail::require_defined(op, x, target);
  if (x.shape() != target.shape()) {
    throw ShapeError(fmt::format("{}: x {} and target {} differ in shape; expand one explicitly if that is intended",
                                 op, str(x.shape()), str(target.shape())));
  }
}

Tensor weighted(const char* op, const Tensor& losses, const Tensor& weight) {
  if (!weight.defined()) return losses;
  const Tensor product = losses * weight.to(losses.dtype());
  if (product.shape() != losses.shape()) {
    throw ShapeError(
        fmt::format("{}: the weight {} does not broadcast to {}", op, str(weight.shape()), str(losses.shape())));
  }
  return product;
}

void require_classes(const char* op, const Tensor& target) {
  detail::require_defined(op, target);
  if (target.dtype() != i64 && target.dtype() != i32) {
    throw DtypeError(fmt::format("{}: the targets hold {}; they are i64 or i32", op, name(target.dtype())));
  }
}

Tensor norm_of_last(const char* op, const Tensor& x, double p, bool keepdim) {
  if (!(p >= 0)) throw Error(fmt::format("{}: the order is {}; p must be at least 0", op, p));
  if (x.dim() == 0) throw ShapeError(fmt::format("{}: the inputs are 0-d; they need a last dimension", op));
  return vector_norm(x, p, {-1}, keepdim);
}

}  // namespace etna::loss
