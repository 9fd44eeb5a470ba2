#include <etna/tensor/ops/quantized/internal/gpu.h>

#include <algorithm>
#include <limits>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/indexing/internal/rows.h>

// dequantize and quantized_embedding on a GPU, and their common code with quantized_linear.
namespace etna::quantized {
namespace {

constexpr std::uint32_t kQuantizedGpuNone = 99, kI2_S = 36, kIntegerFormats = 256;
constexpr std::int64_t kQuantizedGpuChunk = 16, kQuantizedGpuThreads = 128;

/// The vector width in elements for stores to rows of `columns` elements from `at` on.
std::uint32_t store_width(const Pointer& at, std::int64_t columns, DType dtype) {
  const std::uint64_t size = item_size(dtype);
  for (std::uint64_t width : {8u, 4u, 2u}) {
    if (width * size > 16) continue;
    if (at.address % (width * size) == 0 && static_cast<std::uint64_t>(columns) % width == 0)
      return static_cast<std::uint32_t>(width);
  }
  return 1;
}

/// The format's number in quant_blocks.glsl: GGUF's number, or for integers in groups one that encodes their layout.
std::uint32_t shader_format(const quant::BlockFormat& format) {
  if (format.gguf_type != quant::kNoGgufType) return format.gguf_type;
  return kIntegerFormats + (format.name.starts_with("INT8") ? 1 : 0) +
         (format.name.find("_ZP_") != std::string_view::npos ? 2 : 0) + 4 * gpu::u32(format.elements / 32);
}

bool decode(const OpCall& call, const Tensor& blocks, const Tensor& index, const Tensor& y) {
  const auto a = call.as<TableAttrs>();
  const quant::BlockFormat& format = quant::block_formats()[a.format];
  if (y.dtype() == f64 || !has_gpu_kernel(format, a.columns)) return false;
  if (y.numel() == 0) return true;
  const BlockMatrix table = block_matrix(format, blocks, a.rows, a.columns);
  decode_rows(call, table, table.tail(), y, index);
  return true;
}

}  // namespace

BlockMatrix BlockMatrix::from(std::int64_t row) const {
  BlockMatrix rest = *this;
  rest.at += static_cast<std::uint64_t>(row) * row_bytes;
  rest.rows -= row;
  return rest;
}

Pointer BlockMatrix::tail() const {
  return format == kI2_S ? at + static_cast<std::uint64_t>(rows) * row_bytes : Pointer();
}

bool has_gpu_kernel(const quant::BlockFormat& format, std::int64_t columns) {
  const std::int64_t blocks = columns / format.elements;
  return (format.can_quantize() || format.elements > 1) &&
         blocks <= std::numeric_limits<std::uint32_t>::max() / static_cast<std::int64_t>(format.bytes);
}

BlockMatrix block_matrix(const quant::BlockFormat& format, const Tensor& blocks, std::int64_t rows,
                         std::int64_t columns) {
  BlockMatrix m;
  m.format = shader_format(format);
  m.row_bytes = gpu::u32(columns / format.elements * static_cast<std::int64_t>(format.bytes));
  m.rows = rows;
  m.columns = columns;
  m.at = gpu::pointer(blocks);
  // Unquantized formats are read sixteen bytes at a time if rows are aligned to that.
  const std::uint64_t block = format.elements == 1 ? 16 : format.bytes;
  m.aligned = indexing::unit({m.at.address, m.row_bytes, block});
  return m;
}

void decode_rows(const OpCall& call, const BlockMatrix& table, const Pointer& tail, const Tensor& y,
                 const Tensor& index) {
  const std::int64_t rows = index.defined() ? index.numel() : table.rows;
  if (table.columns == 0) return;
  const std::int64_t chunks = (table.columns + kQuantizedGpuChunk - 1) / kQuantizedGpuChunk;
  // Thread ids have 32 bits, so large tables take several dispatches.
  const std::int64_t most = std::max<std::int64_t>(1, (std::int64_t{1} << 31) / chunks);
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    const std::uint64_t y_bytes = static_cast<std::uint64_t>(table.columns) * item_size(y.dtype());
    const Pointer to = gpu::pointer(y) + static_cast<std::uint64_t>(first) * y_bytes;
    gpu::Kernel kernel(shaders::quantized_rows, call);
    kernel.on(y.device())
        .spec(table.format, table.aligned, gpu::u32(y.dtype()), store_width(to, table.columns, y.dtype()),
              index.defined() ? gpu::u32(index.dtype()) : kQuantizedGpuNone)
        .read(index.defined() ? table.at : table.from(first).at)
        .write(to);
    if (index.defined()) {
      kernel.read(gpu::pointer(index) + static_cast<std::uint64_t>(first) * item_size(index.dtype())).index_errors();
    } else {
      kernel.read(Pointer()).write(Pointer());
    }
    kernel.read(tail)
        .read(table.points(y.device()))
        .u32(count, table.columns, table.row_bytes)
        .u32(y_bytes, table.rows)
        .dispatch(gpu::grid(count * chunks, kQuantizedGpuThreads));
  }
}

bool dequantize_gpu(const OpCall& call, std::span<Tensor> out) { return decode(call, call.in[0], Tensor(), out[0]); }

bool quantized_embedding_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() > 0 && call.as<TableAttrs>().rows == 0)
    throw IndexError("quantized_embedding: the table is empty, so no index is valid");
  return decode(call, call.in[kTable], call.in[kIndices].contiguous(), out[0]);
}

}  // namespace etna::quantized
