#include <conformance/samples.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>

namespace etna::conformance {
namespace {

using Drop = Tensor (*)(const Tensor& x, double p, bool training);

Sample stochastic_sample(const char* op, const char* name, Shape shape, Drop f, double p) {
  return Sample(op, name).in(shape).composed().gradients(Gradients::first).calls([=](const TensorList& in) {
    manual_seed(7);
    return f(in[0], p, true);
  });
}

Tensor locked(const Tensor& x, double p, bool training) { return locked_dropout(x, p, training); }

Sample stochastic_rows(const char* name, Shape index) {
  return Sample("embedding_dropout", name).in({7, 3}).index(index, 0, 7).composed().calls([](const TensorList& in) {
    manual_seed(7);
    return embedding_dropout(in[1], in[0], 0.4);
  });
}

Sample gumbel(const char* name, bool hard) {
  return Sample("gumbel_softmax", name).in({3, 5}).composed().calls([=](const TensorList& in) {
    manual_seed(7);
    return gumbel_softmax(in[0], 0.7, hard, 0);
  });
}

}  // namespace

std::vector<Sample> samples_in_stochastic() {
  return {stochastic_sample("dropout1d", "plain", {2, 3, 4}, dropout1d, 0.4),
          stochastic_sample("dropout1d", "no elements", {3, 0}, dropout1d, 0.4),
          stochastic_sample("dropout2d", "no elements", {2, 0, 3}, dropout2d, 0.4),
          stochastic_sample("dropout3d", "no elements", {2, 0, 3, 1}, dropout3d, 0.4),
          stochastic_sample("alpha_dropout", "no elements", {0, 3}, alpha_dropout, 0.4),
          stochastic_sample("feature_alpha_dropout", "no elements", {2, 0}, feature_alpha_dropout, 0.4),
          Sample("gumbel_softmax", "no elements").in({3, 0}).composed().calls([](const TensorList& in) {
            return gumbel_softmax(in[0], 1, true);
          }),
          stochastic_sample("dropout2d", "plain", {2, 5, 2, 3}, dropout2d, 0.4),
          stochastic_sample("dropout3d", "without a batch", {5, 2, 1, 3}, dropout3d, 0.4),
          stochastic_sample("alpha_dropout", "plain", {7, 11}, alpha_dropout, 0.3),
          stochastic_sample("alpha_dropout", "all", {5}, alpha_dropout, 1),
          stochastic_sample("feature_alpha_dropout", "plain", {2, 5, 3}, feature_alpha_dropout, 0.3),
          stochastic_sample("locked_dropout", "plain", {5, 3, 4}, locked, 0.4),
          stochastic_sample("locked_dropout", "no elements", {0, 3}, locked, 0.4),
          stochastic_rows("plain", {4}),
          stochastic_rows("no tokens", {0, 4}),
          gumbel("soft", false),
          gumbel("hard", true).gradients(Gradients::compared)};
}

}  // namespace etna::conformance
