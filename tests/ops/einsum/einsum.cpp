#include <conformance/samples.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>

namespace etna::conformance {

std::vector<Sample> samples_in_einsum() {
  const auto of = [](const char* equation) { return [=](const TensorList& in) { return einsum(equation, in); }; };
  const auto product = [](const char* name, Shape a, Shape b) {
    return Sample("integer_matmul", name)
        .in(a, -9, 9)
        .in(b, -9, 9)
        .in_dtypes(kIntegers)
        .gradients(Gradients::none)
        .calls([](const TensorList& in) { return matmul(in[0], in[1]); });
  };
  const auto composed = [](const char* op, const char* name, std::vector<Shape> shapes, auto call) {
    Sample sample(op, name);
    for (const Shape& shape : shapes) sample.in(shape);
    return sample.composed().in_dtypes({f64, f32}).calls(call);
  };
  const auto kronecker = [](const TensorList& in) { return kron(in[0], in[1]); };
  return {
      product("matrices", {3, 4}, {4, 2}),
      product("batch, prime sizes", {2, 1, 17, 37}, {3, 37, 19}),
      product("no inner elements", {2, 0}, {0, 3}),
      product("no rows", {0, 4}, {4, 3}),
      composed("einsum", "three operands", {{3, 4}, {4, 2}, {2, 5}}, of("ij,jk,kl->il")).looser(4),
      composed("einsum", "batch and ellipsis", {{2, 3, 4}, {1, 4, 3}}, of("...ij,...jk->...ik")),
      composed("einsum", "diagonals", {{3, 2, 3}}, of("iji->ji")),
      composed("einsum", "no elements", {{0, 3}, {3, 2}}, of("ij,jk")),
      composed("kron", "matrices", {{2, 3}, {2, 2}}, kronecker),
      composed("kron", "no elements", {{2, 0}, {2, 2}}, kronecker),
  };
}

}  // namespace etna::conformance
