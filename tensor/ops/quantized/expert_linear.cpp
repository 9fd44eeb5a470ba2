#include <etna/tensor/ops/quantized/internal/expert_linear.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/quantized/internal/choice_order.h>
#include <etna/tensor/ops/quantized/internal/expert_products.h>

// expert_linear: matmuls with the weights of chosen experts.
namespace etna {
namespace {

using namespace quantized;

enum ExpertInput { kExpertX, kExpertBlocks, kExpertIndex };

struct ExpertAttrs {
  std::int64_t experts = 0, rows = 0, columns = 0;  ///< of each matrix
  std::uint8_t format = 0;
  bool transposed = false, summed = false;

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
  const std::int64_t in = a.transposed ? a.rows : a.columns, out = a.transposed ? a.columns : a.rows;
  const bool fits = expert.dim() == 2 && (x.dim() == 2 || (x.dim() == 3 && x.size(1) == expert.size(1))) &&
                    x.size(0) == expert.size(0) && x.size(-1) == in;
  if (!fits) {
    throw ShapeError(fmt::format("{}: x is {}, the choice of experts {}; wanted [R, {}] or [R, C, {}], and [R, C]",
                                 call.op.name, str(x.shape()), str(expert.shape()), in, in));
  }
  if (a.summed) return {{Shape{expert.size(0), out}, x.dtype()}};
  return {{Shape{expert.size(0), expert.size(1), out}, x.dtype()}};
}

TensorList expert_linear_reference(const OpCall& call) {
  const Tensor& x = call.in[kExpertX];
  const auto a = call.as<ExpertAttrs>();
  const Tensor each = products_by_choice(x, matrices_of(call), call.in[kExpertIndex], a.transposed);
  return {(a.summed ? each.sum(1) : each).to(x.dtype())};
}

/// y = x · W, of which some rows are decoded at a time. @param x [R, M] @param y [R, K], contiguous
void multiply_transposed(const Tensor& x, const ExpertMatrices& w, std::int64_t expert, Tensor y) {
  constexpr std::int64_t kDecoded = 1 << 16;  ///< elements, which stay in the cache
  const std::int64_t at_once = std::max<std::int64_t>(1, kDecoded / w.columns);
  const QuantizedTensor own = w.of(expert);
  const auto row_bytes = static_cast<std::int64_t>(quant::storage_bytes(*w.format, w.columns));
  for (std::int64_t from = 0; from < w.rows; from += at_once) {
    const std::int64_t to = std::min(w.rows, from + at_once);
    const QuantizedTensor rows(*w.format, {to - from, w.columns},
                               own.blocks().slice(0, from * row_bytes, to * row_bytes));
    gemm::cpu(x.slice(1, from, to), dequantize(rows, x.dtype()), {.residual = from == 0 ? Tensor() : y}, y);
  }
}

void expert_linear_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<ExpertAttrs>();
  const ExpertMatrices w = matrices_of(call);
  const Tensor& expert = call.in[kExpertIndex];
  const ChoiceOrder order = choice_order(call.op.name, expert, w.experts);
  if (out[0].numel() == 0) return;
  if (expert.numel() == 0 || call.in[kExpertX].size(-1) == 0) {
    out[0].zero_();
    return;
  }
  const Tensor given = rows_in_order(call.in[kExpertX], expert, order),
               x = a.transposed ? given.to(sum_dtype_of(given.dtype())) : given;
  const DType dtype = a.summed || a.transposed ? sum_dtype_of(x.dtype()) : x.dtype();
  const Tensor y = empty({expert.numel(), out[0].size(-1)}, {dtype});
  for_each_expert(order, [&](std::int64_t e, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    const Tensor own = x.slice(0, begin, end);
    if (a.transposed)
      multiply_transposed(own, w, e, y.slice(0, begin, end));
    else
      y.slice(0, begin, end).copy_(quantized_linear(own, w.of(e)));
  });
  write_by_choice(call, y.to(a.summed ? dtype : out[0].dtype()), expert, order, a.summed, out[0]);
}

bool expert_linear_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<ExpertAttrs>();
  const ExpertMatrices w = matrices_of(call);
  if (out[0].dtype() == f64 || !has_expert_kernel(w)) return false;
  if (out[0].numel() == 0) return true;
  const Tensor x = call.in[kExpertX].contiguous(), expert = call.in[kExpertIndex].contiguous();
  if (expert.numel() == 0 || x.size(-1) == 0) {
    out[0].zero_();
  } else if (a.transposed) {
    multiply_transposed_by_choice(call, x, w, expert, a.summed, out[0]);
  } else if (a.summed) {
    const Tensor each = empty({expert.size(0), expert.size(1), w.rows}, {f32, x.device()});
    multiply_by_choice(call, x, w, expert, each);
    out[0].copy_(each.sum(1));
  } else {
    multiply_by_choice(call, x, w, expert, out[0]);
  }
  return true;
}

TensorList expert_linear_vjp(const VjpCall& call) {
  const auto a = call.as<ExpertAttrs>();
  TensorList grads(call.in.size());
  if (!call.needs[kExpertX]) return grads;
  const QuantizedTensor weights(a.block_format(), {a.experts * a.rows, a.columns}, call.in[kExpertBlocks]);
  grads[kExpertX] = expert_linear(call.grad[0], weights, call.in[kExpertIndex], a.experts,
                                  {.transposed = !a.transposed, .summed = call.in[kExpertX].dim() == 2});
  return grads;
}

const OpDef kExpertLinear = {.name = "expert_linear",
                             .infer = expert_linear_infer,
                             .cpu = expert_linear_cpu,
                             .gpu = expert_linear_gpu,
                             .reference = expert_linear_reference,
                             .vjp = expert_linear_vjp,
                             .saved = Saved::inputs,
                             .saved_inputs = 1u << kExpertBlocks | 1u << kExpertIndex};

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

Tensor products_by_choice(const Tensor& x, const ExpertMatrices& w, const Tensor& expert, bool transposed) {
  const DType row = x.dtype() == f64 ? f64 : f32;
  const Tensor all = dequantized(w.blocks, {w.experts * w.rows, w.columns, place_of(*w.format), row});
  const Tensor chosen = index_select(all.reshape({w.experts, w.rows, w.columns}), 0, expert.flatten());
  const Tensor y = matmul(rows_by_choice(x, expert).to(row).unsqueeze(1), transposed ? chosen : chosen.transpose(1, 2));
  return y.reshape({expert.size(0), expert.size(1), y.size(-1)});
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

Tensor expert_linear(const Tensor& x, const QuantizedTensor& weights, const Tensor& expert, std::int64_t experts,
                     const ExpertMatmulOptions& options) {
  constexpr const char* kName = "expert_linear";
  detail::require_defined(kName, x);
  detail::require_defined(kName, expert);
  require_expert_matrices(kName, "the weights", weights, experts);
  const ExpertAttrs a{
      experts,       weights.size(0) / experts, weights.size(1), place_of(weights.format()), options.transposed,
      options.summed};
  return apply1(kExpertLinear, {x, weights.blocks(), expert}, Attrs::of(a));
}

std::span<const OpDef* const> ops_in_expert_linear() {
  static const OpDef* const list[] = {&kExpertLinear};
  return list;
}

}  // namespace etna
