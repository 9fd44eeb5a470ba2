#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/expert_matmul.h>
#include <etna/tensor/ops/quantized/internal/experts.h>

#include "measure.h"

// Mixtures of experts whose weights are trained.
namespace bench {

using namespace etna;

namespace {

struct MixtureOfExperts {
  Tensor x, router, gate, up, down;
  std::int64_t experts, chosen;

  ExpertChoice choice() const { return choose_experts(linear(x, router), {}, {.chosen = chosen, .normalized = true}); }

  Tensor grouped() const {
    const auto [expert, factor] = choice();
    const Tensor h = silu(expert_matmul(x, gate, expert, experts)) * expert_matmul(x, up, expert, experts);
    return expert_matmul(h * factor.unsqueeze(-1), down, expert, experts, {.summed = true});
  }
  /// Each expert computes all rows, and those that did not choose it count 0 times.
  Tensor each_of_all_rows() const {
    const auto [expert, factor] = choice();
    const Tensor factors = scatter(zeros({x.size(0), experts}, {factor.dtype(), x.device()}), -1, expert, factor);
    Tensor sum;
    for (std::int64_t e = 0; e < experts; ++e) {
      const auto own = [&](const Tensor& all) {
        const std::int64_t rows = all.size(0) / experts;
        return all.slice(0, e * rows, (e + 1) * rows);
      };
      const Tensor y = linear(silu(linear(x, own(gate))) * linear(x, own(up)), own(down)) * factors.slice(1, e, e + 1);
      sum = sum.defined() ? sum + y : y;
    }
    return sum;
  }
};

}  // namespace

void mixtures(const Setting& setting, const Print& print) {
  manual_seed(1);
  const bool cpu = setting.device.is_cpu();
  const std::int64_t rows = cpu ? 512 : 4096, width = cpu ? 512 : 1024, hidden = width / 2, experts = 64, chosen = 8;
  const auto random = [&](Shape shape) {
    return (randn(shape) * 0.05).to(setting.device, setting.dtype).requires_grad_();
  };
  const MixtureOfExperts m{random({rows, width}),
                           random({experts, width}),
                           random({experts * hidden, width}),
                           random({experts * hidden, width}),
                           random({experts * width, hidden}),
                           experts,
                           chosen};
  const std::vector<Tensor> leaves = {m.x, m.router, m.gate, m.up, m.down};
  const std::string sizes = fmt::format("{} of {}, {}->{}, {} rows", chosen, experts, width, hidden, rows);
  print(timed(
      setting, "experts", sizes, [&] { return m.grouped(); }, leaves));
  print(timed(
      setting, "experts", sizes + ", each of all", [&] { return m.each_of_all_rows(); }, leaves));
}

}  // namespace bench
