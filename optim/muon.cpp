#include <etna/optim/sgd.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/optim/internal/composed_step.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {
namespace {

void require_matrix(const Tensor& p) {
  if (p.dim() < 2) {
    throw ShapeError(
        fmt::format("Muon: a parameter {} is no matrix; give vectors to another optimizer, AdamW", str(p.shape())));
  }
}

/// A matrix with the singular vectors of x and singular values near 1.
Tensor orthogonal(const Tensor& x, const MuonOptions& o) {
  const bool tall = x.size(0) > x.size(1);
  Tensor u = tall ? x.t() : x;
  u = u / clamp(l2_norm(u), o.eps, {});
  for (int i = 0; i < o.ns_steps; ++i) {
    const Tensor s = matmul(u, u.t());
    u = u * o.ns_a + matmul(s * o.ns_b + matmul(s, s) * o.ns_c, u);
  }
  return tall ? u.t() : u;
}

}  // namespace

Muon::Muon(std::vector<Tensor> parameters, MuonOptions options)
    : Muon(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

Muon::Muon(std::vector<ParamGroup> groups, MuonOptions options)
    : Optimizer("Muon", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {
  if (options.ns_steps < 1 || options.ns_steps >= 100)
    throw Error(fmt::format("Muon: ns_steps is {}, it must lie in [1, 100)", options.ns_steps));
  for (const ParamGroup& group : this->groups()) {
    for (const Tensor& p : group.parameters) require_matrix(p);
  }
}

std::vector<std::string> Muon::state_names(const ParamGroup&) const { return {"momentum_buffer"}; }

void Muon::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                  const Tensor& control) {
  MuonOptions settings = options_;
  settings.eps = group.eps;
  for (std::size_t i = 0; i < list.size(); i += 3) {
    require_matrix(list[i]);  // groups may be added later
    if (list[i].numel() == 0) continue;
    const ComposedStep step(list[i], list[i + 1], numbers, control, options_.maximize);
    const Tensor &b = list[i + 2], &g = step.gradient;
    const Tensor buffer = b + (g - b) * step.one_minus_momentum;
    const Tensor direction = options_.nesterov ? g + (buffer - g) * step.momentum : buffer;
    const std::int64_t rows = list[i].size(0), columns = list[i].numel() / rows;
    const Tensor u = orthogonal(direction.reshape({rows, columns}), settings);
    const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
    const double scale = options_.match_rms_adamw ? 0.2 * std::sqrt(std::max(r, c)) : std::sqrt(std::max(1.0, r / c));
    const Tensor kept = step.x * (1.0 - step.lr * step.weight_decay);
    step.write(list[i], kept - u.reshape(list[i].shape()) * (step.lr * scale));
    step.write(b, buffer);
  }
}

}  // namespace etna::optim
