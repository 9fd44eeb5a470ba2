#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <etna/tensor/quant/block_format.h>
#include <etna/tensor/tensor.h>

namespace etna {

/// Weights in a block format on a device. A shared handle to immutable values without a gradient. Unquantized formats
/// (F32, F16, BF16) are supported, too, so that weights and activations may differ in precision.
class QuantizedTensor {
 public:
  QuantizedTensor() = default;
  /// @param shape its last dimension is a multiple of the format's block
  /// @param blocks u8, contiguous, [storage_bytes(format, number of elements)]
  /// @throws ShapeError, DtypeError
  QuantizedTensor(const quant::BlockFormat& format, Shape shape, Tensor blocks);
  /// A floating tensor as an unquantized format, without a copy if it is contiguous. @throws DtypeError for f64 and
  /// integers
  static QuantizedTensor unquantized(const Tensor& x);

  bool defined() const { return format_ != nullptr; }
  const quant::BlockFormat& format() const { return *format_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size(std::int64_t dim) const;
  std::int64_t numel() const { return etna::numel(shape_); }
  std::size_t bytes() const { return static_cast<std::size_t>(blocks_.numel()); }
  Device device() const { return blocks_.device(); }
  const Tensor& blocks() const { return blocks_; }
  QuantizedTensor to(Device device) const;

 private:
  const quant::BlockFormat* format_ = nullptr;
  Shape shape_;
  Tensor blocks_;
};

/// Quantizes a floating tensor with quant::quantize(), on the CPU. The result is on x's device.
/// @param importance [x.size(-1)] factors of the squared error of each column, or undefined
/// @throws FormatError for NaN and infinities; ShapeError
QuantizedTensor quantize(const Tensor& x, const quant::BlockFormat& format, const Tensor& importance = {});
/// Per-channel quantization: one scale (and zero point) for each row of x, for integer formats: INT8_64, INT4_ZP_128
/// ... All blocks of a row repeat them, so the result is used like any other in the format.
/// @throws as quantize(); FormatError for formats whose blocks have more than a scale (and zero point) and quants
QuantizedTensor quantize_per_channel(const Tensor& x, const quant::BlockFormat& format, const Tensor& importance = {});
/// The decoded values, in f32 bit-identical to quant::dequantize(). @param dtype floating
Tensor dequantize(const QuantizedTensor& x, DType dtype = f32);

struct QuantizedLinearOptions {
  Tensor bias = {};                 ///< [N], of all weights in order
  std::optional<DType> dtype = {};  ///< of the result; x's by default
};

/// x · [w₀; w₁; ...]ᵀ for up to three weights [Nᵢ, K] in any formats, which are dequantized inside the kernel.
/// Activations that are multiplied with integer quants are quantized to 8 bits in blocks: on the CPU always, on a GPU
/// for few rows if the device has integer dot products. Fused with neighbouring ops: an rms_norm before it, other
/// matmuls with the same activations, a gated activation, a residual (docs/fusion.md). Differentiable in x and the
/// bias.
/// @param x [..., K] floating @return [..., N], N = ΣNᵢ
/// @throws ShapeError, DtypeError
Tensor quantized_linear(const Tensor& x, std::span<const QuantizedTensor> weights,
                        const QuantizedLinearOptions& options = {});
Tensor quantized_linear(const Tensor& x, const QuantizedTensor& weight, const QuantizedLinearOptions& options = {});

/// Gathers rows of a quantized table. @param indices i64 or i32 of any shape @param table [V, D]
/// @return [indices..., D] @throws IndexError, ShapeError, DtypeError
Tensor quantized_embedding(const Tensor& indices, const QuantizedTensor& table, DType dtype = f32);

}  // namespace etna
