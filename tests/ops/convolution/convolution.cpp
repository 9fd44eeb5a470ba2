#include <etna/tensor/ops/convolution/convolution.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_convolution() {
  std::vector<Sample> all;
  auto add = [&](const char* op, const char* name, Shape x, Shape weight, Shape bias, auto call) -> Sample& {
    Sample sample(op, name);
    sample.in(x, -1, 1).in(weight, -1, 1);
    if (bias.empty())
      sample.none();
    else
      sample.in(bias, -1, 1);
    all.push_back(sample.calls(call));
    return all.back();
  };
  using In = const TensorList&;
  add("convolution", "3x3, padded", {2, 3, 5, 4}, {4, 3, 3, 3}, {4}, [](In in) {
    return conv2d(in[0], in[1], in[2], 1, 1);
  }).covers({"convolution_input", "convolution_weight"});
  add("convolution", "stride and dilation", {1, 2, 7, 6}, {3, 2, 2, 3}, {}, [](In in) {
    return conv2d(in[0], in[1], {}, {2, 1}, {1, 2}, {1, 2});
  });
  add("convolution", "1x1", {1, 3, 3, 2}, {2, 3, 1, 1}, {2}, [](In in) { return conv2d(in[0], in[1], in[2]); });
  add("convolution", "depthwise", {2, 3, 4, 4}, {3, 1, 3, 3}, {3},
      [](In in) { return conv2d(in[0], in[1], in[2], 2, 1, 1, 3); });
  add("convolution", "groups", {1, 4, 3, 3}, {6, 2, 2, 2}, {6},
      [](In in) { return conv2d(in[0], in[1], in[2], 1, 1, 1, 2); });
  add("convolution", "1-d, same", {2, 3, 7}, {2, 3, 4}, {2},
      [](In in) { return conv1d(in[0], in[1], in[2], 1, "same"); });
  add("convolution", "3-d, without batch", {2, 3, 3, 4}, {2, 2, 2, 2, 2}, {}, [](In in) {
    return conv3d(in[0], in[1], {}, 1, {1, 0, 1});
  });
  add("convolution", "no images", {0, 3, 5, 4}, {4, 3, 3, 3}, {4}, [](In in) { return conv2d(in[0], in[1], in[2]); });
  add("convolution", "as large as the stride", {1, 3, 4, 6}, {2, 3, 2, 2}, {2},
      [](In in) { return conv2d(in[0], in[1], in[2], 2); });
  add("convolution", "stride over even sizes", {1, 4, 4, 6}, {2, 4, 3, 3}, {2},
      [](In in) { return conv2d(in[0], in[1], in[2], 2, 1); });
  add("convolution", "1x1 with a stride", {1, 3, 4, 5}, {2, 3, 1, 1}, {2},
      [](In in) { return conv2d(in[0], in[1], in[2], 2); });
  add("convolution", "prime sizes", {3, 5, 11, 13}, {17, 5, 3, 3}, {17}, [](In in) {
    return conv2d(in[0], in[1], in[2], 1, 1);
  }).looser(2);
  add("convolution", "large groups", {1, 34, 3, 3}, {32, 17, 2, 2}, {32}, [](In in) {
    return conv2d(in[0], in[1], in[2], 1, 0, 1, 2);
  }).looser(2);
  add("convolution_input", "stride and output padding", {2, 3, 3, 2}, {3, 2, 3, 3}, {2},
      [](In in) { return conv_transpose2d(in[0], in[1], in[2], 2, 1, 1); });
  add("convolution_input", "stride 1", {1, 3, 3, 4}, {3, 4, 2, 2}, {4},
      [](In in) { return conv_transpose2d(in[0], in[1], in[2]); });
  add("convolution_input", "padded beyond the kernel", {1, 2, 6, 6}, {2, 3, 2, 2}, {},
      [](In in) { return conv_transpose2d(in[0], in[1], {}, 1, 2); });
  add("convolution_input", "groups, 1-d", {2, 4, 3}, {4, 2, 3}, {4},
      [](In in) { return conv_transpose1d(in[0], in[1], in[2], 2, 1, 0, 2, 2); });
  add("convolution_input", "3-d", {1, 2, 2, 2, 3}, {2, 2, 2, 1, 2}, {2}, [](In in) {
    return conv_transpose3d(in[0], in[1], in[2], {2, 1, 1});
  });
  add("convolution_input", "no images", {0, 3, 5, 4}, {3, 4, 3, 3}, {4},
      [](In in) { return conv_transpose2d(in[0], in[1], in[2]); });
  return all;
}

}  // namespace etna::conformance
