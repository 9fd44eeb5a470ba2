#include <fstream>
#include <set>

#include <gmock/gmock.h>

#include <etna/nn/nn.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

template <typename M, typename... Args>
void add(std::vector<std::unique_ptr<Module>>& all, Args&&... args) {
  all.push_back(std::make_unique<M>(std::forward<Args>(args)...));
}
template <typename... M>
void add_plain(std::vector<std::unique_ptr<Module>>& all) {
  (add<M>(all), ...);
}
template <typename... M, typename Argument>
void add_with(std::vector<std::unique_ptr<Module>>& all, const Argument& argument) {
  (add<M>(all, argument), ...);
}

/// One of each module, with settings that are not the defaults.
std::vector<std::unique_ptr<Module>> one_of_each() {
  std::vector<std::unique_ptr<Module>> all;
  const ConvOptions conv{.stride = 2, .padding = 1, .groups = 2, .bias = false, .padding_mode = "circular"};
  const ConvTransposeOptions back{.stride = 2, .output_padding = 1, .bias = false};
  add<Conv1d>(all, 4, 6, 3, conv), add<Conv2d>(all, 4, 6, Dims{3, 2}, conv), add<Conv3d>(all, 4, 6, 3, conv);
  add<ConvTranspose1d>(all, 4, 6, 3, back), add<ConvTranspose2d>(all, 4, 6, 3, back);
  add<ConvTranspose3d>(all, 4, 6, 3, back);
  add<Unfold>(all, 3, 2), add<Fold>(all, Dims{4, 5}, 3);
  const BatchNormOptions batch{.eps = 1e-3, .momentum = {}, .affine = false};
  add_with<BatchNorm1d, BatchNorm3d>(all, 3), add<BatchNorm2d>(all, 3, batch);
  const InstanceNormOptions instance{.affine = true, .track_running_stats = true};
  add<InstanceNorm1d>(all, 3, instance), add<InstanceNorm2d>(all, 3, instance), add<InstanceNorm3d>(all, 3);
  add<GroupNorm>(all, 2, 4, 1e-3, false), add<LocalResponseNorm>(all, 2), add<LayerNorm>(all, 3), add<RMSNorm>(all, 3);
  add<MaxPool1d>(all, 3), add<MaxPool2d>(all, Dims{3, 2}, 1, 1), add<MaxPool3d>(all, 2);
  add_with<MaxUnpool1d, MaxUnpool2d, MaxUnpool3d>(all, 2);
  add<AvgPool1d>(all, 3), add<AvgPool2d>(all, 3, 2, 1, true, false, 5), add<AvgPool3d>(all, 2);
  add_with<AdaptiveAvgPool1d, AdaptiveMaxPool1d>(all, 2);
  add_with<AdaptiveAvgPool2d, AdaptiveMaxPool2d>(all, Dims{-1, 2});
  add_with<AdaptiveAvgPool3d, AdaptiveMaxPool3d>(all, Dims{1, 2, 3});
  add<LPPool1d>(all, 1.5, 3), add<LPPool2d>(all, 2, Dims{3, 2}, 1), add<LPPool3d>(all, 2, 3);
  add_with<ZeroPad1d, ReflectionPad1d, ReplicationPad1d, CircularPad1d>(all, Dims{1, 2});
  add_with<ZeroPad2d, ReflectionPad2d, ReplicationPad2d, CircularPad2d>(all, Dims{1, 2, 3, 4});
  add_with<ZeroPad3d, ReflectionPad3d, ReplicationPad3d, CircularPad3d>(all, 1);
  add<ConstantPad1d>(all, 1, 2.5), add<ConstantPad2d>(all, 1, 2.5), add<ConstantPad3d>(all, 1, 2.5);
  add<Upsample>(all, InterpolateOptions{.scale_factor = {2.0, 1.5}});
  add<UpsamplingNearest2d>(all, 2), add<UpsamplingBilinear2d>(all, InterpolateOptions{.size = {3, 4}});
  add_with<PixelShuffle, PixelUnshuffle, ChannelShuffle>(all, 2);
  add<Flatten>(all, 0, 2), add<Unflatten>(all, 1, Dims{2, 3});
  add_with<Dropout, Dropout1d, Dropout2d, Dropout3d, AlphaDropout, FeatureAlphaDropout>(all, 0.25);
  add_plain<ReLU, ReLU6, SiLU, Mish, SELU, Sigmoid, LogSigmoid, Tanh, Tanhshrink, Softsign, Hardsigmoid, Hardswish,
            Softmax2d, Identity>(all);
  add<GELU>(all, true), add<PReLU>(all, 3), add<Hardtanh>(all, -2, 3), add<Softplus>(all, 2), add<RReLU>(all, 0.2, 0.3);
  add_with<LeakyReLU, ELU, CELU, Softshrink, Hardshrink>(all, 0.3), add<Threshold>(all, 0.5, 2);
  add_with<GLU, Softmax, Softmin, LogSoftmax>(all, 0);
  add<Linear>(all, 2, 3, false), add<Bilinear>(all, 2, 3, 4), add<Embedding>(all, 4, 2);
  add<EmbeddingBag>(all, 5, 3, EmbeddingBagOptions{.mode = BagMode::max, .padding_idx = 1});
  add<LSTM>(all, 2, 3, RecurrentOptions{.num_layers = 2, .proj_size = 2});
  add<GRU>(all, 2, 3, RecurrentOptions{.bidirectional = true});
  add<RNN>(all, 2, 3, RecurrentOptions{.bias = false}, Nonlinearity::relu);
  add<LSTMCell>(all, 2, 3), add<GRUCell>(all, 2, 3, false), add<RNNCell>(all, 2, 3);
  add<MultiheadAttention>(all, 4, 2, MultiheadAttentionOptions{.add_bias_kv = true, .kdim = 3});
  const TransformerOptions small{.dim_feedforward = 5, .dropout = 0.25, .norm_first = true};
  add<TransformerEncoderLayer>(all, 4, 2, small), add<TransformerDecoderLayer>(all, 4, 2, small);
  add<TransformerEncoder>(all, 4, 2, 2, small), add<TransformerDecoder>(all, 4, 2, 1, small, true);
  add<Transformer>(all, 4, 2, 1, 1, small);
  add<SwiGLU>(all, 3, 4), add<PatchEmbedding>(all, 3, 4, 2), add<RotaryEmbedding>(all, 4);
  add<SinusoidalPositionalEncoding>(all, 4, 5), add<LearnedPositionalEncoding>(all, 4, 5);
  add<AdaptiveLogSoftmaxWithLoss>(all, 8, 10, std::vector<std::int64_t>{3, 6}, 2, true);
  add_plain<CrossEntropyLoss, NLLLoss, MSELoss, BCELoss, BCEWithLogitsLoss, SigmoidFocalLoss, DiceLoss, KLDivLoss,
            L1Loss, SmoothL1Loss, HuberLoss, GaussianNLLLoss, PoissonNLLLoss, CTCLoss, MarginRankingLoss,
            HingeEmbeddingLoss, SoftMarginLoss, MultiMarginLoss, MultiLabelMarginLoss, MultiLabelSoftMarginLoss,
            CosineEmbeddingLoss, TripletMarginLoss, TripletMarginWithDistanceLoss, CosineSimilarity, PairwiseDistance,
            CDist>(all);
  add<CrossEntropyLoss>(all, from_vector<float>({1, 2})), add<MultiMarginLoss>(all, from_vector<float>({1, 2}), 2);
  add<ParameterList>(all, std::vector<Tensor>{ones({2}), zeros({3})});
  add<ParameterDict>(all, std::vector<NamedTensor>{{"a", ones({2})}});
  auto chain = std::make_unique<Sequential>();
  chain->add<Linear>(2, 3).add<Conv1d>(2, 2, 1);
  all.push_back(std::move(chain));
  auto list = std::make_unique<ModuleList<UnaryModule>>();
  list->emplace_back<MaxPool2d>(2);
  all.push_back(std::move(list));
  auto dict = std::make_unique<ModuleDict<>>();
  dict->emplace<BatchNorm2d>("norm", 2);
  all.push_back(std::move(dict));
  return all;
}

TEST(EveryModule, CanBeCloned) {
  GradMode off(false);
  for (const auto& module : one_of_each()) {
    module->eval();
    for (const Tensor& buffer : module->buffers()) Tensor(buffer).fill_(3);
    const std::unique_ptr<Module> copy = module->clone();
    EXPECT_EQ(copy->repr(), module->repr());
    EXPECT_FALSE(copy->training()) << module->repr();
    const StateDict wanted = module->state_dict(), got = copy->state_dict();
    ASSERT_EQ(wanted.size(), got.size()) << module->repr();
    for (const auto& [name, value] : wanted) {
      EXPECT_EQ(got.at(name).to_vector<float>(), value.to_vector<float>()) << module->repr() << " " << name;
      EXPECT_NE(got.at(name).storage(), value.storage()) << module->repr() << " " << name;
    }
  }
}

TEST(EveryModule, IsInThatList) {
  std::set<std::string> here;
  for (const auto& module : one_of_each()) here.insert(module->type_name());
  std::ifstream in(ETNA_SOURCE_DIR "/docs/from-pytorch.names");
  std::string section, line;
  int names = 0;
  while (std::getline(in, line)) {
    if (line.starts_with("[")) section = line;
    if (section != "[torch.nn]" || line.empty() || line[0] == '[' || line == "Module") continue;
    if (line.find_first_of(" =!") != std::string::npos) continue;
    ++names;
    EXPECT_TRUE(here.contains(line)) << "add nn::" << line << " to one_of_each()";
  }
  EXPECT_GT(names, 100);
}

TEST(EveryModule, SaysWhichSizeIsWrong) {
  const auto refuses = [](const auto& make, const char* what) {
    EXPECT_THAT(make, testing::ThrowsMessage<ShapeError>(testing::HasSubstr(what)));
  };
  refuses([] { BatchNorm2d(-1); }, "BatchNorm2d: num_features is -1");
  refuses([] { InstanceNorm1d(-1); }, "InstanceNorm1d: num_features is -1");
  refuses([] { GroupNorm(2, -4); }, "GroupNorm: num_channels is -4");
  refuses([] { LocalResponseNorm(0); }, "LocalResponseNorm: size is 0");
  refuses([] { EmbeddingBag(-1, 3); }, "EmbeddingBag: count is -1");
  refuses([] { Bilinear(2, -3, 4); }, "Bilinear: in2 is -3");
  refuses([] { PReLU(0); }, "PReLU: num_parameters is 0");
  refuses([] { PixelShuffle(0); }, "PixelShuffle: upscale_factor is 0");
  refuses([] { Conv2d(1, 1, {3, 0}); }, "Conv2d: kernel_size is 0");
  refuses([] { LearnedPositionalEncoding(-4, 5); }, "LearnedPositionalEncoding: dim is -4");
  refuses([] { SinusoidalPositionalEncoding(4, -5); }, "SinusoidalPositionalEncoding: max_len is -5");
  refuses([] { AdaptiveLogSoftmaxWithLoss(0, 10, {3}); }, "AdaptiveLogSoftmaxWithLoss: in_features is 0");
}

}  // namespace
}  // namespace etna::nn
