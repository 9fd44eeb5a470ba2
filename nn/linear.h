#pragma once

#include <etna/nn/module.h>
#include <etna/tensor/quant/quantized_tensor.h>

namespace etna::nn {

/// y = x · weightᵀ + bias.
/// weight [out, in] and bias [out] are initialized uniform in ±1/√in (He et al. 2015, with PyTorch's gain).
class Linear : public UnaryModule {
 public:
  Linear(std::int64_t in, std::int64_t out, bool bias = true);
  /// @param x [..., in] @return [..., out]
  Tensor forward(const Tensor& x) const override;

  std::string extra_repr() const override;

  Tensor weight, bias;  ///< bias is undefined if left out

 protected:
  std::unique_ptr<Module> another() const override;
};

/// y[o] = a · weight[o] · bᵀ + bias[o]. weight [out, in1, in2] and bias [out] start uniform in ±1/√in1.
class Bilinear : public Module {
 public:
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, bool bias = true);
  /// @param a [..., in1] @param b [..., in2], with the same leading sizes @return [..., out]
  Tensor forward(const Tensor& a, const Tensor& b) const;
  Tensor operator()(const Tensor& a, const Tensor& b) const;
  std::string extra_repr() const override;

  Tensor weight, bias;  ///< bias is undefined if left out

 protected:
  std::unique_ptr<Module> another() const override;
};

/// w2(silu(w1(x)) · w3(x)) (Shazeer 2020), with the names of Llama's checkpoints.
class SwiGLU : public UnaryModule {
 public:
  SwiGLU(std::int64_t dim, std::int64_t hidden, bool bias = false);
  /// @param x [..., dim] @return [..., dim]
  Tensor forward(const Tensor& x) const override;

  Linear w1;  ///< gate
  Linear w2;  ///< down
  Linear w3;  ///< up

 protected:
  std::unique_ptr<Module> another() const override;
};

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
