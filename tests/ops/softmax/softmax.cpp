#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_softmax() {
  std::vector<Sample> all;
  auto sample = [&](const char* name, Shape shape, int dim) {
    auto soft = [=](const TensorList& in) { return softmax(in[0], dim); };
    auto log_soft = [=](const TensorList& in) { return log_softmax(in[0], dim); };
    all.push_back(Sample("softmax", name).in(shape, -4, 4).calls(soft).covers({"softmax_backward"}));
    all.push_back(
        Sample("log_softmax", name).in(shape, -4, 4).calls(log_soft).covers({"log_softmax_backward"}).looser_halves(4));
  };
  sample("rows", {5, 7}, -1);
  sample("columns", {7, 5}, 0);
  sample("middle", {2, 5, 3}, 1);
  sample("tall columns", {2, 131, 3}, 1);
  sample("held", {3, 257}, 1);
  sample("long rows", {2, 5003}, 1);
  sample("0-d", {}, 0);
  sample("no rows", {0, 5}, 1);
  sample("no columns", {3, 0}, 1);
  return all;
}

}  // namespace etna::conformance
