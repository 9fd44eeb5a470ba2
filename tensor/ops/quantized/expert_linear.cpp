#include <etna/tensor/ops/quantized/internal/expert_linear.h>

#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>

// expert_linear: matmuls with the weights of chosen experts.
namespace etna {
namespace {

using namespace quantized;

enum ExpertInput { kExpertX, kExpertBlocks, kExpertIndex };

struct ExpertAttrs {
  std::int64_t experts = 0, rows = 0, columns = 0;  ///< of each matrix
  std::uint8_t format = 0;

  const quant::BlockFormat& block_format() const { return quant::block_formats()[format]; }
};

std::vector<OutputSpec> expert_linear_infer(const OpCall& call) {
  const auto a = call.as<ExpertAttrs>();
  const Tensor &x = call.in[kExpertX], &expert = call.in[kExpertIndex];
  indexing::check_index_dtype(call.op.name, expert);
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("{}: x is {}; wanted a floating dtype", call.op.name, name(x.dtype())));
  const bool fits = expert.dim() == 2 && (x.dim() == 2 || (x.dim() == 3 && x.size(1) == expert.size(1))) &&
                    x.size(0) == expert.size(0) && x.size(-1) == a.columns;
  if (!fits) {
    throw ShapeError(fmt::format("{}: x is {}, the choice of experts {}; wanted [R, {}] or [R, C, {}], and [R, C]",
                                 call.op.name, str(x.shape()), str(expert.shape()), a.columns, a.columns));
  }
  return {{Shape{expert.size(0), expert.size(1), a.rows}, x.dtype()}};
}

/// A row of x for each choice, [R · C, K].
Tensor rows_by_choice(const Tensor& x, const Tensor& expert) {
  const std::int64_t rows = expert.size(0), choices = expert.size(1), columns = x.size(-1);
  const Tensor each = x.dim() == 3 ? x : x.unsqueeze(1).expand({rows, choices, columns});
  return each.reshape({rows * choices, columns});
}

TensorList expert_linear_reference(const OpCall& call) {
  const auto a = call.as<ExpertAttrs>();
  const Tensor &x = call.in[kExpertX], &expert = call.in[kExpertIndex];
  const DType row = x.dtype() == f64 ? f64 : f32;
  const Tensor all = dequantized(call.in[kExpertBlocks], {a.experts * a.rows, a.columns, a.format, row});
  const Tensor chosen = index_select(all.reshape({a.experts, a.rows, a.columns}), 0, expert.flatten());
  const Tensor y = matmul(rows_by_choice(x, expert).to(row).unsqueeze(1), chosen.transpose(1, 2));
  return {y.reshape({expert.size(0), expert.size(1), a.rows}).to(x.dtype())};
}

void expert_linear_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<ExpertAttrs>();
  const Tensor index = indexing::checked_index(call.op.name, call.in[kExpertIndex], a.experts);
  if (out[0].numel() == 0) return;
  const std::int64_t* expert = index.host<std::int64_t>();
  const Tensor x = rows_by_choice(call.in[kExpertX], call.in[kExpertIndex]);
  // The choices of each expert, in order.
  std::vector<std::vector<std::int64_t>> choices(static_cast<std::size_t>(a.experts));
  for (std::int64_t i = 0; i < index.numel(); ++i) choices[static_cast<std::size_t>(expert[i])].push_back(i);
  const quant::BlockFormat& format = a.block_format();
  const auto bytes = static_cast<std::int64_t>(quant::storage_bytes(format, a.rows * a.columns));
  Tensor y = out[0].reshape({index.numel(), a.rows});
  for (std::int64_t e = 0; e < a.experts; ++e) {
    const std::vector<std::int64_t>& own = choices[static_cast<std::size_t>(e)];
    if (own.empty()) continue;
    const QuantizedTensor weight(format, {a.rows, a.columns},
                                 call.in[kExpertBlocks].slice(0, e * bytes, (e + 1) * bytes));
    const Tensor places = from_vector(own);
    y.index_put_({Index(places)}, quantized_linear(index_select(x, 0, places), weight));
  }
}

bool expert_linear_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<ExpertAttrs>();
  if (out[0].dtype() == f64 || !has_gpu_kernel(a.block_format(), a.columns)) return false;
  if (out[0].numel() == 0 || a.columns == 0) {
    if (out[0].numel() > 0) out[0].zero_();
    return true;
  }
  constexpr std::int64_t kRows = 4;
  const Tensor x = call.in[kExpertX].contiguous(), expert = call.in[kExpertIndex].contiguous();
  const BlockMatrix w = block_matrix(a.block_format(), call.in[kExpertBlocks], a.experts * a.rows, a.columns);
  const std::uint64_t vector = 4 * item_size(x.dtype());
  const bool wide = a.columns % 4 == 0 && gpu::pointer(x).address % vector == 0;
  const std::int64_t groups = (a.rows + kRows - 1) / kRows, shared = x.dim() == 3 ? 1 : expert.size(1);
  gpu::Kernel(shaders::expert_linear, call)
      .on(out[0].device())
      .spec(w.format, w.aligned, gpu::u32(x.dtype()), wide ? 4u : 1u, gpu::u32(expert.dtype()))
      .read(x)
      .read(w.at)
      .read(expert)
      .index_errors()
      .write(out[0])
      .u32(expert.numel(), a.rows, a.columns, w.row_bytes, a.experts, shared)
      .dispatch(gpu::grid(expert.numel() * groups));
  return true;
}

const OpDef kExpertLinear = {.name = "expert_linear",
                             .infer = expert_linear_infer,
                             .cpu = expert_linear_cpu,
                             .gpu = expert_linear_gpu,
                             .reference = expert_linear_reference,
                             .saved = Saved::inputs};

}  // namespace

Tensor expert_linear(const Tensor& x, const QuantizedTensor& weights, const Tensor& expert, std::int64_t experts) {
  constexpr const char* kName = "expert_linear";
  detail::require_defined(kName, x);
  detail::require_defined(kName, expert);
  require_table(kName, "the weights", weights);
  if (experts < 1 || weights.size(0) % experts != 0) {
    throw ShapeError(fmt::format("{}: the weights are {}; their rows are not those of {} experts", kName,
                                 str(weights.shape()), experts));
  }
  if (weights.format().tail != 0)
    throw FormatError(
        fmt::format("{}: the weights are in {}, which has one scale for the matrices of all experts; "
                    "wanted another format",
                    kName, weights.format().name));
  const ExpertAttrs a{experts, weights.size(0) / experts, weights.size(1), place_of(weights.format())};
  return apply1(kExpertLinear, {x, weights.blocks(), expert}, Attrs::of(a));
}

std::span<const OpDef* const> ops_in_expert_linear() {
  static const OpDef* const list[] = {&kExpertLinear};
  return list;
}

}  // namespace etna
