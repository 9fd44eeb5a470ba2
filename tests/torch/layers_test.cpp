#include <functional>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include <etna/nn/nn.h>
#include <etna/optim/averaged_model.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <torch/cases.h>
#include <torch/modules.h>

namespace etna {
namespace {

using Layers = std::map<std::string, std::unique_ptr<nn::Module>>;

nlohmann::json figures_of(const char* part) { return figures::load("layers")[part]; }

TEST(TorchLayers, ConvolutionsPadAsPyTorchDoes) {
  const nlohmann::json all = figures_of("padding");
  for (Device device : figures::devices()) {
    std::map<std::string, std::unique_ptr<nn::UnaryModule>> layers;
    layers["reflect 1d"] =
        std::make_unique<nn::Conv1d>(2, 3, 3, nn::ConvOptions{.padding = 2, .padding_mode = "reflect"});
    layers["replicate 1d"] =
        std::make_unique<nn::Conv1d>(2, 2, 2, nn::ConvOptions{.padding = "same", .padding_mode = "replicate"});
    layers["circular 1d"] = std::make_unique<nn::Conv1d>(
        2, 2, 3, nn::ConvOptions{.stride = 2, .padding = 1, .bias = false, .padding_mode = "circular"});
    layers["reflect 2d"] = std::make_unique<nn::Conv2d>(
        2, 2, Dims{3, 2}, nn::ConvOptions{.stride = {2, 1}, .padding = {1, 2}, .groups = 2, .padding_mode = "reflect"});
    layers["replicate 2d"] = std::make_unique<nn::Conv2d>(
        1, 2, 3, nn::ConvOptions{.padding = 1, .dilation = 2, .padding_mode = "replicate"});
    layers["circular 2d"] =
        std::make_unique<nn::Conv2d>(1, 2, Dims{2, 4}, nn::ConvOptions{.padding = "same", .padding_mode = "circular"});
    layers["reflect 3d"] =
        std::make_unique<nn::Conv3d>(1, 1, 2, nn::ConvOptions{.padding = 1, .padding_mode = "reflect"});
    layers["replicate 3d"] =
        std::make_unique<nn::Conv3d>(1, 1, 2, nn::ConvOptions{.padding = {0, 1, 2}, .padding_mode = "replicate"});
    layers["circular 3d"] =
        std::make_unique<nn::Conv3d>(1, 1, 3, nn::ConvOptions{.padding = 1, .padding_mode = "circular"});
    ASSERT_EQ(layers.size(), all.size());
    for (const auto& [name, layer] : layers) {
      const nlohmann::json& figure = all[name];
      figures::load_state(*layer, figure["state"]);
      layer->to(device);
      const Tensor x = figures::tensor(figure["inputs"][0], device).requires_grad_();
      figures::expect_results(name, *layer, {(*layer)(x)}, nlohmann::json::array({figure["output"]}),
                              {figures::tensor(figure["seed"], device)}, {x}, figure["input_gradients"],
                              figure["gradients"]);
    }
  }
}

TEST(TorchLayers, FunctionsAreThoseOfPyTorch) {
  using In = const TensorList&;
  const DistanceFunction cosine = [](const Tensor& a, const Tensor& b) { return 1.0 - cosine_similarity(a, b); };
  const std::map<std::string, figures::Function> functions = {
      {"normalize", [](In x) { return normalize(x[0]); }},
      {"normalize p1 dim0", [](In x) { return normalize(x[0], 1, 0); }},
      {"normalize p3", [](In x) { return normalize(x[0], 3, -1, 0.5); }},
      {"normalize small", [](In x) { return normalize(x[0], 2, 1, 10); }},
      {"pdist", [](In x) { return pdist(x[0]); }},
      {"pdist p1", [](In x) { return pdist(x[0], 1); }},
      {"pdist p3", [](In x) { return pdist(x[0], 3); }},
      {"pdist inf", [](In x) { return pdist(x[0], INFINITY); }},
      {"bilinear", [](In x) { return bilinear(x[0], x[1], x[2], x[3]); }},
      {"triplet",
       [](In x) { return triplet_margin_with_distance_loss(x[0], x[1], x[2], {}, 1, false, Reduction::none); }},
      {"triplet cosine", [&](In x) { return triplet_margin_with_distance_loss(x[0], x[1], x[2], cosine, 0.5, true); }},
  };
  const nlohmann::json all = figures_of("functions");
  ASSERT_EQ(functions.size(), all.size());
  for (const auto& [name, f] : functions) {
    figures::expect_case(all[name], f, kCPU, f64, 1e-10, name);
    for (Device device : figures::devices()) figures::expect_case(all[name], f, device, f32, 1e-5, name);
  }
}

TEST(TorchLayers, AdaptiveSoftmax) {
  const nlohmann::json figure = figures_of("adaptive");
  for (Device device : figures::devices()) {
    nn::AdaptiveLogSoftmaxWithLoss layer(8, 11, {3, 6}, 2, true);
    figures::load_state(layer, figure["state"]);
    layer.to(device);
    const Tensor x = figures::tensor(figure["inputs"][0], device).requires_grad_();
    const Tensor target = figures::tensor(figure["target"], device);
    const nn::AdaptiveLogSoftmaxOutput got = layer(x, target);
    figures::expect_close(got.output, figure["output"]);
    figures::expect_results("adaptive", layer, {got.loss}, nlohmann::json::array({figure["loss"]}), {ones({}, device)},
                            {x}, figure["input_gradients"], figure["gradients"]);
    auto step = capture([&](const Tensor& in, const Tensor& to) { return layer(in, to).output; }, {.device = device});
    for (int i = 0; i < 3; ++i) figures::expect_close(step(x.detach(), target), figure["output"]);
    figures::expect_close(layer.log_prob(x), figure["log_prob"]);
    figures::expect_close(layer.predict(x), figure["predict"]);
    EXPECT_NEAR(layer(x[0], target[0]).output.item<double>(), got.output[0].item<double>(), 1e-6);
  }
  nn::AdaptiveLogSoftmaxWithLoss layer(8, 11, {3, 6});
  for (std::int64_t wrong : {std::int64_t{11}, std::int64_t{-1}, std::int64_t{-100}})
    EXPECT_THROW(layer(ones({1, 8}), from_vector<std::int64_t>({wrong})), IndexError) << wrong;
  EXPECT_THROW(layer(ones({2, 8}), from_vector<std::int64_t>({1})), ShapeError);
  EXPECT_THROW(nn::AdaptiveLogSoftmaxWithLoss(8, 11, {3, 3}), Error);
  EXPECT_THROW(nn::AdaptiveLogSoftmaxWithLoss(8, 11, {11}), Error);
}

template <typename Layer, typename Norm>
void expect_fused(const char* name, Layer& layer, Norm& norm, Device device) {
  const nlohmann::json figure = figures_of("fused")[name];
  figures::load_state(layer, figure["layer"]);
  nn::StateDict state;
  for (const auto& [key, value] : figure["norm"].items()) state[key] = figures::tensor(value);
  norm.load_state_dict(state);
  layer.to(device), norm.to(device);
  EXPECT_THROW(nn::fusing::fuse(name, layer, layer.weight, layer.bias, norm, false, 1), Error) << "in training mode";
  layer.eval(), norm.eval();
  const Tensor x = figures::tensor(figure["x"], device);
  const auto check = [&](const auto& fused) {
    EXPECT_FALSE(fused->training());
    figures::expect_close(fused->weight, figure["weight"], 1e-5, name);
    figures::expect_close(fused->bias, figure["bias"], 1e-5, name);
    figures::expect_close((*fused)(x), figure["output"], 1e-5, name);
  };
  if constexpr (std::is_same_v<Layer, nn::Linear>)
    check(nn::fuse_linear_bn_eval(layer, norm));
  else
    check(nn::fuse_conv_bn_eval(layer, norm));
}

TEST(TorchLayers, NormsAreFusedIntoTheLayersBeforeThem) {
  for (Device device : figures::devices()) {
    nn::Conv2d conv(4, 6, 2, {.groups = 2});
    nn::Conv1d bare(2, 3, 2, {.bias = false});
    nn::ConvTranspose2d transposed(2, 3, 2);
    nn::Linear linear(3, 4);
    nn::BatchNorm2d norm6(6), norm3(3, {.eps = 0.1});
    nn::BatchNorm1d plain3(3, {.affine = false}), norm4(4);
    expect_fused("conv", conv, norm6, device);
    expect_fused("bare", bare, plain3, device);
    expect_fused("transposed", transposed, norm3, device);
    expect_fused("linear", linear, norm4, device);
    // PyTorch takes no groups here.
    nn::ConvTranspose2d grouped(4, 6, 2, {.groups = 2});
    grouped.to(device), grouped.eval();
    const Tensor x = randn({1, 4, 3, 3}, device), wanted = norm6(grouped(x)).detach();
    const Tensor got = (*nn::fuse_conv_bn_eval(grouped, norm6))(x);
    EXPECT_LT(max(abs(got - wanted)).item<double>(), 1e-5);
    EXPECT_THROW(nn::fuse_conv_bn_eval(grouped, norm3), Error);
  }
}

TEST(TorchLayers, UpdateBNMeasuresAllBatches) {
  const nlohmann::json figure = figures_of("update_bn");
  for (Device device : figures::devices()) {
    nn::Sequential net;
    net.add<nn::Conv1d>(2, 3, 2).add<nn::BatchNorm1d>(3).add<nn::ReLU>().add<nn::Flatten>().add<nn::Linear>(9, 2);
    net.add<nn::BatchNorm1d>(2, nn::BatchNormOptions{.momentum = 0.3});
    figures::load_state(net, figure["before"]);
    net.to(device), net.eval();
    const std::vector<Tensor> batches = figures::tensors(figure["batches"], device);
    const auto expect_after = [&] {
      for (const auto& [name, value] : net.state_dict())
        figures::expect_close(value, figure["after"].at(name), 1e-5, name);
      EXPECT_FALSE(net.training());
      EXPECT_EQ(dynamic_cast<nn::BatchNorm1d&>(net.modules[5]).options.momentum, 0.3);
    };
    optim::update_bn(batches, net);
    expect_after();
    // Again, by a function, with batches that have a target and begin on the host.
    std::size_t next = 0;
    const auto loader = [&]() -> std::optional<std::vector<Tensor>> {
      if (next == batches.size()) return std::nullopt;
      return std::vector<Tensor>{batches[next++].to(kCPU), ones({1})};
    };
    optim::update_bn(loader, net, device);
    expect_after();
  }
}

TEST(TorchLayers, PrintAsPyTorchDoes) {
  const nlohmann::json all = figures_of("printed");
  Layers layers;
  const auto add = [&](const char* name, std::unique_ptr<nn::Module> layer) { layers[name] = std::move(layer); };
  using std::make_unique;
  add("conv2d", make_unique<nn::Conv2d>(3, 64, 7, nn::ConvOptions{.stride = 2, .padding = 3}));
  add("conv1d", make_unique<nn::Conv1d>(4, 6, 3, nn::ConvOptions{.padding = "same", .padding_mode = "reflect"}));
  add("conv3d",
      make_unique<nn::Conv3d>(4, 6, Dims{1, 2, 3}, nn::ConvOptions{.dilation = 2, .groups = 2, .bias = false}));
  add("conv_transpose2d",
      make_unique<nn::ConvTranspose2d>(
          4, 6, 3, nn::ConvTransposeOptions{.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}));
  add("conv_transpose1d",
      make_unique<nn::ConvTranspose1d>(4, 6, 3, nn::ConvTransposeOptions{.bias = false, .dilation = 2}));
  add("unfold", make_unique<nn::Unfold>(3, 1, Dims{1, 2}));
  add("fold", make_unique<nn::Fold>(Dims{4, 5}, 3));
  add("batch_norm", make_unique<nn::BatchNorm2d>(3, nn::BatchNormOptions{.eps = 1e-3, .momentum = {}}));
  add("instance_norm", make_unique<nn::InstanceNorm1d>(3));
  add("group_norm", make_unique<nn::GroupNorm>(2, 4));
  add("lrn", make_unique<nn::LocalResponseNorm>(2));
  add("max_pool2d", make_unique<nn::MaxPool2d>(3, 2, 1));
  add("max_pool1d", make_unique<nn::MaxPool1d>(2));
  add("max_unpool2d", make_unique<nn::MaxUnpool2d>(2));
  add("max_unpool1d", make_unique<nn::MaxUnpool1d>(2, 3));
  add("avg_pool1d", make_unique<nn::AvgPool1d>(3));
  add("avg_pool2d", make_unique<nn::AvgPool2d>(Dims{3, 2}, Dims{}, 1));
  add("adaptive_avg", make_unique<nn::AdaptiveAvgPool2d>(Dims{-1, 3}));
  add("adaptive_max", make_unique<nn::AdaptiveMaxPool1d>(3));
  add("lp_pool2d", make_unique<nn::LPPool2d>(2, 3));
  add("lp_pool1d", make_unique<nn::LPPool1d>(1.5, 3, 2));
  add("zero_pad", make_unique<nn::ZeroPad2d>(1));
  add("reflection_pad", make_unique<nn::ReflectionPad1d>(Dims{1, 2}));
  add("replication_pad", make_unique<nn::ReplicationPad3d>(2));
  add("constant_pad", make_unique<nn::ConstantPad2d>(Dims{1, 2, 3, 4}, 3.5));
  add("upsample", make_unique<nn::Upsample>(InterpolateOptions{.scale_factor = {2}}));
  add("upsample size", make_unique<nn::Upsample>(InterpolateOptions{.size = {3, 4}, .mode = Interpolation::bilinear}));
  add("nearest", make_unique<nn::UpsamplingNearest2d>(2));
  add("pixel_shuffle", make_unique<nn::PixelShuffle>(2));
  add("channel_shuffle", make_unique<nn::ChannelShuffle>(2));
  add("flatten", make_unique<nn::Flatten>());
  add("unflatten", make_unique<nn::Unflatten>(1, Dims{2, 3}));
  add("dropout", make_unique<nn::FeatureAlphaDropout>());
  add("elu", make_unique<nn::ELU>());
  add("hardtanh", make_unique<nn::Hardtanh>());
  add("softshrink", make_unique<nn::Softshrink>());
  add("rrelu", make_unique<nn::RReLU>());
  add("softmax2d", make_unique<nn::Softmax2d>());
  add("softmax", make_unique<nn::Softmax>(1));
  add("loss", make_unique<nn::MSELoss>());
  add("adaptive", make_unique<nn::AdaptiveLogSoftmaxWithLoss>(8, 11, std::vector<std::int64_t>{3, 6}, 2));
  ASSERT_EQ(layers.size(), all.size());
  for (const auto& [name, layer] : layers) EXPECT_EQ(layer->repr(), all[name].get<std::string>()) << name;
}

}  // namespace
}  // namespace etna
