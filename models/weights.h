#pragma once

#include <cstdint>
#include <string>

#include <etna/models/decoder_config.h>
#include <etna/tensor/quant/quantized_tensor.h>

namespace etna::models {

/// A matrix of a model: values that may be trained, or blocks that stay as they are. One of the two is defined.
struct Matrix {
  Tensor dense;
  QuantizedTensor blocks;
};

/// Where a decoder gets its weights from when it is made. Names are those of the decoder's parameters:
/// "blocks.0.attention.query.weight".
class Weights {
 public:
  virtual ~Weights() = default;
  /// @return [rows, columns] @throws FormatError if there is none, or of another shape
  virtual Matrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) = 0;
  /// The weight or bias of a norm, or the bias of a projection. @return [size], floating
  virtual Tensor vector(const std::string& name, std::int64_t size) = 0;
};

/// Weights of a model that is to be trained from nothing: matrices normal with standard deviation 0.02, those that
/// write to the residual stream perhaps less (DecoderConfig::scaled_start); norms 1, biases 0.
class FreshWeights : public Weights {
 public:
  explicit FreshWeights(const DecoderConfig& config);
  Matrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) override;
  Tensor vector(const std::string& name, std::int64_t size) override;

 private:
  double residual_divisor_;
};

}  // namespace etna::models
