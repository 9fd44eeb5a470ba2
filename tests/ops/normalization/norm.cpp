#include <tuple>

#include <etna/tensor/autocast.h>
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
  auto added = [&](const char* name, Shape shape, Shape delta, bool with_weight = true, bool with_bias = true) {
    Shape row = {shape.back()};
    auto parameter = [row](Sample& s, bool given) { given ? s.in(row) : s.none(); };
    Sample of_layer("add_layer_norm", name), of_rms("add_rms_norm", name);
    parameter(of_layer.in(shape).in(delta), with_weight), parameter(of_layer, with_bias);
    parameter(of_rms.in(shape).in(delta), with_weight);
    of_layer.looser_halves(2), of_rms.looser_halves(2);  // the sum is rounded, then its norm
    all.push_back(of_layer.covers({"layer_norm_backward"}).calls([](const TensorList& in) {
      auto [sum, normed] = add_layer_norm(in[0], in[1], in[2], in[3]);
      return TensorList{sum, normed};
    }));
    all.push_back(of_rms.covers({"rms_norm_backward"}).calls([](const TensorList& in) {
      auto [sum, normed] = add_rms_norm(in[0], in[1], in[2]);
      return TensorList{sum, normed};
    }));
  };
  added("rows", {5, 7}, {5, 7});
  added("repeated", {4, 3, 5}, {3, 5});
  added("repeated row", {3, 3, 5}, {5});
  added("many rows", {257, 19}, {257, 19});
  added("held", {11, 521}, {11, 521});
  added("long rows", {3, 4507}, {3, 4507});
  added("by fours", {9, 64}, {9, 64});
  added("by fours, repeated", {2, 5, 516}, {5, 516});
  added("no rows", {0, 5}, {0, 5});
  added("no columns", {3, 0}, {3, 0});
  added("plain", {5, 7}, {5, 7}, false, false);
  added("weight", {5, 7}, {5, 7}, true, false);
  added("bias", {5, 7}, {5, 7}, false, true);
  all.push_back(
      Sample("add_layer_norm", "the norm alone").in({5, 7}).in({5, 7}).in({7}).in({7}).calls([](const TensorList& in) {
        return add_layer_norm(in[0], in[1], in[2], in[3]).normed;
      }));
  all.push_back(
      Sample("add_layer_norm", "the sum alone").in({5, 7}).in({7}).none().none().calls([](const TensorList& in) {
        return add_layer_norm(in[0], in[1], in[2], in[3]).sum;
      }));
  sample("rows", {5, 7});
  sample("one row", {11});
  sample("three dimensions", {2, 3, 5});
  sample("many rows", {257, 19});
  sample("held", {11, 521});
  sample("long rows", {3, 4507});
  sample("by fours", {67, 12});
  sample("by fours, eight a thread", {5, 516});
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
  // Under autocast the sum stays f32; delta is narrow, and so is the norm.
  for (auto [name, rows, width] : {std::tuple("mixed", true, 37), std::tuple("mixed, delta repeated", false, 37),
                                   std::tuple("mixed, by fours", true, 40)}) {
    all.push_back(Sample("add_layer_norm", name)
                      .in({3, 5, width})
                      .as(f32)
                      .in(rows ? Shape{3, 5, width} : Shape{5, width})
                      .in({width})
                      .as(f32)
                      .in({width})
                      .as(f32)
                      .calls([](const TensorList& in) {
                        auto mixed = autocast(in[1].dtype() == f64 ? f32 : in[1].dtype());
                        AddedNorm y = add_layer_norm(in[0], in[1], in[2], in[3]);
                        return TensorList{y.sum, y.normed};
                      })
                      .in_dtypes({f16, bf16})
                      .gradients(Gradients::compared)
                      .covers({"layer_norm_backward"}));
  }
  all.push_back(Sample("rms_norm", "plain").in({5, 7}).none().calls(rms).covers({"rms_norm_backward"}));
  return all;
}

}  // namespace etna::conformance
