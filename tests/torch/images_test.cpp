#include <gtest/gtest.h>

#include <etna/data/transforms.h>
#include <torch/figures.h>

namespace etna::data::transforms {
namespace {

TEST(TorchImages, ResizedAsByInterpolate) {
  const nlohmann::json all = figures::load("images");
  const Tensor x = figures::tensor(all["x"]);
  for (const auto& [name, figure] : all["cases"].items()) {
    const std::int64_t height = figure["height"], width = figure["width"];
    figures::expect_close(resize(height, width)(x), figure["bilinear"], 1e-5, name);
    figures::expect_close(resize(height, width, Interpolation::nearest)(x), figure["nearest"], 0, name);
  }
}

}  // namespace
}  // namespace etna::data::transforms
