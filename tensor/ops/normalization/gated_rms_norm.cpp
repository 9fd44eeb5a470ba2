#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/normalization/internal/norm.h>

// rms_norm(x) · silu(gate), as layers with a state norm what they read from it.
namespace etna {
namespace {

enum GatedNormInput { kGatedNormX, kGatedNormWeight, kGatedNormGate };

std::vector<OutputSpec> gated_rms_norm_infer(const OpCall& call) {
  const Tensor &x = call.in[kGatedNormX], &gate = call.in[kGatedNormGate];
  if (!is_floating(x.dtype()) || gate.dtype() != x.dtype())
    throw DtypeError(fmt::format("{}: x is {} and the gate {}; wanted one floating dtype", call.op.name,
                                 name(x.dtype()), name(gate.dtype())));
  if (x.dim() == 0 || gate.shape() != x.shape())
    throw ShapeError(fmt::format("{}: x is {} and the gate {}; wanted [..., D] twice", call.op.name, str(x.shape()),
                                 str(gate.shape())));
  normalization::check_parameter(call, x, call.in[kGatedNormWeight], "weight");
  return {{x.shape(), x.dtype()}};
}

TensorList gated_rms_norm_reference(const OpCall& call) {
  const Tensor &x = call.in[kGatedNormX], &weight = call.in[kGatedNormWeight];
  return {rms_norm(x, weight, call.as<normalization::NormAttrs>().eps).to(x.dtype()) * silu(call.in[kGatedNormGate])};
}

const OpDef kGatedRmsNorm = {.name = "gated_rms_norm",
                             .infer = gated_rms_norm_infer,
                             .gpu = normalization::gated_gpu,
                             .reference = gated_rms_norm_reference,
                             .saved = Saved::inputs};

}  // namespace

Tensor normalization::gated_rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& gate) {
  detail::require_defined("gated_rms_norm", x);
  return apply1(kGatedRmsNorm, {x, weight, gate}, Attrs::of(normalization::NormAttrs{.eps = eps, .rms = true}));
}

std::span<const OpDef* const> ops_in_gated_rms_norm() {
  static const OpDef* const list[] = {&kGatedRmsNorm};
  return list;
}

}  // namespace etna
