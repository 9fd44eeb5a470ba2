#include <utility>

#include <conformance/samples.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/loss/loss.h>

namespace etna::conformance {
namespace {

using Two = Tensor (*)(const Tensor& x, const Tensor& target);

Sample two(const char* op, const char* name, Shape shape, Two f, double low = -2, double high = 2) {
  return Sample(op, name).in(shape, low, high).in(shape, low, high).composed().calls([f](const TensorList& in) {
    return f(in[0], in[1]);
  });
}

/// A plain sample, and one without elements.
void losses_add(std::vector<Sample>& all, const char* op, Two f, double low = -2, double high = 2) {
  all.push_back(two(op, "plain", {3, 7}, f, low, high));
  all.push_back(two(op, "no elements", {0, 3}, f, low, high).gradients(Gradients::first));
}

}  // namespace

// Sums, so that none of no elements is NaN.
std::vector<Sample> samples_in_loss_composed() {
  std::vector<Sample> all;
  constexpr Reduction kSum = Reduction::sum;
  losses_add(
      all, "binary_cross_entropy",
      [](const Tensor& x, const Tensor& t) { return binary_cross_entropy(x, t, {}, kSum); }, 0.1, 0.9);
  losses_add(all, "binary_cross_entropy_with_logits",
             [](const Tensor& x, const Tensor& t) { return binary_cross_entropy_with_logits(x, t, {}, kSum); });
  losses_add(
      all, "sigmoid_focal_loss", [](const Tensor& x, const Tensor& t) { return sigmoid_focal_loss(x, t); }, 0.1, 0.9);
  losses_add(
      all, "kl_div", [](const Tensor& x, const Tensor& t) { return kl_div(x, t, KLReduction::sum); }, 0.1, 0.9);
  losses_add(all, "poisson_nll_loss",
             [](const Tensor& x, const Tensor& t) { return poisson_nll_loss(x, t, true, false, 1e-8, kSum); });
  losses_add(all, "soft_margin_loss", [](const Tensor& x, const Tensor& t) { return soft_margin_loss(x, t, kSum); });
  losses_add(
      all, "dice_loss", [](const Tensor& x, const Tensor& t) { return dice_loss(x, t, 1, kSum); }, 0.1, 0.9);
  losses_add(
      all, "cosine_similarity", [](const Tensor& x, const Tensor& t) { return cosine_similarity(x, t); }, 0.3, 2);
  losses_add(all, "pairwise_distance", [](const Tensor& x, const Tensor& t) { return pairwise_distance(x, t); });
  losses_add(all, "cdist", [](const Tensor& x, const Tensor& t) { return cdist(x, t); });
  all.push_back(
      Sample("pdist", "plain").in({4, 3}).composed().calls([](const TensorList& in) { return pdist(in[0]); }));
  all.push_back(
      Sample("pdist", "no elements").in({0, 3}).composed().gradients(Gradients::none).calls([](const TensorList& in) {
        return pdist(in[0]);
      }));
  all.push_back(Sample("normalize", "no elements").in({0, 3}).composed().calls([](const TensorList& in) {
    return normalize(in[0]);
  }));
  all.push_back(Sample("normalize", "plain").in({3, 5}, 0.3, 2).composed().calls([](const TensorList& in) {
    return normalize(in[0]);
  }));
  losses_add(all, "triplet_margin_with_distance_loss", [](const Tensor& x, const Tensor& t) {
    return triplet_margin_with_distance_loss(x, t, t * 0.5 + 1.0, {}, 4, true, kSum);
  });
  losses_add(all, "l1_loss", [](const Tensor& x, const Tensor& t) { return l1_loss(x, t, kSum); });
  losses_add(all, "smooth_l1_loss", [](const Tensor& x, const Tensor& t) { return smooth_l1_loss(x, t, kSum); });
  losses_add(all, "huber_loss", [](const Tensor& x, const Tensor& t) { return huber_loss(x, t, kSum); });
  losses_add(all, "multilabel_soft_margin_loss",
             [](const Tensor& x, const Tensor& t) { return multilabel_soft_margin_loss(x, t, {}, kSum); });
  losses_add(all, "gaussian_nll_loss",
             [](const Tensor& x, const Tensor& t) { return gaussian_nll_loss(x, t, x * x + 0.5, true, 1e-6, kSum); });
  losses_add(all, "margin_ranking_loss",
             [](const Tensor& x, const Tensor& t) { return margin_ranking_loss(x, t, ones_like(x), 0.5, kSum); });
  losses_add(all, "cosine_embedding_loss", [](const Tensor& x, const Tensor& t) {
    return cosine_embedding_loss(x, t, ones({x.size(0)}, {x.dtype(), x.device()}), 0, kSum);
  });
  losses_add(all, "triplet_margin_loss", [](const Tensor& x, const Tensor& t) {
    return triplet_margin_loss(x, t, x * 0.5, 9, 2, 1e-6, false, kSum);
  });
  for (const auto& [name, rows] : {std::pair("plain", 5), std::pair("no elements", 0)}) {
    const Gradients checked = rows == 0 ? Gradients::first : Gradients::second;
    all.push_back(Sample("nll_loss", name)
                      .in({rows, 7}, -4, 4)
                      .index({rows}, 0, 7)
                      .in({7}, 0.5, 2)
                      .composed()
                      .calls([](const TensorList& in) { return nll_loss(in[0], in[1], in[2], 3, kSum); })
                      .gradients(checked));
    all.push_back(Sample("hinge_embedding_loss", name)
                      .in({rows, 7})
                      .mask({rows, 7})
                      .composed()
                      .calls([](const TensorList& in) {
                        return hinge_embedding_loss(in[0], where(in[1], ones_like(in[0]), -1.0), 9, kSum);
                      })
                      .gradients(Gradients::first));
    all.push_back(Sample("multi_margin_loss", name)
                      .in({rows, 7}, -4, 4)
                      .index({rows}, 0, 7)
                      .in({7}, 0.5, 2)
                      .composed()
                      .calls([](const TensorList& in) { return multi_margin_loss(in[0], in[1], 2, 1, in[2], kSum); })
                      .gradients(checked));
    all.push_back(Sample("multilabel_margin_loss", name)
                      .in({rows, 4}, -4, 4)
                      .index({rows, 4}, -1, 4)
                      .composed()
                      .calls([](const TensorList& in) { return multilabel_margin_loss(in[0], in[1], kSum); })
                      .gradients(Gradients::first));
  }
  all.push_back(
      Sample("ctc_loss", "plain").in({4, 2, 3}).index({2, 2}, 1, 3).composed().calls([](const TensorList& in) {
        return ctc_loss(log_softmax(in[0], -1), in[1], {4, 3}, {2, 1}, 0, Reduction::none);
      }));
  all.push_back(Sample("ctc_loss", "no elements")
                    .in({3, 0, 4})
                    .index({0, 2}, 1, 3)
                    .composed()
                    .calls([](const TensorList& in) {
                      return ctc_loss(in[0], in[1], std::vector<std::int64_t>{}, {}, 0, Reduction::sum);
                    })
                    .gradients(Gradients::first));
  return all;
}

}  // namespace etna::conformance
