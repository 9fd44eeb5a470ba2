#include <etna/tensor/quant/quantized_tensor.h>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna {

QuantizedTensor::QuantizedTensor(const quant::BlockFormat& format, Shape shape, Tensor blocks)
    : format_(&format), shape_(std::move(shape)), blocks_(std::move(blocks)) {
  if (!blocks_.defined() || blocks_.dtype() != u8 || blocks_.dim() != 1 || !blocks_.is_contiguous())
    throw DtypeError("QuantizedTensor: the blocks must be a contiguous, one-dimensional u8 tensor");
  const std::int64_t columns = shape_.rank() == 0 ? 1 : shape_[shape_.rank() - 1];
  if (columns % format.elements != 0) {
    throw ShapeError(fmt::format("QuantizedTensor: {} has blocks of {} elements; {} has rows of {}", format.name,
                                 format.elements, str(shape_), columns));
  }
  const auto bytes = static_cast<std::int64_t>(quant::storage_bytes(format, etna::numel(shape_)));
  if (blocks_.numel() != bytes) {
    throw ShapeError(fmt::format("QuantizedTensor: {} in {} takes {} bytes, got {}", str(shape_), format.name, bytes,
                                 blocks_.numel()));
  }
}

QuantizedTensor QuantizedTensor::unquantized(const Tensor& x) {
  const char* format = x.dtype() == f32 ? "F32" : x.dtype() == f16 ? "F16" : x.dtype() == bf16 ? "BF16" : nullptr;
  if (format == nullptr)
    throw DtypeError(fmt::format("QuantizedTensor::unquantized: got {}; wanted f32, f16 or bf16", name(x.dtype())));
  const Tensor dense = x.contiguous();
  const std::int64_t size = static_cast<std::int64_t>(item_size(x.dtype()));
  return {quant::format_named(format), x.shape(),
          detail::make_view(dense.storage(), dense.device(), u8, {dense.numel() * size}, {1}, dense.offset() * size)};
}

std::int64_t QuantizedTensor::size(std::int64_t dim) const {
  const std::int64_t rank = shape_.rank();
  if (dim < -rank || dim >= rank)
    throw ShapeError(fmt::format("QuantizedTensor::size: {} has no dimension {}", str(shape_), dim));
  return shape_[static_cast<int>(dim < 0 ? dim + rank : dim)];
}

QuantizedTensor QuantizedTensor::to(Device device) const {
  return device == this->device() ? *this : QuantizedTensor(*format_, shape_, blocks_.to(device));
}

namespace {

/// @param each whether each row has one scale
QuantizedTensor quantize_tensor(const char* op, const Tensor& x, const quant::BlockFormat& format,
                                const Tensor& importance, bool each) {
  if (!x.defined()) throw UndefinedTensor(op, 1);
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("{}: x is {}; wanted a floating dtype", op, name(x.dtype())));
  if (x.dim() == 0) throw ShapeError(fmt::format("{}: x has no dimensions; wanted rows of whole blocks", op));
  const std::int64_t columns = x.size(-1);
  if (columns % format.elements != 0) {
    throw ShapeError(
        fmt::format("{}: {} has blocks of {} elements; x is {}", op, format.name, format.elements, str(x.shape())));
  }
  const Tensor values = x.detach().to(kCPU, f32).contiguous();
  std::vector<float> factors;
  if (importance.defined()) factors = importance.to_vector<float>();
  Tensor blocks = empty({static_cast<std::int64_t>(quant::storage_bytes(format, x.numel()))}, u8);
  const std::span<std::byte> to(reinterpret_cast<std::byte*>(blocks.mutable_data<std::uint8_t>()),
                                static_cast<std::size_t>(blocks.numel()));
  if (each)
    quant::quantize_rows(format, values.data<float>(), to, columns == 0 ? 0 : x.numel() / columns, columns, factors);
  else
    quant::quantize(format, values.data<float>(), to, x.numel(), factors);
  return {format, x.shape(), blocks.to(x.device())};
}

}  // namespace

QuantizedTensor quantize(const Tensor& x, const quant::BlockFormat& format, const Tensor& importance) {
  return quantize_tensor("quantize", x, format, importance, false);
}

QuantizedTensor quantize_per_channel(const Tensor& x, const quant::BlockFormat& format, const Tensor& importance) {
  return quantize_tensor("quantize_per_channel", x, format, importance, true);
}

}  // namespace etna
