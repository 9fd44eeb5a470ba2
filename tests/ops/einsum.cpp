#include <conformance/samples.h>
#include <etna/tensor/einsum.h>
#include <etna/tensor/ops.h>

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
  return {
      product("matrices", {3, 4}, {4, 2}),
      product("batch, prime sizes", {2, 1, 17, 37}, {3, 37, 19}),
      product("no inner elements", {2, 0}, {0, 3}),
      product("no rows", {0, 4}, {4, 3}),
      Sample("einsum", "three operands")
          .composed()
          .in({3, 4})
          .in({4, 2})
          .in({2, 5})
          .calls(of("ij,jk,kl->il"))
          .looser(4),
      Sample("einsum", "batch and ellipsis").composed().in({2, 3, 4}).in({1, 4, 3}).calls(of("...ij,...jk->...ik")),
      Sample("einsum", "diagonals").composed().in({3, 2, 3}).calls(of("iji->ji")),
      Sample("einsum", "elementwise").composed().in({2, 3}).in({3, 4}).calls(of("ij,jk->jki")),
      Sample("einsum", "no elements").composed().in({0, 3}).in({3, 2}).calls(of("ij,jk")),
      Sample("kron", "matrices").composed().in({2, 3}).in({2, 2}).calls([](const TensorList& in) {
        return kron(in[0], in[1]);
      }),
  };
}

}  // namespace etna::conformance
