#include <conformance/samples.h>
#include <etna/tensor/ops.h>

namespace etna::conformance {

std::vector<Sample> samples_in_random() {
  auto drop = [](double p) {
    return [=](const TensorList& in) {
      manual_seed(7);
      return dropout(in[0], p);
    };
  };
  return {
      Sample("dropout", "a tenth").in({9, 11}).calls(drop(0.1)),
      Sample("dropout", "most").in({5, 7, 3}).calls(drop(0.9)),
      Sample("dropout", "all").in({13}).calls(drop(1)),
      Sample("dropout", "one number").in({}).calls(drop(0.5)),
      Sample("dropout", "nothing").in({0, 3}).calls(drop(0.5)),
      Sample("dropout", "prime").in({1031}).calls(drop(0.5)).gradients(Gradients::first),
  };
}

}  // namespace etna::conformance
