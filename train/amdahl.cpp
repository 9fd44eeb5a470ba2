#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/device/profile/profile.h>
#include <etna/train/runs.h>

namespace etna::training {
namespace {

constexpr std::size_t kNamed = 4;  ///< number of ops listed by name besides the matrix products

/// Groups an op with its gradient: "layer_norm_backward" belongs to layer_norm.
std::string family(std::string name) {
  constexpr std::string_view kBackward = "_backward";
  if (name.ends_with(kBackward)) name.resize(name.size() - kBackward.size());
  return name == "scaled_dot_product_attention" ? "attention" : name;
}

}  // namespace

std::string amdahl_line(const profile::Summary& summary) {
  if (summary.steps == 0 || summary.wall_ns == 0) return {};
  const auto wall = static_cast<double>(summary.wall_ns);
  std::map<std::string, double> by_family;
  double other = 0;
  for (const profile::OpTime& op : summary.ops) {
    if (!profile::is_product(op.name.c_str())) by_family[family(op.name)] += static_cast<double>(op.all_ns());
  }
  std::vector<std::pair<std::string, double>> longest(by_family.begin(), by_family.end());
  std::sort(longest.begin(), longest.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  const auto products = static_cast<double>(summary.product_ns);
  std::string text = fmt::format("matrix products {:.1f} %", products / wall * 100);
  for (std::size_t i = 0; i < longest.size(); ++i) {
    if (i < kNamed)
      text += fmt::format(", {} {:.1f} %", longest[i].first, longest[i].second / wall * 100);
    else
      other += longest[i].second;
  }
  text += fmt::format(", other ops {:.1f} %", other / wall * 100);
  const double between = wall - static_cast<double>(summary.ops_ns);
  text +=
      fmt::format(", {} {:.1f} %", summary.of_gpu ? "GPU idle" : "between ops", std::max(0.0, between) / wall * 100);
  const double rest = wall - products, steps = static_cast<double>(summary.steps);
  return text +
         fmt::format(
             "; without the products a step would still take {:.2f} ms: no more than {:.1f} x is to be had there",
             rest / steps * 1e-6, wall / rest);
}

}  // namespace etna::training
