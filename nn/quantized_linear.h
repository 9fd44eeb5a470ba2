#pragma once

#include <etna/nn/linear.h>
#include <etna/tensor/quant/quantized_tensor.h>

namespace etna::nn {

/// y = x · Wᵀ + bias with a weight in a block format. Nothing in it is trained; gradients pass through to x.
class QuantizedLinear : public UnaryModule {
 public:
  /// @param weight [out, in] @param bias [out] or undefined @throws ShapeError
  explicit QuantizedLinear(const QuantizedTensor& weight, const Tensor& bias = {});
  /// A layer rounded to a format. @param importance as in quantize()
  QuantizedLinear(const Linear& layer, const quant::BlockFormat& format, const Tensor& importance = {});
  /// @param x [..., in] @return [..., out]
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  QuantizedTensor weight() const { return {format, {out, in}, blocks}; }

  const quant::BlockFormat& format;
  const std::int64_t out, in;
  Tensor blocks;  ///< u8, a buffer
  Tensor bias;    ///< [out] or undefined, a buffer

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
