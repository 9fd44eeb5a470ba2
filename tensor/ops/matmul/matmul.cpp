#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/activations/internal/table.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>
#include <etna/tensor/ops/matmul/gemm/internal/linear_layer.h>

namespace etna {
namespace {

/// Attributes of matmul; they record which operands had one dimension, and reach the op as a row or a column.
struct MatmulAttrs {
  bool a_vector = false, b_vector = false;
  bool widens = false;  ///< f16 and bf16 operands give f32
  Activation derivative = Activation::none;
};

/// The shape the caller passed.
std::string shape_in_words(const Tensor& x, bool vector) {
  return vector ? fmt::format("[{}]", x.numel()) : str(x.shape());
}

void matmul_check_operand(const OpCall& call, const Tensor& x, const char* which) {
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: {} holds {}, matrices are f64, f32, f16 or bf16; call .to(f32) first",
                                 call.op.name, which, name(x.dtype())));
  }
  if (x.dim() < 2) {
    throw ShapeError(
        fmt::format("{}: {} {} has no dimensions; multiply by a number with *", call.op.name, which, str(x.shape())));
  }
}

std::vector<OutputSpec> matmul_infer(const OpCall& call) {
  const Tensor &a = call.in[0], &b = call.in[1];
  matmul_check_operand(call, a, "a");
  matmul_check_operand(call, b, "b");
  if (a.dtype() != b.dtype()) {
    throw DtypeError(fmt::format("{}: a holds {}, b holds {}; bring both to one dtype", call.op.name, name(a.dtype()),
                                 name(b.dtype())));
  }
  auto attributes = call.as<MatmulAttrs>();
  if (a.size(-1) != b.size(-2)) {
    bool transposed_fits = !attributes.b_vector && a.size(-1) == b.size(-1);
    throw ShapeError(fmt::format("{}: inner sizes differ: a {} · b {}{}", call.op.name,
                                 shape_in_words(a, attributes.a_vector), shape_in_words(b, attributes.b_vector),
                                 transposed_fits
                                     ? fmt::format("; did you mean b.transpose({}, {})?", b.dim() - 2, b.dim() - 1)
                                     : "; the last size of a must equal the second-to-last of b"));
  }
  Shape shape = gemm::batch_of(call, a, b);
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-1));
  return {{shape, attributes.widens ? f32 : a.dtype()}};
}

void matmul_cpu(const OpCall& call, std::span<Tensor> out) { gemm::cpu(call.in[0], call.in[1], {}, out[0]); }
bool matmul_gpu(const OpCall& call, std::span<Tensor> out) {
  return gemm::on_gpu(call, call.in[0], call.in[1], {}, out[0]);
}

bool one_matrix(const Tensor& x) {
  for (int i = 0; i < x.dim() - 2; ++i) {
    if (x.shape()[i] != 1) return false;
  }
  return true;
}

/// da = g · bᵀ, db = aᵀ · g, summed over broadcast dimensions. If one matrix b served a whole batch, all rows of the
/// batch form one long gemm, which needs no sum afterwards.
TensorList matmul_vjp(const VjpCall& call) {
  const Tensor &a = call.in[0], &b = call.in[1];
  Tensor g = call.grad[0].to(a.dtype());
  Tensor da, db;
  if (call.needs[0]) da = sum_to(matmul(g, b.t()), a.shape());
  if (call.needs[1]) {
    if (one_matrix(b) && g.dim() > 2 && g.numel() > 0) {
      std::int64_t k = a.size(-1), n = g.size(-1), count = g.numel() / n;
      Shape whole = g.shape();
      whole[g.dim() - 1] = k;
      Tensor x = a.shape() == whole ? a : a.expand(whole);
      db = matmul(x.reshape({count, k}).t(), g.reshape({count, n})).reshape(b.shape());
    } else {
      db = sum_to(matmul(a.t(), g), b.shape());
    }
  }
  return {da, db};
}

const OpDef kMatmul = {.name = "matmul",
                       .infer = matmul_infer,
                       .cpu = matmul_cpu,
                       .gpu = matmul_gpu,
                       .vjp = matmul_vjp,
                       .saved = Saved::inputs};

std::vector<OutputSpec> matmul_derivative_infer(const OpCall& call) {
  std::vector<OutputSpec> specs = matmul_infer(call);
  const Tensor& at = call.in[2];
  if (at.shape() != specs[0].shape) {
    throw ShapeError(
        fmt::format("matmul_derivative: the derivative is taken at {}, a · b is {}; both must be of one shape",
                    str(at.shape()), str(specs[0].shape)));
  }
  if (!is_floating(at.dtype())) {
    throw DtypeError(
        fmt::format("matmul_derivative: the derivative is taken at {}, it must be floating", name(at.dtype())));
  }
  return specs;
}

gemm::Epilogue derivative_of(const OpCall& call) {
  return {.activation = call.as<MatmulAttrs>().derivative, .derivative_at = call.in[2]};
}
void matmul_derivative_cpu(const OpCall& call, std::span<Tensor> out) {
  gemm::cpu(call.in[0], call.in[1], derivative_of(call), out[0]);
}
bool matmul_derivative_gpu(const OpCall& call, std::span<Tensor> out) {
  return gemm::on_gpu(call, call.in[0], call.in[1], derivative_of(call), out[0]);
}
TensorList matmul_derivative_reference(const OpCall& call) {
  Tensor y = matmul(call.in[0], call.in[1]);
  return {activation_backward(y, call.in[2], call.as<MatmulAttrs>().derivative).to(y.dtype())};
}

/// Replaces a gemm and the gradient of the activation before it, if that gradient multiplies: the epilogue does it.
/// (relu's gradient selects, which differs if the incoming gradient is infinite.)
bool fuse_derivative(fusion::Calls calls, fusion::Fused& fused) {
  const fusion::Call &gemm = calls[0], &backward = calls[1];
  const Tensor &g = gemm.out[0], &at = backward.in[1];
  auto a = gemm.attrs.as<MatmulAttrs>();
  if (a.a_vector || a.b_vector || a.widens || !at.defined() || backward.in[0].impl() != g.impl() ||
      at.shape() != g.shape() || backward.out[0].dtype() != g.dtype() || fusion::rounds_when_stored(g) ||
      !fusion::dead(calls, 0)) {
    return false;
  }
  a.derivative = gemm::activation_of(*backward.op);
  fused.in = {gemm.in[0], gemm.in[1], at};
  fused.out = {backward.out[0]};
  fused.attrs = Attrs::of(a);
  return true;
}
constexpr FusionPattern kThenDerivative[] = {{activations::kGemmThenGradient, fuse_derivative}};

const OpDef kMatmulDerivative = {.name = "matmul_derivative",
                                 .infer = matmul_derivative_infer,
                                 .cpu = matmul_derivative_cpu,
                                 .gpu = matmul_derivative_gpu,
                                 .reference = matmul_derivative_reference,
                                 .replaces = kThenDerivative};

/// Promotes both operands to their common dtype.
void promote_both(Tensor& a, Tensor& b) {
  if (!is_floating(a.dtype()) || !is_floating(b.dtype()) || a.dtype() == b.dtype()) return;
  DType t = promote(a.dtype(), b.dtype());
  a = a.to(t), b = b.to(t);
}

Tensor multiply(Tensor a, Tensor b, bool widens) {
  a = detail::lowered(a), b = detail::lowered(b);
  promote_both(a, b);
  MatmulAttrs attributes{a.dim() == 1, b.dim() == 1, widens};
  if (attributes.a_vector) a = a.unsqueeze(0);
  if (attributes.b_vector) b = b.unsqueeze(1);
  const bool integers = is_integral(a.dtype()) && is_integral(b.dtype()) && a.dim() > 1 && b.dim() > 1;
  Tensor y = integers ? detail::integer_matmul(a, b) : apply1(kMatmul, {a, b}, Attrs::of(attributes));
  if (attributes.b_vector) y = y.squeeze(-1);
  if (attributes.a_vector) y = y.squeeze(attributes.b_vector ? -1 : -2);
  return y;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  detail::require_defined("matmul", a, b);
  return multiply(a, b, false);
}

Tensor matmul(const Tensor& a, const Tensor& b, DType out) {
  detail::require_defined("matmul", a, b);
  Autocast as_given(f32);  // a caller who names the result's dtype has chosen the dtypes
  DType t = is_floating(a.dtype()) && is_floating(b.dtype()) ? promote(a.dtype(), b.dtype()) : a.dtype();
  bool widens = out == f32 && item_size(t) == 2;
  if (!widens && out != t) {
    throw DtypeError(fmt::format("matmul: {} and {} give {}, not {}; only f16 and bf16 may give another, f32",
                                 name(a.dtype()), name(b.dtype()), name(t), name(out)));
  }
  return multiply(a, b, widens);
}

Tensor matmul_derivative(const Tensor& a, const Tensor& b, const Tensor& at, Activation activation) {
  Tensor x = a, y = b;
  promote_both(x, y);
  MatmulAttrs attributes;
  attributes.derivative = activation;
  return apply1(kMatmulDerivative, {x, y, at}, Attrs::of(attributes));
}

std::span<const OpDef* const> ops_in_matmul() {
  static const OpDef* const list[] = {&kMatmul, &kMatmulDerivative};
  return list;
}

}  // namespace etna
