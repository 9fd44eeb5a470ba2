#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/int8.h>

namespace etna {
namespace {

enum Int8MatmulInput { kA, kB, kRowScale, kColumnScale };

struct Int8MatmulAttrs {
  DType out = DType::i32;
};

void check_scale(const OpCall& call, const Tensor& scale, const char* which, const Shape& each) {
  if (!scale.defined()) return;
  if (scale.dtype() != f32) {
    throw DtypeError(fmt::format("{}: the {} scale is {}, it must be f32", call.op.name, which, name(scale.dtype())));
  }
  if (scale.numel() != 1 && scale.shape() != each) {
    throw ShapeError(fmt::format("{}: the {} scale is {}; it must be {} or one number", call.op.name, which,
                                 str(scale.shape()), str(each)));
  }
}

std::vector<OutputSpec> int8_matmul_infer(const OpCall& call) {
  const Tensor &a = call.in[kA], &b = call.in[kB];
  for (const Tensor& x : {a, b}) {
    if (x.dtype() != i8) {
      throw DtypeError(fmt::format("{}: an operand {} holds {}, both must be i8; matmul takes floating ones",
                                   call.op.name, str(x.shape()), name(x.dtype())));
    }
    if (x.dim() < 2) {
      throw ShapeError(
          fmt::format("{}: an operand is {}, it must be a matrix or a batch of them", call.op.name, str(x.shape())));
    }
  }
  if (a.size(-1) != b.size(-2)) {
    throw ShapeError(
        fmt::format("{}: inner sizes differ: a {} · b {}; the last size of a must equal the second-to-last of b",
                    call.op.name, str(a.shape()), str(b.shape())));
  }
  if (a.size(-1) > gemm::kLongestInt8) {
    throw ShapeError(fmt::format("{}: sums of {} products may pass 2^31; k is at most {}; split k and add in i64",
                                 call.op.name, a.size(-1), gemm::kLongestInt8));
  }
  Shape shape = gemm::batch_of(call, a, b);
  shape.push_back(a.size(-2));
  check_scale(call, call.in[kRowScale], "row", shape);
  check_scale(call, call.in[kColumnScale], "column", {b.size(-1)});
  shape.push_back(b.size(-1));
  return {{shape, call.as<Int8MatmulAttrs>().out}};
}

void int8_matmul_cpu(const OpCall& call, std::span<Tensor> out) {
  gemm::int8_cpu(call.in[kA], call.in[kB], {call.in[kRowScale], call.in[kColumnScale]}, out[0]);
}
bool int8_matmul_gpu(const OpCall& call, std::span<Tensor> out) {
  return gemm::int8_gpu(call, call.in[kA], call.in[kB], {call.in[kRowScale], call.in[kColumnScale]}, out[0]);
}

/// Computes in f64, which represents every sum exactly.
TensorList int8_matmul_reference(const OpCall& call) {
  Tensor y = matmul(call.in[kA].to(f64), call.in[kB].to(f64));
  auto row_wise = [](const Tensor& scale) { return scale.numel() == 1 ? scale.reshape({}) : scale.unsqueeze(-1); };
  if (call.in[kRowScale].defined()) y = y * row_wise(call.in[kRowScale]).to(f64);
  if (call.in[kColumnScale].defined()) {
    const Tensor& scale = call.in[kColumnScale];
    y = y * (scale.numel() == 1 ? scale.reshape({}) : scale).to(f64);
  }
  return {y.to(call.as<Int8MatmulAttrs>().out)};
}

TensorList int8_matmul_vjp(const VjpCall& call) {
  throw Error(
      fmt::format("{} is not differentiable: integers have no gradients; train with matmul of the numbers they were "
                  "rounded from",
                  call.op.name));
}

const OpDef kInt8Matmul = {.name = "int8_matmul",
                           .infer = int8_matmul_infer,
                           .cpu = int8_matmul_cpu,
                           .gpu = int8_matmul_gpu,
                           .reference = int8_matmul_reference,
                           .vjp = int8_matmul_vjp};

}  // namespace

Tensor int8_matmul(const Tensor& a, const Tensor& b) {
  detail::require_defined("int8_matmul", a, b);
  return apply1(kInt8Matmul, {a, b, Tensor(), Tensor()}, Attrs::of(Int8MatmulAttrs{}));
}

Tensor int8_matmul(const Tensor& a, const Tensor& b, const Tensor& row_scale, const Tensor& column_scale, DType out) {
  detail::require_defined("int8_matmul", a, b);
  if (out != f32 && out != f16 && out != bf16) {
    throw DtypeError(fmt::format(
        "int8_matmul: scaled results are f32, f16 or bf16, not {}; without scales they are i32", name(out)));
  }
  return apply1(kInt8Matmul, {a, b, row_scale, column_scale}, Attrs::of(Int8MatmulAttrs{out}));
}

std::span<const OpDef* const> ops_in_int8_matmul() {
  static const OpDef* const list[] = {&kInt8Matmul};
  return list;
}

}  // namespace etna
