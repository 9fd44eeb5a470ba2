#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/rearrange/rearrange.h>
#include <torch/figures.h>

namespace etna {
namespace {

TEST(TorchRearranging, ValuesAndGradientsAgree) {
  const nlohmann::json all = figures::load("rearrange");
  for (Device device : figures::devices()) {
    SCOPED_TRACE(device.str());
    std::map<std::string, Tensor> in;
    for (const auto& [name, figure] : all["inputs"].items())
      in[name] = figures::tensor(figure, device).requires_grad_();
    const Tensor &x = in["x"], &m = in["m"], &v = in["v"], &w = in["w"];
    const Tensor counts = figures::tensor(all["counts"], device);
    const std::map<std::string, Tensor> results = {
        {"flip", flip(x, {0, 2})},
        {"fliplr", fliplr(m)},
        {"flipud", flipud(m)},
        {"roll", roll(x, {1, -6}, {0, 2})},
        {"roll_flat", roll(x, 7)},
        {"rot90", rot90(x, 1, {1, 2})},
        {"rot90_back", rot90(m, -1)},
        {"rot180", rot90(m, 2)},
        {"movedim", movedim(x, {0, 1}, {-1, 0})},
        {"swapaxes", swapaxes(x, 0, -1)},
        {"diagonal", diagonal(x, -1, 2, 1)},
        {"diagonal_above", diagonal(m, 2)},
        {"diag", diag(v, -1)},
        {"diag_of", diag(m, 1)},
        {"diag_embed", diag_embed(m, 1, 0, -1)},
        {"diag_embed_last", diag_embed(v)},
        {"repeat", repeat(m, {2, 1, 3})},
        {"repeat_nothing", repeat(m, {1, 0})},
        {"tile", tile(x, {2, 1})},
        {"repeat_interleave", repeat_interleave(m, 2, 1)},
        {"repeat_interleave_flat", repeat_interleave(m, 3)},
        {"repeat_interleave_counts", repeat_interleave(m, counts.to(kCPU).to(device), 0)},
        {"narrow", narrow(x, 1, -2, 1)},
        {"unbind", unbind(x, 1)[2]},
        {"unflatten", unflatten(m, 1, {2, -1})},
        {"unfold", sliding_windows(x, 2, 3)},
        {"unfold_apart", sliding_windows(x, 0, 1, 2)},
        {"unfold_between", sliding_windows(m, 0, 2)},
        {"unfold_rest", sliding_windows(m, -1, 2, 3)},
        {"atleast_3d", atleast_3d(m) + sum(atleast_3d(v))},
        {"hstack", hstack({v, w})},
        {"hstack_matrices", hstack({m, m.slice(1, 0, 1)})},
        {"vstack", vstack({m.slice(1, 0, 3), v})},
        {"dstack", dstack({v, v * 2.0})},
        {"column_stack", column_stack({v, m})},
        {"meshgrid", meshgrid({v, w})[1]},
        {"meshgrid_xy", meshgrid({v, w}, "xy")[0]},
        {"cartesian_prod", cartesian_prod({v, w, v})},
    };
    EXPECT_EQ(results.size(), all["cases"].size());
    for (const auto& [name, y] : results) {
      const nlohmann::json& figure = all["cases"].at(name);
      figures::expect_close(y, figure["value"], 0, name);
      std::vector<float> seed(static_cast<std::size_t>(y.numel()));
      for (std::size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<float>(i % 7);
      for (const auto& [input, wanted] : figure["gradients"].items()) {
        const TensorList got = autograd::grad(TensorList{y}, TensorList{in.at(input)},
                                              TensorList{from_vector(seed, y.shape(), device)}, true);
        figures::expect_close(got[0], wanted, 1e-6, name + ", gradient of " + input);
      }
    }
    const Tensor index = figures::tensor(all["index"], device);
    figures::expect_close(one_hot(index), all["one_hot"], 0, "one_hot");
    figures::expect_close(one_hot(index.to(i32), 6), all["one_hot_six"], 0, "one_hot, six classes");
  }
}

}  // namespace
}  // namespace etna
