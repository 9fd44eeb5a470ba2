#include <vector>

#include <fmt/format.h>

#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/quantized/internal/choice_order.h>
#include <etna/tensor/ops/quantized/internal/expert_linear.h>
#include <etna/tensor/ops/quantized/internal/expert_products.h>
#include <etna/tensor/ops/quantized/internal/experts.h>

// expert_feed_forward: the layers of a mixture of experts.
namespace etna {
namespace {

using namespace quantized;

/// kFeedResidual: added by a fused call alone, in the shape of its result.
enum FeedForwardInput { kFeedX, kGateBlocks, kUpBlocks, kDownBlocks, kFeedExpert, kFeedFactor, kFeedResidual };

struct ExpertFeedForwardAttrs {
  std::int64_t experts = 0, width = 0, hidden = 0;
  std::uint8_t gate = 0, up = 0, down = 0;  ///< formats
  Activation activation = Activation::silu;
};

template <typename Call>
ExpertFeedForward layer_of(const Call& call) {
  const auto a = call.template as<ExpertFeedForwardAttrs>();
  const auto matrices = [&](FeedForwardInput blocks, std::uint8_t format, std::int64_t rows, std::int64_t columns) {
    return ExpertMatrices{&quant::block_formats()[format], call.in[blocks], a.experts, rows, columns};
  };
  return {
      .x = call.in[kFeedX],
      .gate = matrices(kGateBlocks, a.gate, a.hidden, a.width),
      .up = matrices(kUpBlocks, a.up, a.hidden, a.width),
      .down = matrices(kDownBlocks, a.down, a.width, a.hidden),
      .expert = call.in[kFeedExpert],
      .factor = call.in[kFeedFactor],
      .activation = a.activation,
      .residual = call.in.size() > kFeedResidual ? call.in[kFeedResidual].reshape(call.in[kFeedX].shape()) : Tensor()};
}

std::vector<OutputSpec> expert_feed_forward_infer(const OpCall& call) {
  const auto a = call.as<ExpertFeedForwardAttrs>();
  const Tensor &x = call.in[kFeedX], &expert = call.in[kFeedExpert], &factor = call.in[kFeedFactor];
  indexing::check_index_dtype(call.op.name, expert);
  for (const Tensor* t : {&x, &factor}) {
    if (!is_floating(t->dtype()))
      throw DtypeError(fmt::format("{}: {} is {}; wanted a floating dtype", call.op.name, t == &x ? "x" : "a factor",
                                   name(t->dtype())));
  }
  if (x.dim() != 2 || x.size(1) != a.width || expert.dim() != 2 || expert.size(0) != x.size(0) ||
      factor.shape() != expert.shape()) {
    throw ShapeError(fmt::format("{}: x is {}, the choice of experts {}, factors {}; wanted [R, {}], [R, C] and [R, C]",
                                 call.op.name, str(x.shape()), str(expert.shape()), str(factor.shape()), a.width));
  }
  return {{call.in.size() > kFeedResidual ? call.in[kFeedResidual].shape() : x.shape(), x.dtype()}};
}

TensorList expert_feed_forward_reference(const OpCall& call) {
  const ExpertFeedForward f = layer_of(call);
  const Tensor h =
      activate(products_by_choice(f.x, f.gate, f.expert), f.activation) * products_by_choice(f.x, f.up, f.expert);
  const Tensor y = products_by_choice(h, f.down, f.expert);
  const Tensor sum = (y * f.factor.to(y.dtype()).unsqueeze(-1)).sum(1).to(f.x.dtype());
  if (!f.residual.defined()) return {sum};
  return {(sum + f.residual).to(f.x.dtype()).reshape(call.in[kFeedResidual].shape())};
}

/// The rows of each expert together: those of experts with few rows all at once, which a step of generation is.
void expert_feed_forward_cpu(const OpCall& call, std::span<Tensor> out) {
  const ExpertFeedForward f = layer_of(call);
  const ChoiceOrder order = choice_order(call.op.name, f.expert, f.gate.experts);
  if (out[0].numel() == 0) return;
  const std::int64_t rows = f.expert.size(0), chosen = f.expert.size(1);
  const DType row = f.x.dtype() == f64 ? f64 : f32;
  std::vector<RowsOfExpert> few, many;
  for_each_expert(order, [&](std::int64_t e, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    (end - begin < kManyRowsOfExpert && row == f32 ? few : many).push_back({e, begin, end - begin});
  });
  const Tensor x = rows_in_order(f.x.to(row), f.expert, order);
  Tensor sorted = empty({rows * chosen, f.down.rows}, {row});
  if (!feed_forward_cpu(f, few, x, sorted)) many.insert(many.end(), few.begin(), few.end());
  for (const RowsOfExpert& own : many) {
    const QuantizedTensor gate_and_up[] = {f.gate.of(own.expert), f.up.of(own.expert)};
    const ActivationRows given(x.slice(0, own.begin, own.begin + own.count));
    const Tensor h = quantized::linear(given, gate_and_up, {.gate = f.activation}).y;
    sorted.slice(0, own.begin, own.begin + own.count).copy_(quantized_linear(h, f.down.of(own.expert)));
  }
  const Tensor y = index_select(sorted, 0, order.places).reshape({rows, chosen, f.down.rows});
  const Tensor sum = (y * f.factor.to(row).unsqueeze(-1)).sum(1);
  out[0].copy_((f.residual.defined() ? sum + f.residual : sum).reshape(out[0].shape()));
}

bool expert_feed_forward_gpu(const OpCall& call, std::span<Tensor> out) {
  ExpertFeedForward f = layer_of(call);
  if (out[0].dtype() == f64 || f.factor.dtype() == f64) return false;
  for (const ExpertMatrices* w : {&f.gate, &f.up, &f.down})
    if (!has_expert_kernel(*w)) return false;
  if (out[0].numel() == 0) return true;
  if (f.gate.rows == 0 || f.expert.numel() == 0) {
    if (f.residual.defined())
      out[0].copy_(call.in[kFeedResidual]);
    else
      out[0].zero_();
    return true;
  }
  for (Tensor* t : {&f.x, &f.expert, &f.factor}) *t = t->contiguous();
  if (f.residual.defined()) f.residual = f.residual.contiguous();
  f.y = out[0].reshape(f.x.shape());
  feed_forward_gpu(call, f);
  return true;
}

/// With products grouped by expert. The factors' gradient needs no product with `down`: ⟨dy, down h⟩ = ⟨downᵀ dy, h⟩.
TensorList expert_feed_forward_vjp(const VjpCall& call) {
  const ExpertFeedForward f = layer_of(call);
  const DType row = f.x.dtype() == f64 ? f64 : f32;
  const Tensor x = f.x.to(row), dy = call.grad[0].to(row), factor = f.factor.to(row).unsqueeze(-1);
  const auto times = [&](const Tensor& rows, const ExpertMatrices& w, const ExpertMatmulOptions& options) {
    return expert_linear(rows, w.all(), f.expert, w.experts, options);
  };
  const Tensor g = times(x, f.gate, {}), u = times(x, f.up, {}), a = activate(g, f.activation);
  const Tensor dh = times(dy, f.down, {.transposed = true});
  TensorList grads(call.in.size());
  if (call.needs[kFeedFactor]) grads[kFeedFactor] = (dh * (a * u)).sum(-1).to(f.factor.dtype());
  if (call.needs[kFeedX]) {
    const Tensor scaled = dh * factor;
    const ExpertMatmulOptions back{.transposed = true, .summed = true};
    const Tensor dx =
        times(activation_backward(scaled * u, g, f.activation), f.gate, back) + times(scaled * a, f.up, back);
    grads[kFeedX] = dx.to(f.x.dtype());
  }
  return grads;
}

/// x + the layer's result, which may have another shape.
bool fuse_residual(fusion::Calls calls, fusion::Fused& fused) {
  const Tensor y = calls[0].out[0], sum = calls[1].out[0];
  const TensorList& added = calls[1].in;
  const auto is_result = [&](const Tensor& x) { return x.defined() && fusion::same_elements(y, x); };
  const bool first = is_result(added[0]), second = is_result(added[1]);
  const Tensor residual = first ? added[1] : added[0];
  if (first == second || !residual.defined() || residual.shape() != sum.shape() || sum.numel() != y.numel()) {
    fused.why = "the residual has another shape";
    return false;
  }
  if (sum.requires_grad() || sum.dtype() != y.dtype() || !is_floating(residual.dtype()) ||
      fusion::rounds_when_stored(y)) {
    fused.why = "the result has a gradient or is rounded when it is stored";
    return false;
  }
  fused.in = calls[0].in;
  fused.in.resize(kFeedResidual);
  fused.in.push_back(residual);
  fused.attrs = calls[0].attrs;
  fused.out = {sum};
  fused.later.push_back(calls[0]);
  return true;
}

constexpr FusionPattern kThenAdd[] = {{"expert_feed_forward ~add", fuse_residual}};

const OpDef kExpertFeedForward = {.name = "expert_feed_forward",
                                  .infer = expert_feed_forward_infer,
                                  .cpu = expert_feed_forward_cpu,
                                  .gpu = expert_feed_forward_gpu,
                                  .reference = expert_feed_forward_reference,
                                  .vjp = expert_feed_forward_vjp,
                                  .saved = Saved::inputs,
                                  .replaces = kThenAdd};

}  // namespace

Tensor expert_feed_forward(const Tensor& x, const QuantizedTensor& gate, const QuantizedTensor& up,
                           const QuantizedTensor& down, const ExpertChoice& choice, Activation activation,
                           std::int64_t experts) {
  constexpr const char* kName = "expert_feed_forward";
  for (const Tensor* t : {&x, &choice.expert, &choice.factor}) detail::require_defined(kName, *t);
  require_expert_matrices(kName, "the gates", gate, experts);
  require_expert_matrices(kName, "the up projections", up, experts);
  require_expert_matrices(kName, "the down projections", down, experts);
  const std::int64_t hidden = gate.size(0) / experts, width = gate.size(1);
  if (up.shape() != gate.shape() || down.shape() != Shape{experts * width, hidden}) {
    throw ShapeError(
        fmt::format("{}: the gates are {}, the up projections {}, the down projections {}; wanted {} and "
                    "[{}, {}] for {} experts",
                    kName, str(gate.shape()), str(up.shape()), str(down.shape()), str(gate.shape()), experts * width,
                    hidden, experts));
  }
  const ExpertFeedForwardAttrs a{
      experts, width, hidden, place_of(gate.format()), place_of(up.format()), place_of(down.format()), activation};
  return apply1(kExpertFeedForward, {x, gate.blocks(), up.blocks(), down.blocks(), choice.expert, choice.factor},
                Attrs::of(a));
}

std::span<const OpDef* const> ops_in_expert_feed_forward() {
  static const OpDef* const list[] = {&kExpertFeedForward};
  return list;
}

}  // namespace etna
