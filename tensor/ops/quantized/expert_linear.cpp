#include <etna/tensor/ops/quantized/internal/expert_linear.h>

#include <vector>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/quantized/internal/expert_products.h>

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

ExpertMatrices matrices_of(const OpCall& call) {
  const auto a = call.as<ExpertAttrs>();
  return {&a.block_format(), call.in[kExpertBlocks], a.experts, a.rows, a.columns};
}

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

TensorList expert_linear_reference(const OpCall& call) {
  const Tensor& x = call.in[kExpertX];
  return {products_by_choice(x, matrices_of(call), call.in[kExpertIndex]).to(x.dtype())};
}

void expert_linear_cpu(const OpCall& call, std::span<Tensor> out) {
  const ExpertMatrices w = matrices_of(call);
  const Tensor& expert = call.in[kExpertIndex];
  const auto choices = choices_of(call.op.name, expert, w.experts);
  if (out[0].numel() == 0) return;
  const Tensor x = rows_by_choice(call.in[kExpertX], expert);
  Tensor y = out[0].reshape({expert.numel(), w.rows});
  for (std::int64_t e = 0; e < w.experts; ++e) {
    const std::vector<std::int64_t>& own = choices[static_cast<std::size_t>(e)];
    if (own.empty()) continue;
    const Tensor places = from_vector(own);
    y.index_put_({Index(places)}, quantized_linear(index_select(x, 0, places), w.of(e)));
  }
}

bool expert_linear_gpu(const OpCall& call, std::span<Tensor> out) {
  const ExpertMatrices w = matrices_of(call);
  if (out[0].dtype() == f64 || !has_expert_kernel(w)) return false;
  if (out[0].numel() > 0 && w.columns == 0) out[0].zero_();
  if (out[0].numel() == 0 || w.columns == 0) return true;
  multiply_by_choice(call, call.in[kExpertX].contiguous(), w, call.in[kExpertIndex].contiguous(), out[0]);
  return true;
}

const OpDef kExpertLinear = {.name = "expert_linear",
                             .infer = expert_linear_infer,
                             .cpu = expert_linear_cpu,
                             .gpu = expert_linear_gpu,
                             .reference = expert_linear_reference,
                             .saved = Saved::inputs};

}  // namespace

namespace quantized {

QuantizedTensor ExpertMatrices::of(std::int64_t expert) const {
  const auto bytes = static_cast<std::int64_t>(quant::storage_bytes(*format, rows * columns));
  return QuantizedTensor(*format, {rows, columns}, blocks.slice(0, expert * bytes, (expert + 1) * bytes));
}

Tensor rows_by_choice(const Tensor& x, const Tensor& expert) {
  const std::int64_t rows = expert.size(0), choices = expert.size(1), columns = x.size(-1);
  const Tensor each = x.dim() == 3 ? x : x.unsqueeze(1).expand({rows, choices, columns});
  return each.reshape({rows * choices, columns});
}

Tensor products_by_choice(const Tensor& x, const ExpertMatrices& w, const Tensor& expert) {
  const DType row = x.dtype() == f64 ? f64 : f32;
  const Tensor all = dequantized(w.blocks, {w.experts * w.rows, w.columns, place_of(*w.format), row});
  const Tensor chosen = index_select(all.reshape({w.experts, w.rows, w.columns}), 0, expert.flatten());
  const Tensor y = matmul(rows_by_choice(x, expert).to(row).unsqueeze(1), chosen.transpose(1, 2));
  return y.reshape({expert.size(0), expert.size(1), w.rows});
}

std::vector<std::vector<std::int64_t>> choices_of(const char* op, const Tensor& expert, std::int64_t experts) {
  const Tensor index = indexing::checked_index(op, expert, experts);
  const std::int64_t* of = index.host<std::int64_t>();
  std::vector<std::vector<std::int64_t>> choices(static_cast<std::size_t>(experts));
  for (std::int64_t i = 0; i < index.numel(); ++i) choices[static_cast<std::size_t>(of[i])].push_back(i);
  return choices;
}

void require_expert_matrices(const char* op, const char* what, const QuantizedTensor& weights, std::int64_t experts) {
  require_table(op, what, weights);
  if (experts < 1 || weights.size(0) % experts != 0) {
    throw ShapeError(
        fmt::format("{}: {} are {}; their rows are not those of {} experts", op, what, str(weights.shape()), experts));
  }
  if (weights.format().tail != 0) {
    throw FormatError(
        fmt::format("{}: {} are in {}, which has one scale for the matrices of all experts; wanted "
                    "another format",
                    op, what, weights.format().name));
  }
}

}  // namespace quantized

Tensor expert_linear(const Tensor& x, const QuantizedTensor& weights, const Tensor& expert, std::int64_t experts) {
  constexpr const char* kName = "expert_linear";
  detail::require_defined(kName, x);
  detail::require_defined(kName, expert);
  require_expert_matrices(kName, "the weights", weights, experts);
  const ExpertAttrs a{experts, weights.size(0) / experts, weights.size(1), place_of(weights.format())};
  return apply1(kExpertLinear, {x, weights.blocks(), expert}, Attrs::of(a));
}

std::span<const OpDef* const> ops_in_expert_linear() {
  static const OpDef* const list[] = {&kExpertLinear};
  return list;
}

}  // namespace etna
