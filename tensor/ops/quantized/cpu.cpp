#include <vector>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>
#include <etna/tensor/ops/rows/internal/rows.h>

namespace etna::quantized {
namespace {

/// Decodes single rows of an embedding table in a block format.
class EmbeddingRows {
 public:
  EmbeddingRows(const quant::BlockFormat& format, const Tensor& blocks, std::int64_t columns)
      : format_(format),
        blocks_(reinterpret_cast<const std::byte*>(blocks.host<std::uint8_t>())),
        columns_(columns),
        bytes_(static_cast<std::size_t>(columns / format.elements) * format.bytes) {
    if (format.tail != 0) {
      const std::size_t all = static_cast<std::size_t>(blocks.numel()) - format.tail;
      tail_scale_ = *reinterpret_cast<const float*>(blocks_ + all);
    }
  }
  /// @param to must hold `columns` floats
  void decode(std::int64_t row, float* to) const {
    format_.decode(blocks_ + static_cast<std::size_t>(row) * bytes_, to, columns_ / format_.elements);
    if (format_.tail != 0) std::for_each(to, to + columns_, [&](float& value) { value *= tail_scale_; });
  }

 private:
  const quant::BlockFormat& format_;
  const std::byte* blocks_;
  std::int64_t columns_;
  std::size_t bytes_;
  float tail_scale_ = 1;
};

}  // namespace

void dequantize_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<TableAttrs>();
  if (out[0].numel() == 0) return;
  const EmbeddingRows table(quant::block_formats()[a.format], call.in[0], a.columns);
  cpu::parallel_for(a.rows, std::max<std::int64_t>(1, rows::kGrain / a.columns),
                    [&](std::int64_t begin, std::int64_t end) {
                      cpu::Scratch<float> row(static_cast<std::size_t>(a.columns));
                      for (std::int64_t r = begin; r < end; ++r) {
                        table.decode(r, row.data());
                        rows::write(out[0], r * a.columns, 1, a.columns, row.data());
                      }
                    });
}

void quantized_embedding_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<TableAttrs>();
  const Tensor index = indexing::checked_index(call.op.name, call.in[kIndices], a.rows);
  if (out[0].numel() == 0) return;
  const EmbeddingRows table(quant::block_formats()[a.format], call.in[kTable], a.columns);
  const std::int64_t* at = index.host<std::int64_t>();
  cpu::parallel_for(index.numel(), std::max<std::int64_t>(1, rows::kGrain / a.columns),
                    [&](std::int64_t begin, std::int64_t end) {
                      cpu::Scratch<float> row(static_cast<std::size_t>(a.columns));
                      for (std::int64_t i = begin; i < end; ++i) {
                        table.decode(at[i], row.data());
                        rows::write(out[0], i * a.columns, 1, a.columns, row.data());
                      }
                    });
}

}  // namespace etna::quantized
