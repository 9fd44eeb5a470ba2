#include <cmath>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/loss/loss.h>
#include <torch/figures.h>

namespace etna {
namespace {

using LossesIn = const TensorList&;
/// @param x differentiable inputs @param o the others
using Loss = std::function<Tensor(LossesIn x, LossesIn o, Reduction r)>;

KLReduction of_kl(Reduction r) {
  return r == Reduction::none ? KLReduction::none : r == Reduction::mean ? KLReduction::mean : KLReduction::sum;
}

const std::map<std::string, Loss>& losses_cases() {
  static const std::map<std::string, Loss> all = {
      {"bce", [](LossesIn x, LossesIn o, Reduction r) { return binary_cross_entropy(x[0], o[0], {}, r); }},
      {"bce weight", [](LossesIn x, LossesIn o, Reduction r) { return binary_cross_entropy(x[0], x[1], o[0], r); }},
      {"logits",
       [](LossesIn x, LossesIn o, Reduction r) { return binary_cross_entropy_with_logits(x[0], o[0], {}, r); }},
      {"logits weight",
       [](LossesIn x, LossesIn o, Reduction r) { return binary_cross_entropy_with_logits(x[0], x[1], o[0], r, o[1]); }},
      {"logits huge",
       [](LossesIn x, LossesIn o, Reduction r) { return binary_cross_entropy_with_logits(x[0], o[0], {}, r); }},
      {"kl_div", [](LossesIn x, LossesIn o, Reduction r) { return kl_div(x[0], o[0], of_kl(r)); }},
      {"kl_div batchmean",
       [](LossesIn x, LossesIn o, Reduction) { return kl_div(x[0], o[0], KLReduction::batchmean); }},
      {"kl_div log_target", [](LossesIn x, LossesIn, Reduction r) { return kl_div(x[0], x[1], of_kl(r), true); }},
      {"l1", [](LossesIn x, LossesIn, Reduction r) { return l1_loss(x[0], x[1], r); }},
      {"smooth_l1", [](LossesIn x, LossesIn, Reduction r) { return smooth_l1_loss(x[0], x[1], r); }},
      {"smooth_l1 beta", [](LossesIn x, LossesIn, Reduction r) { return smooth_l1_loss(x[0], x[1], r, 0.3); }},
      {"smooth_l1 zero", [](LossesIn x, LossesIn, Reduction r) { return smooth_l1_loss(x[0], x[1], r, 0); }},
      {"huber", [](LossesIn x, LossesIn, Reduction r) { return huber_loss(x[0], x[1], r, 0.7); }},
      {"cosine_embedding",
       [](LossesIn x, LossesIn o, Reduction r) { return cosine_embedding_loss(x[0], x[1], o[0], 0, r); }},
      {"cosine_embedding margin",
       [](LossesIn x, LossesIn o, Reduction r) { return cosine_embedding_loss(x[0], x[1], o[0], 0.2, r); }},
      {"cosine_embedding one",
       [](LossesIn x, LossesIn o, Reduction r) { return cosine_embedding_loss(x[0], x[1], o[0], 0, r); }},
      {"margin_ranking",
       [](LossesIn x, LossesIn o, Reduction r) { return margin_ranking_loss(x[0], x[1], o[0], 0, r); }},
      {"margin_ranking margin",
       [](LossesIn x, LossesIn o, Reduction r) { return margin_ranking_loss(x[0], x[1], o[0], 0.5, r); }},
      {"hinge_embedding", [](LossesIn x, LossesIn o, Reduction r) { return hinge_embedding_loss(x[0], o[0], 1, r); }},
      {"hinge_embedding margin",
       [](LossesIn x, LossesIn o, Reduction r) { return hinge_embedding_loss(x[0], o[0], 0.4, r); }},
      {"triplet",
       [](LossesIn x, LossesIn, Reduction r) { return triplet_margin_loss(x[0], x[1], x[2], 1, 2, 1e-6, false, r); }},
      {"triplet swap",
       [](LossesIn x, LossesIn, Reduction r) { return triplet_margin_loss(x[0], x[1], x[2], 2, 2, 1e-6, true, r); }},
      {"triplet p",
       [](LossesIn x, LossesIn, Reduction r) { return triplet_margin_loss(x[0], x[1], x[2], 1, 3, 1e-6, false, r); }},
      {"triplet p1",
       [](LossesIn x, LossesIn, Reduction r) { return triplet_margin_loss(x[0], x[1], x[2], 1, 1, 1e-3, false, r); }},
      {"multi_margin", [](LossesIn x, LossesIn o, Reduction r) { return multi_margin_loss(x[0], o[0], 1, 1, {}, r); }},
      {"multi_margin p",
       [](LossesIn x, LossesIn o, Reduction r) { return multi_margin_loss(x[0], o[0], 2, 0.7, o[1], r); }},
      {"multilabel_margin", [](LossesIn x, LossesIn o, Reduction r) { return multilabel_margin_loss(x[0], o[0], r); }},
      {"multilabel_soft_margin",
       [](LossesIn x, LossesIn o, Reduction r) { return multilabel_soft_margin_loss(x[0], o[0], {}, r); }},
      {"multilabel_soft_margin weight",
       [](LossesIn x, LossesIn o, Reduction r) { return multilabel_soft_margin_loss(x[0], o[0], o[1], r); }},
      {"soft_margin", [](LossesIn x, LossesIn o, Reduction r) { return soft_margin_loss(x[0], o[0], r); }},
      {"gaussian_nll",
       [](LossesIn x, LossesIn, Reduction r) { return gaussian_nll_loss(x[0], x[1], x[2], false, 1e-6, r); }},
      {"gaussian_nll full",
       [](LossesIn x, LossesIn, Reduction r) { return gaussian_nll_loss(x[0], x[1], x[2], true, 0.5, r); }},
      {"gaussian_nll rows",
       [](LossesIn x, LossesIn, Reduction r) { return gaussian_nll_loss(x[0], x[1], x[2], false, 1e-6, r); }},
      {"poisson_nll",
       [](LossesIn x, LossesIn o, Reduction r) { return poisson_nll_loss(x[0], o[0], true, false, 1e-8, r); }},
      {"poisson_nll full",
       [](LossesIn x, LossesIn o, Reduction r) { return poisson_nll_loss(x[0], o[0], false, true, 1e-8, r); }},
      {"focal", [](LossesIn x, LossesIn o, Reduction r) { return sigmoid_focal_loss(x[0], o[0], 0.25, 2, r); }},
      {"focal gamma", [](LossesIn x, LossesIn o, Reduction r) { return sigmoid_focal_loss(x[0], o[0], -1, 1.5, r); }},
      {"dice", [](LossesIn x, LossesIn o, Reduction r) { return dice_loss(x[0], o[0], 1, r); }},
      {"cosine_similarity", [](LossesIn x, LossesIn, Reduction) { return cosine_similarity(x[0], x[1]); }},
      {"cosine_similarity dim", [](LossesIn x, LossesIn, Reduction) { return cosine_similarity(x[0], x[1], -1); }},
      {"cosine_similarity zero",
       [](LossesIn x, LossesIn, Reduction) { return cosine_similarity(x[0], x[1], 0, 1e-2); }},
      {"pairwise_distance 1", [](LossesIn x, LossesIn, Reduction) { return pairwise_distance(x[0], x[1], 1); }},
      {"pairwise_distance 2", [](LossesIn x, LossesIn, Reduction) { return pairwise_distance(x[0], x[1], 2); }},
      {"pairwise_distance 3", [](LossesIn x, LossesIn, Reduction) { return pairwise_distance(x[0], x[1], 3); }},
      {"pairwise_distance inf",
       [](LossesIn x, LossesIn, Reduction) { return pairwise_distance(x[0], x[1], INFINITY); }},
      {"pairwise_distance keepdim",
       [](LossesIn x, LossesIn, Reduction) { return pairwise_distance(x[0], x[1], 2, 1e-3, true); }},
      {"cdist 1", [](LossesIn x, LossesIn, Reduction) { return cdist(x[0], x[1], 1); }},
      {"cdist 2", [](LossesIn x, LossesIn, Reduction) { return cdist(x[0], x[1], 2); }},
      {"cdist 3", [](LossesIn x, LossesIn, Reduction) { return cdist(x[0], x[1], 3); }},
      {"cdist inf", [](LossesIn x, LossesIn, Reduction) { return cdist(x[0], x[1], INFINITY); }},
      {"cross_entropy weight",
       [](LossesIn x, LossesIn o, Reduction r) { return cross_entropy(x[0], o[0], o[1], -100, 0, r); }},
      {"cross_entropy ignored",
       [](LossesIn x, LossesIn o, Reduction r) { return cross_entropy(x[0], o[0], o[1], -100, 0.2, r); }},
      {"cross_entropy soft", [](LossesIn x, LossesIn, Reduction r) { return cross_entropy(x[0], x[1], -100, 0, r); }},
      {"cross_entropy soft weight",
       [](LossesIn x, LossesIn o, Reduction r) { return cross_entropy(x[0], o[0], o[1], -100, 0.1, r); }},
      {"cross_entropy image",
       [](LossesIn x, LossesIn o, Reduction r) { return cross_entropy(x[0], o[0], o[1], 1, 0, r); }},
      {"cross_entropy soft image",
       [](LossesIn x, LossesIn o, Reduction r) { return cross_entropy(x[0], o[0], o[1], -100, 0, r); }},
      {"cross_entropy one",
       [](LossesIn x, LossesIn o, Reduction r) { return cross_entropy(x[0], o[0], o[1], -100, 0, r); }},
      {"nll weight", [](LossesIn x, LossesIn o, Reduction r) { return nll_loss(x[0], o[0], o[1], -100, r); }},
      {"nll image", [](LossesIn x, LossesIn o, Reduction r) { return nll_loss(x[0], o[0], o[1], -100, r); }},
      {"ctc", [](LossesIn x, LossesIn o,
                 Reduction r) { return ctc_loss(log_softmax(x[0], -1), o[0], {6, 4, 5}, {3, 1, 2}, 0, r); }},
      {"ctc blank", [](LossesIn x, LossesIn o,
                       Reduction r) { return ctc_loss(log_softmax(x[0], -1), o[0], {6, 4, 5}, {3, 1, 2}, 4, r); }},
      {"ctc joined", [](LossesIn x, LossesIn o,
                        Reduction r) { return ctc_loss(log_softmax(x[0], -1), o[0], {6, 4, 5}, {3, 1, 2}, 0, r); }},
      {"ctc impossible",
       [](LossesIn x, LossesIn o,
          Reduction r) { return ctc_loss(log_softmax(x[0], -1), o[0], {6, 1, 3}, {3, 2, 2}, 0, r, true); }},
      {"ctc empty", [](LossesIn x, LossesIn o,
                       Reduction r) { return ctc_loss(log_softmax(x[0], -1), o[0], {6, 4, 5}, {0, 1, 0}, 0, r); }},
      {"ctc one",
       [](LossesIn x, LossesIn o,
          Reduction r) { return ctc_loss(log_softmax(x[0], -1), o[0], std::vector<std::int64_t>{6}, {3}, 0, r); }},
  };
  return all;
}

Reduction reduction_named(const std::string& name) {
  return name == "none" ? Reduction::none : name == "sum" ? Reduction::sum : Reduction::mean;
}

/// The weights of the script's sum.
Tensor seed_for(const Tensor& y, const std::string& reduction) {
  if (reduction != "none") return ones_like(y);
  std::vector<double> seed;
  const std::int64_t n = y.numel();
  for (std::int64_t i = 0; i < n; ++i)
    seed.push_back(n == 1 ? 0.5 : 0.5 + static_cast<double>(i) / static_cast<double>(n - 1));
  return from_vector(seed, y.shape()).to(y.dtype()).to(y.device());
}

void check(const std::string& name, const nlohmann::json& figure, Device device, DType dtype, double tolerance) {
  TensorList x, others;
  for (const nlohmann::json& input : figure["inputs"])
    x.push_back(figures::tensor(input, device, dtype).requires_grad_());
  for (const nlohmann::json& input : figure["others"]) others.push_back(figures::tensor(input, device, dtype));
  for (const auto& [reduction, value] : figure["values"].items()) {
    const std::string what = name + ", " + reduction + " on " + device.str();
    const Tensor y = losses_cases().at(name)(x, others, reduction_named(reduction));
    figures::expect_close(y, value, tolerance, what);
    if (!figure["gradients"].contains(reduction)) continue;
    const TensorList gradients = autograd::grad(TensorList{y}, x, TensorList{seed_for(y, reduction)});
    for (std::size_t i = 0; i < x.size(); ++i)
      figures::expect_close(gradients[i], figure["gradients"][reduction][i], tolerance, what + ", gradient");
  }
}

TEST(TorchLosses, ValuesAndGradientsInF64) {
  const nlohmann::json all = figures::load("loss");
  for (const auto& [name, figure] : all.items()) {
    if (name != "bce edges") check(name, figure, kCPU, f64, 1e-10);
  }
}

TEST(TorchLosses, ValuesAndGradientsInF32) {
  const nlohmann::json all = figures::load("loss");
  for (Device device : figures::devices()) {
    for (const auto& [name, figure] : all.items()) {
      if (name != "bce edges") check(name, figure, device, f32, 1e-5);
    }
  }
}

TEST(TorchLosses, StayFiniteForCertainProbabilities) {
  const nlohmann::json figure = figures::load("loss")["bce edges"];
  for (Device device : figures::devices()) {
    Tensor x = figures::tensor(figure["x"], device).requires_grad_();
    const Tensor y = binary_cross_entropy(x, figures::tensor(figure["t"], device), {}, Reduction::none);
    figures::expect_close(y, figure["value"]);
    sum(y).backward();
    for (double g : x.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(g)) << g;
  }
}

TEST(TorchLosses, CTCReplaysWithOtherLengths) {
  const nlohmann::json figure = figures::load("loss")["ctc"];
  for (Device device : figures::devices()) {
    Tensor x = figures::tensor(figure["inputs"][0], device).requires_grad_();
    const Tensor targets = figures::tensor(figure["others"][0], device);
    const auto loss = [&](const Tensor& inputs, const Tensor& labels) {
      x.set_grad({});
      const Tensor y = ctc_loss(log_softmax(x, -1), targets, inputs, labels, 0, Reduction::none);
      sum(y).backward();
      return std::vector<Tensor>{y, x.grad()};
    };
    auto captured = capture(loss, {.device = device});
    for (std::int64_t i = 0; i < 4; ++i) {
      const Tensor inputs = from_vector<std::int64_t>({6, 4, 6 - i}, device);
      const Tensor labels = from_vector<std::int64_t>({3, 1, i % 3}, device);
      const std::vector<Tensor> got = captured(inputs, labels);
      const std::vector<double> y = got[0].to_vector<double>(), g = got[1].to_vector<double>();
      const std::vector<Tensor> wanted = loss(inputs, labels);
      EXPECT_EQ(y, wanted[0].to_vector<double>());
      EXPECT_EQ(g, wanted[1].to_vector<double>());
    }
  }
}

}  // namespace
}  // namespace etna
