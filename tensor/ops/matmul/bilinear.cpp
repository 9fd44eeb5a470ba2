#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna {

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias) {
  detail::require_defined("bilinear", a, b);
  detail::require_defined("bilinear", weight);
  if (weight.dim() != 3) {
    throw ShapeError(fmt::format("bilinear: the weight is {}; wanted [out, in1, in2]", str(weight.shape())));
  }
  const std::int64_t out = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  bool fits = a.dim() >= 1 && a.dim() == b.dim() && a.size(-1) == in1 && b.size(-1) == in2;
  for (int d = 0; fits && d < a.dim() - 1; ++d) fits = a.shape()[d] == b.shape()[d];
  if (!fits) {
    throw ShapeError(fmt::format("bilinear: got {} and {}; wanted [..., {}] and [..., {}] with the same leading sizes",
                                 str(a.shape()), str(b.shape()), in1, in2));
  }
  if (bias.defined() && bias.shape() != Shape{out})
    throw ShapeError(fmt::format("bilinear: the bias is {}; wanted [{}]", str(bias.shape()), out));
  Shape shape = a.shape();
  shape.back() = 1;
  const std::int64_t rows = numel(shape, "bilinear");
  shape.back() = out;
  // One gemm computes a · weight[o] for all o; the sum over in2 multiplies it by b. f16 and bf16 are rounded once, at
  // the end.
  const std::int64_t both = checked_product(out, in2, "bilinear");
  const bool half = item_size(a.dtype()) == 2;
  const Tensor table = weight.permute({1, 0, 2}).reshape({in1, both}), flat = a.reshape({rows, in1});
  const Tensor left = half ? matmul(flat, table, f32) : matmul(flat, table);
  const Tensor right = half ? b.to(f32) : b;
  Tensor y = matmul(left.reshape({rows, out, in2}), right.reshape({rows, in2, 1})).reshape(shape);
  if (bias.defined()) y = y + bias;
  return half ? y.to(a.dtype()) : y;
}

}  // namespace etna
