#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/device/kernel.h>
#include <etna/models/internal/weight_names.h>
#include <etna/models/model_file.h>
#include <etna/optim/optim.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

// Follows a training run that PyTorch computed in f64 (make_golden.py): the same initial weights and tokens, in f32.
namespace etna {
namespace {

const std::string kFolder = ETNA_SOURCE_DIR "/tests/golden/lm_micro/";

struct Bounds {
  double first_gradient;  ///< relative, by the norm of each tensor
  double loss;            ///< absolute
  double gradient_norm;   ///< relative
  double weights;         ///< relative, by the norm of each tensor
};
/// Mixed precision must follow the run, not repeat it. Its weights are checked only through the losses of later steps.
Bounds bounds_of(DType precision, Device device) {
  if (precision == f16) return {1e-2, 3e-3, 1e-2, 1};
  if (precision == bf16) return {3e-2, 1e-2, 5e-2, 1};
  return device.is_cpu() ? Bounds{1e-5, 1e-4, 1e-3, 2e-3} : Bounds{1e-4, 5e-4, 2e-3, 4e-3};
}

/// |a - b| / |b|, summed in f64.
double distance(const Tensor& a, const Tensor& b) {
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, const nlohmann::json& options,
                                                 const std::vector<Tensor>& parameters, double max_grad_norm) {
  const nlohmann::json& o = options.at(name);
  if (name == "sgd") {
    return std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = o.at("lr"),
                                                                      .momentum = o.at("momentum"),
                                                                      .weight_decay = o.at("weight_decay"),
                                                                      .nesterov = o.at("nesterov"),
                                                                      .max_grad_norm = max_grad_norm});
  }
  return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = o.at("lr"),
                                                                        .betas = {o.at("betas")[0], o.at("betas")[1]},
                                                                        .eps = o.at("eps"),
                                                                        .weight_decay = o.at("weight_decay"),
                                                                        .max_grad_norm = max_grad_norm});
}

class Golden : public OnDevice {
 protected:
  /// What a driver that compiles for the CPU takes most of a minute for, beside AdamW.
  bool repeated() { return !device().is_cpu() && thins(); }
  static constexpr const char* kRepeated = "on a software rasterizer in ./run test --all";

  /// In f32, clip_grad_norm_ clips the gradients. In mixed precision the optimizer's step does, with a loss scale for
  /// f16.
  void follow(const std::string& name, DType precision = f32) {
    nlohmann::json expected = nlohmann::json::parse(std::ifstream(kFolder + "expected.json"));
    const nlohmann::json& c = expected.at("config");
    const std::int64_t steps = expected.at("steps"), seq = c.at("seq");
    auto inputs = load_safetensors(kFolder + "inputs.safetensors");
    Tensor tokens = inputs.at("tokens").to(device());
    inputs.erase("tokens");

    const models::DecoderConfig config = models::decoder_config("gpt2", {.vocabulary = c.at("vocab"),
                                                                         .context = seq,
                                                                         .width = c.at("dim"),
                                                                         .layers = c.at("layers"),
                                                                         .heads = c.at("heads"),
                                                                         .feed_forward = c.at("ffn")});
    const auto decoder = models::decoder_of(config, inputs, {.device = device(), .trainable = true});
    const models::Decoder& model = *decoder;
    const double max_norm = expected.at("clip");
    auto optimizer = make_optimizer(name, expected, model.parameters(), precision == f32 ? 0 : max_norm);
    optim::GradScaler scaler({.enabled = precision == f16});
    const Bounds bounds = bounds_of(precision, device());

    auto loss_of = [&](const Tensor& batch) {
      auto mixed = autocast(precision);
      return model.loss(batch.slice(1, 0, seq), batch.slice(1, 1, seq + 1));
    };
    loss_of(tokens[0]).backward();
    double worst_gradient = first_gradients(model, bounds.first_gradient);
    fmt::print("{} {} {}: first gradients within {:.2g}\n", device().str(), name, etna::name(precision),
               worst_gradient);
    optimizer->zero_grad();

    // The first step runs op by op, the second is captured, the others are replayed.
    auto step = capture([&](const Tensor& batch) {
      Tensor loss = loss_of(batch);
      scaler.scale(loss).backward();
      Tensor norm = precision == f32 ? optim::clip_grad_norm_(model.parameters(), max_norm) : Tensor();
      scaler.step(*optimizer);
      scaler.update();
      optimizer->zero_grad();
      if (!norm.defined()) norm = optimizer->grad_norm().clone();
      return std::vector<Tensor>{loss, norm};
    });
    std::vector<Tensor> losses, norms;
    Transfers before = transfers();
    for (std::int64_t i = 0; i < steps; ++i) {
      std::vector<Tensor> results = step(tokens[i]);
      losses.push_back(results[0].clone());
      norms.push_back(results[1].clone());
    }
    EXPECT_EQ(step.replays(), steps - 2);
    Transfers after = transfers();
    EXPECT_EQ(before.d2h_calls, after.d2h_calls) << "a training step read from the device";
    EXPECT_EQ(before.h2d_calls, after.h2d_calls) << "a training step wrote to the device";

    const nlohmann::json& run = expected.at("runs").at(name);
    double worst_loss = 0, worst_norm = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      double loss = run.at("loss")[i], norm = run.at("grad_norm_before_clip")[i];
      double loss_error = std::abs(losses[i].item<double>() - loss);
      double norm_error = std::abs(norms[i].item<double>() - norm) / norm;
      EXPECT_LE(loss_error, bounds.loss) << "loss of step " << i;
      EXPECT_LE(norm_error, bounds.gradient_norm) << "gradient norm of step " << i;
      worst_loss = std::max(worst_loss, loss_error);
      worst_norm = std::max(worst_norm, norm_error);
    }
    double worst_weights = weights_after(model, name, bounds.weights);
    fmt::print("{} {} {}: losses within {:.2g}, gradient norms within {:.2g}, weights after {} steps within {:.2g}\n",
               device().str(), name, etna::name(precision), worst_loss, worst_norm, steps, worst_weights);
  }

 private:
  /// The name of a parameter in the files.
  static std::string name_there(const models::Decoder& model, const std::string& name) {
    const auto has = [](const std::string& there) {
      return there == "wte.weight" || there.find("qkv") != std::string::npos;
    };
    return models::checkpoint_places(model.config, has)(name)[0].name;
  }

  static double first_gradients(const models::Decoder& model, double bound) {
    auto wanted = load_safetensors(kFolder + "first_grads.safetensors");
    double worst = 0;
    for (const auto& [name, p] : model.named_parameters()) {
      double error = distance(p.grad(), wanted.at(name_there(model, name) + ".grad"));
      EXPECT_LE(error, bound) << "first gradient of " << name;
      worst = std::max(worst, error);
    }
    return worst;
  }

  static double weights_after(const models::Decoder& model, const std::string& name, double bound) {
    auto wanted = load_safetensors(kFolder + name + "_after.safetensors");
    double worst = 0;
    for (const auto& [parameter, p] : model.named_parameters()) {
      double error = distance(p, wanted.at(name_there(model, parameter)));
      EXPECT_LE(error, bound) << parameter << " at the end";
      worst = std::max(worst, error);
    }
    return worst;
  }
};

TEST_P(Golden, AdamWFollowsPyTorch) { follow("adamw"); }
TEST_P(Golden, SGDFollowsPyTorch) {
  if (repeated()) GTEST_SKIP() << kRepeated;
  follow("sgd");
}
TEST_P(Golden, MixedPrecisionInF16FollowsPyTorch) {
  if (repeated()) GTEST_SKIP() << kRepeated;
  follow("adamw", f16);
}
TEST_P(Golden, MixedPrecisionInBF16FollowsPyTorch) {
  if (repeated()) GTEST_SKIP() << kRepeated;
  follow("adamw", bf16);
}

ETNA_ON_EVERY_DEVICE(Golden);

}  // namespace
}  // namespace etna
