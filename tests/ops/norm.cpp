#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_norm() {
  std::vector<Sample> all;
  auto layer = [](const TensorList& in) { return layer_norm(in[0], in[1], in[2]); };
  auto rms = [](const TensorList& in) { return rms_norm(in[0], in[1]); };
  auto sample = [&](const char* name, Shape shape) {
    Shape row = {shape.back()};
    all.push_back(Sample("layer_norm", name).in(shape).in(row).in(row).calls(layer).covers({"layer_norm_backward"}));
    all.push_back(Sample("rms_norm", name).in(shape).in(row).calls(rms).covers({"rms_norm_backward"}));
  };
  sample("rows", {5, 7});
  sample("one row", {11});
  sample("three dimensions", {2, 3, 5});
  sample("many rows", {257, 19});
  sample("held", {11, 521});
  sample("long rows", {3, 4507});
  sample("no rows", {0, 5});
  sample("no columns", {3, 0});
  all.push_back(Sample("layer_norm", "plain").in({5, 7}).none().none().calls(layer).covers({"layer_norm_backward"}));
  all.push_back(Sample("layer_norm", "weight").in({5, 7}).in({7}).none().calls(layer).covers({"layer_norm_backward"}));
  all.push_back(Sample("layer_norm", "bias").in({5, 7}).none().in({7}).calls(layer).covers({"layer_norm_backward"}));
  all.push_back(Sample("layer_norm", "f32 parameters")
                    .in({5, 7})
                    .in({7})
                    .as(f32)
                    .in({7})
                    .as(f32)
                    .calls(layer)
                    .in_dtypes({f32, f16, bf16})
                    .gradients(Gradients::compared)
                    .covers({"layer_norm_backward"}));
  all.push_back(Sample("rms_norm", "plain").in({5, 7}).none().calls(rms).covers({"rms_norm_backward"}));
  return all;
}

}  // namespace etna::conformance
