#include <algorithm>
#include <cmath>
#include <numeric>

#include <etna/train/text_training.h>

namespace etna::training {
namespace {

/// splitmix64 (Steele et al. 2014), scaled to [0, 1).
double next_uniform(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

}  // namespace

std::int32_t draw_token(const std::vector<float>& logits, double temperature, std::int64_t top_k,
                        std::uint64_t& state) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = top_k > 0 ? std::min(order.size(), static_cast<std::size_t>(top_k)) : order.size();
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), likelier);
  if (temperature <= 0) return order[0];
  std::vector<double> weights(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    const float below_best = logits[static_cast<std::size_t>(order[i])] - logits[static_cast<std::size_t>(order[0])];
    weights[i] = std::exp(static_cast<double>(below_best) / temperature);
  }
  double at = next_uniform(state) * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < kept; ++i) {
    if ((at -= weights[i]) < 0) return order[i];
  }
  return order[kept - 1];
}

}  // namespace etna::training
