#include <etna/tensor/ops/quantized/internal/expert_matmul.h>

#include <vector>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/quantized/internal/choice_order.h>
#include <etna/tensor/ops/quantized/internal/expert_products.h>
#include <etna/tensor/ops/quantized/internal/grouped_products.h>

// expert_matmul and expert_weight_gradient: mixtures of experts that are trained.
namespace etna {
namespace {

using quantized::choice_order;
using quantized::ChoiceOrder;
using quantized::for_each_expert;
using quantized::GroupedProduct;
using quantized::rows_by_choice;
using quantized::rows_in_order;
using quantized::sum_dtype_of;

enum MatmulInput { kRows, kWeights, kChoice };
enum GradientInput { kLeft, kRight, kGradientChoice };

struct ExpertMatmulAttrs {
  std::int64_t experts = 0;
  bool transposed = false, summed = false;
};
struct ExpertWeightGradientAttrs {
  std::int64_t experts = 0;
};

/// [E, M, K]
Tensor matrices_of_experts(const Tensor& weights, std::int64_t experts) {
  return weights.reshape(
      {experts, weights.numel() == 0 ? weights.size(-2) / (weights.dim() == 3 ? 1 : experts) : -1, weights.size(-1)});
}

GroupedProduct product_of(const OpCall& call) {
  const auto a = call.as<ExpertMatmulAttrs>();
  return {call.in[kRows], matrices_of_experts(call.in[kWeights], a.experts), call.in[kChoice], a.transposed, a.summed};
}

/// Whether x [R, n] or [R, C, n] fits a choice [R, C].
bool fits_choice(const Tensor& x, const Tensor& expert) {
  return expert.dim() == 2 && (x.dim() == 2 || (x.dim() == 3 && x.size(1) == expert.size(1))) &&
         x.size(0) == expert.size(0);
}

void check_one_dtype(const OpCall& call, const Tensor& a, const Tensor& b) {
  if (!is_floating(a.dtype()) || a.dtype() != b.dtype()) {
    throw DtypeError(fmt::format("{}: the operands are {} and {}; wanted one floating dtype", call.op.name,
                                 name(a.dtype()), name(b.dtype())));
  }
}

std::vector<OutputSpec> expert_matmul_infer(const OpCall& call) {
  const auto a = call.as<ExpertMatmulAttrs>();
  const Tensor &x = call.in[kRows], &w = call.in[kWeights], &expert = call.in[kChoice];
  indexing::check_index_dtype(call.op.name, expert);
  check_one_dtype(call, x, w);
  const bool matrices = w.dim() == 3 ? w.size(0) == a.experts : w.dim() == 2 && w.size(0) % a.experts == 0;
  if (!matrices) {
    throw ShapeError(fmt::format("{}: the weights are {}; wanted [{} · M, K] or [{}, M, K], the matrices of {} experts",
                                 call.op.name, str(w.shape()), a.experts, a.experts, a.experts));
  }
  const std::int64_t rows = w.dim() == 3 ? w.size(1) : w.size(0) / a.experts, columns = w.size(-1),
                     in = a.transposed ? rows : columns, out = a.transposed ? columns : rows;
  if (!fits_choice(x, expert) || x.size(-1) != in) {
    throw ShapeError(fmt::format("{}: x is {}, the choice of experts {}; wanted [R, {}] or [R, C, {}], and [R, C]",
                                 call.op.name, str(x.shape()), str(expert.shape()), in, in));
  }
  if (a.summed) return {{Shape{x.size(0), out}, x.dtype()}};
  return {{Shape{x.size(0), expert.size(1), out}, x.dtype()}};
}

void expert_matmul_cpu(const OpCall& call, std::span<Tensor> out) {
  const GroupedProduct p = product_of(call);
  const ChoiceOrder order = choice_order(call.op.name, p.expert, p.weights.size(0));
  if (out[0].numel() == 0) return;
  if (p.expert.numel() == 0 || p.x.size(-1) == 0) {
    out[0].zero_();
    return;
  }
  const Tensor x = rows_in_order(p.x, p.expert, order);
  const std::int64_t columns = out[0].size(-1);
  const Tensor y = empty({p.expert.numel(), columns}, {p.summed ? sum_dtype_of(x.dtype()) : x.dtype()});
  for_each_expert(order, [&](std::int64_t e, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    const Tensor w = p.weights.select(0, e);
    Tensor own = y.slice(0, begin, end);
    gemm::cpu(x.slice(0, begin, end), p.transposed ? w : w.t(), {}, own);
  });
  quantized::write_by_choice(call, y, p.expert, order, p.summed, out[0]);
}

bool expert_matmul_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  const GroupedProduct p = product_of(call);
  if (p.expert.numel() == 0 || p.x.size(-1) == 0)
    out[0].zero_();
  else
    quantized::multiply_grouped(
        call, {p.x.contiguous(), p.weights.contiguous(), p.expert.contiguous(), p.transposed, p.summed}, out[0]);
  return true;
}

/// Each choice with a copy of its expert's matrix.
TensorList expert_matmul_reference(const OpCall& call) {
  const GroupedProduct p = product_of(call);
  const DType t = sum_dtype_of(p.x.dtype());
  const Tensor chosen = index_select(p.weights.to(t), 0, p.expert.flatten());
  const Tensor x = rows_by_choice(p.x, p.expert).to(t).unsqueeze(1);
  const Tensor y = matmul(x, p.transposed ? chosen : chosen.transpose(1, 2));
  const Tensor each = y.reshape({p.expert.size(0), p.expert.size(1), y.size(-1)});
  return {(p.summed ? each.sum(1) : each).to(p.x.dtype())};
}

TensorList expert_matmul_vjp(const VjpCall& call) {
  const auto a = call.as<ExpertMatmulAttrs>();
  const Tensor &x = call.in[kRows], &w = call.in[kWeights], &expert = call.in[kChoice], &g = call.grad[0];
  TensorList grads(call.in.size());
  if (call.needs[kWeights]) {
    const Tensor gradient = a.transposed ? expert_weight_gradient(x, g, expert, a.experts)
                                         : expert_weight_gradient(g, x, expert, a.experts);
    grads[kWeights] = gradient.reshape(w.shape());
  }
  if (call.needs[kRows])
    grads[kRows] =
        expert_matmul(g, w, expert, a.experts, {.transposed = !a.transposed, .summed = x.dim() == 2}).to(x.dtype());
  return grads;
}

std::vector<OutputSpec> expert_weight_gradient_infer(const OpCall& call) {
  const Tensor &a = call.in[kLeft], &b = call.in[kRight], &expert = call.in[kGradientChoice];
  indexing::check_index_dtype(call.op.name, expert);
  check_one_dtype(call, a, b);
  if (!fits_choice(a, expert) || !fits_choice(b, expert)) {
    throw ShapeError(
        fmt::format("{}: the operands are {} and {}, the choice of experts {}; wanted [R, M] or [R, C, M], "
                    "[R, K] or [R, C, K], and [R, C]",
                    call.op.name, str(a.shape()), str(b.shape()), str(expert.shape())));
  }
  return {{Shape{call.as<ExpertWeightGradientAttrs>().experts * a.size(-1), b.size(-1)}, sum_dtype_of(a.dtype())}};
}

void expert_weight_gradient_cpu(const OpCall& call, std::span<Tensor> out) {
  const std::int64_t experts = call.as<ExpertWeightGradientAttrs>().experts;
  const Tensor& expert = call.in[kGradientChoice];
  const ChoiceOrder order = choice_order(call.op.name, expert, experts);
  if (out[0].numel() == 0) return;
  const Tensor a = rows_in_order(call.in[kLeft], expert, order), b = rows_in_order(call.in[kRight], expert, order);
  const std::int64_t rows = a.size(1);
  for_each_expert(order, [&](std::int64_t e, std::int64_t begin, std::int64_t end) {
    Tensor own = out[0].slice(0, e * rows, (e + 1) * rows);
    if (begin == end)
      own.zero_();
    else
      gemm::cpu(a.slice(0, begin, end).t(), b.slice(0, begin, end), {}, own);
  });
}

bool expert_weight_gradient_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  const Tensor& expert = call.in[kGradientChoice];
  if (expert.numel() == 0)
    out[0].zero_();
  else
    quantized::grouped_weight_gradient(call, call.in[kLeft].contiguous(), call.in[kRight].contiguous(),
                                       expert.contiguous(), out[0]);
  return true;
}

/// A product of each choice's rows, added to its expert.
TensorList expert_weight_gradient_reference(const OpCall& call) {
  const Tensor& expert = call.in[kGradientChoice];
  const DType t = sum_dtype_of(call.in[kLeft].dtype());
  const Tensor a = rows_by_choice(call.in[kLeft], expert).to(t), b = rows_by_choice(call.in[kRight], expert).to(t);
  const std::int64_t experts = call.as<ExpertWeightGradientAttrs>().experts, rows = a.size(1), columns = b.size(1);
  const Tensor none = zeros({experts, rows, columns}, {t, a.device()});
  return {index_add(none, 0, expert.flatten(), a.unsqueeze(2) * b.unsqueeze(1)).reshape({experts * rows, columns})};
}

TensorList expert_weight_gradient_vjp(const VjpCall& call) {
  const Tensor &a = call.in[kLeft], &b = call.in[kRight], &expert = call.in[kGradientChoice], &g = call.grad[0];
  const std::int64_t experts = call.as<ExpertWeightGradientAttrs>().experts;
  TensorList grads(call.in.size());
  if (call.needs[kLeft]) grads[kLeft] = expert_matmul(b, g, expert, experts, {.summed = a.dim() == 2}).to(a.dtype());
  if (call.needs[kRight])
    grads[kRight] = expert_matmul(a, g, expert, experts, {.transposed = true, .summed = b.dim() == 2}).to(b.dtype());
  return grads;
}

const OpDef kExpertMatmul = {.name = "expert_matmul",
                             .infer = expert_matmul_infer,
                             .cpu = expert_matmul_cpu,
                             .gpu = expert_matmul_gpu,
                             .reference = expert_matmul_reference,
                             .vjp = expert_matmul_vjp,
                             .saved = Saved::inputs};

const OpDef kExpertWeightGradient = {.name = "expert_weight_gradient",
                                     .infer = expert_weight_gradient_infer,
                                     .cpu = expert_weight_gradient_cpu,
                                     .gpu = expert_weight_gradient_gpu,
                                     .reference = expert_weight_gradient_reference,
                                     .vjp = expert_weight_gradient_vjp,
                                     .saved = Saved::inputs};

void check_count(const char* op, std::int64_t experts) {
  if (experts < 1) throw ShapeError(fmt::format("{}: there are {} experts; wanted at least one", op, experts));
}

}  // namespace

Tensor expert_matmul(const Tensor& x, const Tensor& weights, const Tensor& expert, std::int64_t experts,
                     const ExpertMatmulOptions& options) {
  detail::require_defined("expert_matmul", x, weights, expert);
  check_count("expert_matmul", experts);
  TensorList in = {x, weights};
  detail::bring_to_one_dtype(in, 0);
  return apply1(kExpertMatmul, {in[0], in[1], expert},
                Attrs::of(ExpertMatmulAttrs{experts, options.transposed, options.summed}));
}

Tensor expert_weight_gradient(const Tensor& a, const Tensor& b, const Tensor& expert, std::int64_t experts) {
  detail::require_defined("expert_weight_gradient", a, b, expert);
  check_count("expert_weight_gradient", experts);
  TensorList in = {a, b};
  detail::bring_to_one_dtype(in, 0);
  return apply1(kExpertWeightGradient, {in[0], in[1], expert}, Attrs::of(ExpertWeightGradientAttrs{experts}));
}

std::span<const OpDef* const> ops_in_expert_matmul() {
  static const OpDef* const list[] = {&kExpertMatmul, &kExpertWeightGradient};
  return list;
}

}  // namespace etna
