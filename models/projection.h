#pragma once

#include <initializer_list>

#include <etna/models/weights.h>
#include <etna/nn/module.h>

namespace etna::models {

/// A linear layer of a decoder, y = x·Wᵀ + b: W is a parameter, or frozen in a block format; beside it there may be a
/// low-rank adapter (Hu et al. 2022), y + x·Aᵀ·Bᵀ · scale.
class Projection : public nn::UnaryModule {
 public:
  /// @param name of the layer in `weights`
  Projection(Weights& weights, const std::string& name, std::int64_t in, std::int64_t out, bool bias);
  /// @param x [..., in] @return [..., out]
  Tensor forward(const Tensor& x) const override { return project(x, false); }
  /// @param generates for few rows, without gradients: a dense weight takes part as one in a plain format, whose
  /// products are fused as those of blocks are
  Tensor operator()(const Tensor& x, bool generates = false) const;
  std::string extra_repr() const override;

  bool frozen() const { return !weight.defined(); }
  /// Whether a call is linear(x, weight, bias) and no more, so that a fused op may compute it with others.
  bool plain() const { return !frozen() && !has_adapter() && !hooked(); }
  /// The weight in its blocks, or the bits of the parameter.
  QuantizedTensor blocks() const;

  /// Replaces the weight by blocks of its shape, which are not trained. @throws ShapeError
  void freeze(const QuantizedTensor& blocks);

  /// Adds an adapter of a rank: A [rank, in] starts as a linear layer does, B [out, rank] at 0. It alone is trained
  /// from then on, and on the weight's device. @param alpha scale · rank @throws Error if there is one
  void add_adapter(std::int64_t rank, double alpha);
  /// Adds a given adapter, A [rank, in] and B [out, rank]. @throws ShapeError; Error if there is one
  void set_adapter(const Tensor& a, const Tensor& b, double scale);
  /// Adds B·A · scale to the weight and takes the adapter away. A frozen weight becomes a dense one.
  void merge_adapter();
  bool has_adapter() const { return lora_a.defined(); }

  const std::int64_t in, out;
  Tensor weight;          ///< [out, in]; undefined where it is frozen
  Tensor packed;          ///< the blocks, u8; undefined where it is not
  Tensor bias;            ///< [out] or undefined
  Tensor lora_a, lora_b;  ///< [rank, in], [out, rank]; undefined without an adapter
  double lora_scale = 0;

 private:
  Tensor project(const Tensor& x, bool generates) const;

  const quant::BlockFormat* format_ = nullptr;
};

/// Concatenates frozen weights of one format in GPU memory, and their biases, so that one GEMM serves all of them. Does
/// nothing elsewhere.
void concat_weights(std::initializer_list<Projection*> layers);

}  // namespace etna::models
