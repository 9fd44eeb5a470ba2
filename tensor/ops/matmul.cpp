#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/product/product.h>

namespace etna {
namespace {

/// Which operands came with one dimension; they reach the op as a row or a column.
struct Attributes {
  bool a_vector = false, b_vector = false;
};

/// The shape the caller passed.
std::string shape_in_words(const Tensor& x, bool vector) {
  return vector ? fmt::format("[{}]", x.numel()) : str(x.shape());
}

void check_operand(const Tensor& x, const char* which) {
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("matmul: {} holds {}, matrices are f64, f32, f16 or bf16; call .to(f32) first", which,
                                 name(x.dtype())));
  }
  if (x.dim() < 2) {
    throw ShapeError(
        fmt::format("matmul: {} {} has no dimensions; multiply by a number with *", which, str(x.shape())));
  }
}

std::vector<OutputSpec> infer(const OpCall& call) {
  const Tensor &a = call.in[0], &b = call.in[1];
  check_operand(a, "a");
  check_operand(b, "b");
  if (a.dtype() != b.dtype()) {
    throw DtypeError(
        fmt::format("matmul: a holds {}, b holds {}; bring both to one dtype", name(a.dtype()), name(b.dtype())));
  }
  auto attributes = call.as<Attributes>();
  if (a.size(-1) != b.size(-2)) {
    bool transposed_fits = !attributes.b_vector && a.size(-1) == b.size(-1);
    throw ShapeError(fmt::format("matmul: inner sizes differ: a {} · b {}{}", shape_in_words(a, attributes.a_vector),
                                 shape_in_words(b, attributes.b_vector),
                                 transposed_fits
                                     ? fmt::format("; did you mean b.transpose({}, {})?", b.dim() - 2, b.dim() - 1)
                                     : "; the last of a must equal the last but one of b"));
  }
  Shape a_batch = a.shape(), b_batch = b.shape();
  for (int i = 0; i < 2; ++i) a_batch.erase(a_batch.rank() - 1), b_batch.erase(b_batch.rank() - 1);
  Shape shape = broadcast(a_batch, b_batch, "matmul");
  if (shape.rank() > kMaxRank - 2) {
    throw ShapeError(
        fmt::format("matmul: a {} · b {} has more than {} dimensions", str(a.shape()), str(b.shape()), kMaxRank));
  }
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-1));
  return {{shape, a.dtype()}};
}

void cpu(const OpCall& call, std::span<Tensor> out) { product::cpu(call.in[0], call.in[1], {}, out[0]); }
bool vulkan(const OpCall& call, std::span<Tensor> out) {
  return product::vulkan(call, call.in[0], call.in[1], {}, out[0]);
}

bool one_matrix(const Tensor& x) {
  for (int i = 0; i < x.dim() - 2; ++i) {
    if (x.shape()[i] != 1) return false;
  }
  return true;
}

/// da = g · bᵀ, db = aᵀ · g, summed over what was broadcast. Where one matrix b served a whole batch, all rows of the batch are
/// one long product, which needs no sum behind it.
TensorList vjp(const VjpCall& call) {
  const Tensor &a = call.in[0], &b = call.in[1], &g = call.grad[0];
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

const OpDef kMatmul = {
    .name = "matmul", .infer = infer, .cpu = cpu, .vulkan = vulkan, .vjp = vjp, .saved = Saved::inputs};

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor x = a, y = b;
  if (is_floating(a.dtype()) && is_floating(b.dtype()) && a.dtype() != b.dtype()) {
    DType t = promote(a.dtype(), b.dtype());
    x = x.to(t), y = y.to(t);
  }
  Attributes attributes{a.dim() == 1, b.dim() == 1};
  if (attributes.a_vector) x = x.unsqueeze(0);
  if (attributes.b_vector) y = y.unsqueeze(1);
  Tensor product = apply1(kMatmul, {x, y}, Attrs::of(attributes));
  if (attributes.b_vector) product = product.squeeze(-1);
  if (attributes.a_vector) product = product.squeeze(attributes.b_vector ? -1 : -2);
  return product;
}

std::span<const OpDef* const> ops_in_matmul() {
  static const OpDef* const list[] = {&kMatmul};
  return list;
}

}  // namespace etna
