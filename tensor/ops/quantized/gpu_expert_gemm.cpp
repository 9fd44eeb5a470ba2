#include <algorithm>
#include <array>

#include <etna/device/internal/rounding.h>
#include <etna/shaders/cubins.h>
#include <etna/tensor/ops/matmul/gemm/internal/tensor_map.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>
#include <etna/tensor/ops/quantized/internal/expert_products.h>

// Products of experts on Hopper GPUs: shaders/sm90/expert_gemm.cuh.
namespace etna::quantized {
namespace {

/// A kernel, and how it reads a weight.
struct ExpertFormat {
  const gpu::CubinKernel* kernel;
  std::int64_t step;    ///< elements
  std::uint32_t order;  ///< in which k is read
  std::int64_t shared_bytes;
};

/// Elements of the weights of all experts that are decoded to bf16 at most; larger ones are decoded on the way, by
/// cooperative matrices.
constexpr std::int64_t kMostDecoded = std::int64_t{1} << 28;

constexpr std::int64_t kBoxBytes = kExpertTile * 128, kRowsOfRings = 8 * 16, kResultPitch = 132;

/// As in expert_gemm.cuh. @param pitch bytes of a row's step in shared memory
constexpr std::int64_t shared_bytes_of(std::int64_t pitch, std::int64_t stages_w, std::int64_t stages_x) {
  const std::int64_t rings = stages_x * kBoxBytes + kRowsOfRings * stages_w * pitch;
  return std::max(rings, kExpertTile * kResultPitch * 4) + stages_x * 16;
}

const ExpertFormat& bf16_format() {
  static const ExpertFormat format{&cubins::cubin_experts_bf16, 64, 1, shared_bytes_of(128, 3, 4)};
  return format;
}

/// The kernel that reads the weights as they are, or null.
const ExpertFormat* direct_format(const ExpertMatrices& w) {
  using namespace cubins;
  static const std::array<std::pair<std::string_view, ExpertFormat>, 3> formats{
      {{"Q4_K", {&cubin_experts_q4_k, 256, 2, shared_bytes_of(144, 3, 4)}},
       {"Q6_K", {&cubin_experts_q6_k, 256, 3, shared_bytes_of(224, 2, 4)}},
       {"Q8_0", {&cubin_experts_q8_0, 256, 2, shared_bytes_of(272, 2, 3)}}}};
  const ExpertFormat* found = w.format->name == "BF16" ? &bf16_format() : nullptr;
  for (const auto& [name, format] : formats)
    if (name == w.format->name) found = &format;
  if (found == nullptr || w.columns % found->step != 0) return nullptr;
  // Rows must be aligned to 16 bytes.
  const BlockMatrix m = block_matrix(*w.format, w.blocks, w.experts * w.rows, w.columns);
  return m.at.address % 16 == 0 && m.row_bytes % 16 == 0 ? found : nullptr;
}

const ExpertFormat& format_of(const ExpertMatrices& w) {
  const ExpertFormat* direct = direct_format(w);
  return direct != nullptr ? *direct : bf16_format();
}

/// The weights, decoded to bf16 if no kernel reads them as they are.
ExpertMatrices readable(const OpCall& call, const ExpertMatrices& w) {
  if (direct_format(w) != nullptr) return w;
  const std::int64_t rows = w.experts * w.rows;
  const Tensor decoded = empty({rows, w.columns}, {bf16, w.blocks.device()});
  const BlockMatrix m = block_matrix(*w.format, w.blocks, rows, w.columns);
  decode_rows(call, m, m.tail(), decoded);
  return {&quant::format_named("BF16"), QuantizedTensor::unquantized(decoded).blocks(), w.experts, w.rows, w.columns};
}

}  // namespace

bool has_expert_gemm(const ExpertFeedForward& f) {
  if (gpu::capabilities(f.x.device()).cubin != 90 || cubins::cubin_experts_bf16.cubin.empty()) return false;
  if (gemm::requested_variant().value_or(gemm::KernelVariant::cubin) != gemm::KernelVariant::cubin) return false;
  for (const ExpertMatrices* w : {&f.gate, &f.up, &f.down}) {
    if (w->format->name == "F32" || w->columns % 64 != 0 || w->rows % 8 != 0) return false;
    if (direct_format(*w) == nullptr && w->experts * w->rows * w->columns > kMostDecoded) return false;
  }
  return &format_of(f.gate) == &format_of(f.up);
}

std::uint32_t expert_order(const ExpertMatrices& weights) { return format_of(weights).order; }

void expert_gemm(const OpCall& call, const Tensor& x, const Tensor& tiles, const ExpertMatrices& weights,
                 const ExpertMatrices* second, Activation activation, const Tensor& y, std::uint32_t y_order) {
  const ExpertFormat& format = format_of(weights);
  const ExpertMatrices w = readable(call, weights), gated = second != nullptr ? readable(call, *second) : w;
  const auto matrix = [](const ExpertMatrices& m) {
    return block_matrix(*m.format, m.blocks, m.experts * m.rows, m.columns);
  };
  const BlockMatrix m = matrix(w);
  const std::int64_t blocks_n = ceil_div(w.rows, second != nullptr ? 64 : 128);
  const auto map = gemm::tensor_map({.at = gpu::pointer(x),
                                     .dtype = bf16,
                                     .columns = w.columns,
                                     .rows = x.size(0),
                                     .leading = w.columns,
                                     .box_rows = kExpertTile});
  // hopper::ExpertParameters
  Arguments arguments;
  const auto u32s = [&](auto... v) { (arguments.number(gpu::u32(v)), ...); };
  arguments.append(map.value());
  arguments.read(m.at);
  arguments.read(second != nullptr ? matrix(gated).at : Pointer());
  arguments.read(gpu::pointer(tiles));
  arguments.write(gpu::pointer(y));
  u32s(w.rows, m.row_bytes / 16, w.columns / format.step, blocks_n, activation, y_order);
  gpu::enqueue(y.device(), {.kernel = *format.kernel,
                            .op = call.op.name,
                            .arguments = arguments,
                            .groups = {gpu::u32(tiles.numel() * blocks_n), 1, 1},
                            .threads = 256,
                            .shared_bytes = gpu::u32(format.shared_bytes)});
}

}  // namespace etna::quantized
