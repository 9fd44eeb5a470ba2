#include <etna/nn/channel_dropout.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

double checked_probability(double p, const char* name) {
  if (!(p >= 0 && p < 1)) throw Error(fmt::format("{}: the probability {} is not in [0, 1)", name, p));
  return p;
}

}  // namespace

ChannelDropout::ChannelDropout(double p, int shorter, int longer, bool shorter_unbatched, const char* name)
    : p(checked_probability(p, name)),
      shorter_(shorter),
      longer_(longer),
      shorter_unbatched_(shorter_unbatched),
      name_(name) {}

Tensor ChannelDropout::forward(const Tensor& x) const {
  if (x.dim() != shorter_ && x.dim() != longer_) {
    throw ShapeError(fmt::format("{}: x is {}; wanted {} or {} dimensions", name_, str(x.shape()), shorter_, longer_));
  }
  if (!training() || p == 0) return x;
  const int kept = x.dim() == shorter_ && shorter_unbatched_ ? 1 : 2;
  Shape channels = x.shape();
  for (int d = kept; d < channels.rank(); ++d) channels[d] = 1;
  return x * dropout(ones(channels, {x.dtype(), x.device()}), p);
}

std::string ChannelDropout::extra_repr() const { return fmt::format("p={}, inplace=False", p); }

AlphaDropout::AlphaDropout(double p) : p(checked_probability(p, "AlphaDropout")) {}

Tensor AlphaDropout::forward(const Tensor& x) const {
  if (!training() || p == 0) return x;
  constexpr double kLimit = -1.7580993408473766;  // -scale · alpha of selu
  const double a = 1 / std::sqrt((1 - p) * (1 + p * kLimit * kLimit)), b = -a * kLimit * p;
  const Tensor kept = dropout(ones(x.shape(), {x.dtype(), x.device()}), p) * (1 - p);
  return x * kept * a + ((1.0 - kept) * (a * kLimit) + b);
}

std::string AlphaDropout::extra_repr() const { return fmt::format("p={}, inplace=False", p); }

}  // namespace etna::nn
