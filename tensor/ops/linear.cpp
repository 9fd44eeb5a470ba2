#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/product/product.h>

namespace etna {
namespace {

std::vector<OutputSpec> infer(const OpCall& call) {
  const Tensor &x = call.in[0], &weight = call.in[1], &bias = call.in[2];
  for (const Tensor& t : call.in) {
    if (!t.defined()) continue;
    if (!is_floating(t.dtype())) {
      throw DtypeError(fmt::format("linear: an input {} holds {}, all are f64, f32, f16 or bf16; call .to(f32) first",
                                   str(t.shape()), name(t.dtype())));
    }
    if (t.dtype() != x.dtype()) {
      throw DtypeError(fmt::format("linear: x holds {}, another input {}; bring all to one dtype", name(x.dtype()),
                                   name(t.dtype())));
    }
  }
  if (weight.dim() != 2) {
    throw ShapeError(fmt::format("linear: the weight {} has {} dimensions, it must be [out, in]", str(weight.shape()),
                                 weight.dim()));
  }
  if (x.dim() == 0 || x.size(-1) != weight.size(1)) {
    bool transposed_fits = x.dim() > 0 && x.size(-1) == weight.size(0);
    throw ShapeError(fmt::format("linear: x {} does not fit the weight {}, which is [out, in]: the last sizes differ{}",
                                 str(x.shape()), str(weight.shape()),
                                 transposed_fits ? "; did you mean weight.t()?" : ""));
  }
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != weight.size(0))) {
    throw ShapeError(fmt::format("linear: the bias {} does not fit the weight {}; it must be [{}]", str(bias.shape()),
                                 str(weight.shape()), weight.size(0)));
  }
  Shape shape = x.shape();
  shape.back() = weight.size(0);
  return {{shape, x.dtype()}};
}

/// x as a matrix or a batch of them: the row of a 1-d x made explicit.
Tensor rows_of(const Tensor& x) { return x.dim() == 1 ? x.unsqueeze(0) : x; }

void cpu(const OpCall& call, std::span<Tensor> out) {
  product::cpu(rows_of(call.in[0]), call.in[1].t(), call.in[2], out[0]);
}
bool vulkan(const OpCall& call, std::span<Tensor> out) {
  return product::vulkan(call, rows_of(call.in[0]), call.in[1].t(), call.in[2], out[0]);
}

TensorList reference(const OpCall& call) {
  Tensor y = matmul(call.in[0], call.in[1].t());
  return {call.in[2].defined() ? y + call.in[2] : y};
}

TensorList vjp(const VjpCall& call) {
  const Tensor &x = call.in[0], &weight = call.in[1], &g = call.grad[0];
  Tensor dx, dweight, dbias;
  if (call.needs[0]) dx = matmul(g, weight);
  if (call.needs[1]) {
    std::int64_t rows = numel(g.shape()) / std::max<std::int64_t>(1, weight.size(0));
    dweight = rows == 0 || weight.size(0) == 0
                  ? zeros_like(weight)
                  : matmul(g.reshape({rows, weight.size(0)}).t(), x.reshape({rows, weight.size(1)}));
  }
  if (call.needs[2]) dbias = sum_to(g, call.in[2].shape());
  return {dx, dweight, dbias};
}

const OpDef kLinear = {.name = "linear",
                       .infer = infer,
                       .cpu = cpu,
                       .vulkan = vulkan,
                       .reference = reference,
                       .vjp = vjp,
                       .saved = Saved::inputs};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  DType t = x.dtype();
  bool floating = is_floating(t) && is_floating(weight.dtype()) && (!bias.defined() || is_floating(bias.dtype()));
  if (!floating) return apply1(kLinear, {x, weight, bias});
  t = promote(t, weight.dtype());
  if (bias.defined()) t = promote(t, bias.dtype());
  return apply1(kLinear, {x.to(t), weight.to(t), bias.defined() ? bias.to(t) : bias});
}

std::span<const OpDef* const> ops_in_linear() {
  static const OpDef* const list[] = {&kLinear};
  return list;
}

}  // namespace etna
