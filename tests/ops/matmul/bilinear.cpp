#include <conformance/samples.h>
#include <etna/tensor/ops.h>

namespace etna::conformance {

std::vector<Sample> samples_in_bilinear() {
  auto with_bias = [](const TensorList& in) { return bilinear(in[0], in[1], in[2], in[3]); };
  return {Sample("bilinear", "plain").in({2, 3, 4}).in({2, 3, 5}).in({2, 4, 5}).in({2}).composed().calls(with_bias),
          Sample("bilinear", "one row").in({3}).in({2}).in({5, 3, 2}).composed().calls([](const TensorList& in) {
            return bilinear(in[0], in[1], in[2]);
          }),
          Sample("bilinear", "no rows").in({0, 3}).in({0, 2}).in({4, 3, 2}).in({4}).composed().calls(with_bias)};
}

}  // namespace etna::conformance
