#include <cmath>
#include <limits>

#include <etna/models/decoder_block.h>
#include <etna/models/internal/model_split.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/experts.h>

// Feed-forward layers of a decoder: one for all positions, or a mixture of experts.
namespace etna::models {
namespace {

constexpr double kNoScore = -1e30;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

std::int64_t count_of(const ExpertConfig* experts) { return experts == nullptr ? 1 : experts->count; }
/// Of what the layer reads and gives.
std::int64_t row_size(const DecoderConfig& config, const ExpertConfig* experts) {
  return experts == nullptr ? config.width : config.expert_width();
}
bool has_bias(const DecoderConfig& config, const ExpertConfig* experts) {
  return experts == nullptr ? config.ffn_bias : experts->bias;
}

/// How many standard deviations above the mean a share of normal numbers ends.
double deviations_of(double share) {
  return std::sqrt(2.0) * erfinv(full({1}, 2 * share - 1, {f64, kCPU})).item<double>();
}

/// The bias of the expert that a row chose. @param bias [experts · M] @param expert [R, C] @return [R, C, M]
Tensor chosen_bias(const Tensor& bias, const Tensor& expert, std::int64_t experts) {
  return embedding(bias.reshape({experts, -1}), expert);
}

/// A softmax over the scores that come near to the best one, and the best expert's share of it.
/// @param scores [R, E] @param all the scores before any was taken out
std::pair<Tensor, Tensor> best_of_near(const Tensor& scores, const Tensor& all, double jitter) {
  const ValuesIndices best = topk(scores, 1, -1);
  const Tensor distance = (best.values - all) / maximum(abs(all), best.values);
  const Tensor near = distance > 2 * jitter;
  const Tensor shares = softmax(full_like(scores, kNoScore).where(near, scores), -1);
  return {best.indices, gather(shares, -1, best.indices)};
}

}  // namespace

Xielu::Xielu(Weights& weights, const std::string& name)
    : alpha_p(weights.vector(name + ".alpha_p", 1)),
      alpha_n(weights.vector(name + ".alpha_n", 1)),
      beta(weights.vector(name + ".beta", 1)),
      eps(weights.vector(name + ".eps", 1)) {
  register_parameter("alpha_p", &Xielu::alpha_p);
  register_parameter("alpha_n", &Xielu::alpha_n);
  register_buffer("beta", &Xielu::beta);
  register_buffer("eps", &Xielu::eps);
}

Tensor Xielu::forward(const Tensor& x) const {
  const Tensor above = softplus(alpha_p), below = beta + softplus(alpha_n);
  const Tensor curve = (above * x * x).where(x > 0.0, (expm1(minimum(x, eps)) - x) * below);
  return curve + beta * x;
}

ExpertRouter::ExpertRouter(Weights& weights, const std::string& name, std::int64_t width, const ExpertConfig& config)
    : logits(weights, name + ".logits", width, config.count, config.bias), config_(config) {
  if (config.choice_bias) choice_bias = weights.vector(name + ".choice_bias", config.count);
  register_module("logits", logits);
  register_parameter("choice_bias", &ExpertRouter::choice_bias);
}

ChosenExperts ExpertRouter::choose(const Tensor& x, const ProjectionMode& mode) const {
  const Tensor given = logits(x, mode).to(f32);
  if (config_.router == RouterKind::sparsemixer) {
    const auto [first, first_share] = best_of_near(given, given, config_.jitter);
    const Tensor others = scatter(given, -1, first, full_like(first_share, kNoScore));
    const auto [second, second_share] = best_of_near(others, given, config_.jitter);
    return {cat({first, second}, -1), cat({first_share, second_share}, -1)};
  }
  const ExpertChoice choice = choose_experts(given, choice_bias,
                                             {.chosen = config_.chosen,
                                              .sigmoid = config_.router == RouterKind::sigmoid,
                                              .groups = config_.groups,
                                              .chosen_groups = config_.chosen_groups,
                                              .groups_by_best = config_.groups_by_best,
                                              .normalized = config_.normalized,
                                              .scale = config_.scale});
  return {choice.expert, choice.factor};
}

DecoderFeedForward::DecoderFeedForward(Weights& weights, const std::string& name, const DecoderConfig& config,
                                       std::int64_t columns, const ExpertConfig* experts, const ModelSplit& split,
                                       double sparsity)
    : router(experts == nullptr ? nullptr
                                : std::make_unique<ExpertRouter>(weights, name + ".router", config.width, *experts)),
      gate(config.gated
               ? std::make_unique<Projection>(weights, name + ".gate", row_size(config, experts),
                                              columns * count_of(experts), has_bias(config, experts), count_of(experts))
               : nullptr),
      up(weights, name + ".up", row_size(config, experts), columns * count_of(experts), has_bias(config, experts),
         count_of(experts)),
      down(weights, name + ".down", columns, row_size(config, experts) * count_of(experts), has_bias(config, experts),
           count_of(experts)),
      sub_norm(config.sub_norms
                   ? std::make_unique<Norm>(weights, name + ".sub_norm", NormKind::rms, columns, config.norm_eps)
                   : nullptr),
      xielu(config.xielu ? std::make_unique<Xielu>(weights, name + ".activation") : nullptr),
      shared(experts == nullptr || experts->shared == 0
                 ? nullptr
                 : std::make_unique<DecoderFeedForward>(weights, name + ".shared", config, experts->shared)),
      shared_gate(shared && experts->shared_gate
                      ? std::make_unique<Projection>(weights, name + ".shared_gate", config.width, 1, false)
                      : nullptr),
      latent_down(experts != nullptr && experts->latent > 0
                      ? std::make_unique<Projection>(weights, name + ".latent_down", config.width, experts->latent,
                                                     config.ffn_bias)
                      : nullptr),
      latent_up(latent_down ? std::make_unique<Projection>(weights, name + ".latent_up", experts->latent, config.width,
                                                           config.ffn_bias)
                            : nullptr),
      activation_(config.activation),
      gate_scale_(config.gate_scale),
      down_scale_(config.down_scale),
      split_(split),
      deviations_(sparsity > 0 ? deviations_of(sparsity) : kNotANumber),
      config_(experts) {
  if (router) register_module("router", *router);
  if (gate) register_module("gate", *gate);
  register_module("up", up);
  register_module("down", down);
  if (sub_norm) register_module("sub_norm", *sub_norm);
  if (xielu) register_module("activation", *xielu);
  if (shared) register_module("shared", *shared);
  if (shared_gate) register_module("shared_gate", *shared_gate);
  if (latent_down) register_module("latent_down", *latent_down);
  if (latent_up) register_module("latent_up", *latent_up);
  if (gate && !router) concat_weights({gate.get(), &up});
}

Tensor DecoderFeedForward::forward(const Tensor& x, const ProjectionMode& mode) const {
  if (!router) return sum_of_parts(forward_part(x, mode), split_);
  const Tensor rows = x.reshape({-1, x.size(-1)});
  const ChosenExperts chosen = router->choose(rows, mode);
  const Tensor own = experts(latent_down ? (*latent_down)(rows, mode) : rows, chosen, mode);
  const Tensor y = (latent_up ? (*latent_up)(own, mode) : own).reshape(x.shape());
  if (!shared) return y;
  const Tensor beside = shared->forward(x, mode);
  return y + (shared_gate ? beside * sigmoid((*shared_gate)(x, mode)) : beside);
}

Tensor DecoderFeedForward::forward_part(const Tensor& x, const ProjectionMode& mode) const {
  if (xielu) return down((*xielu)(up(x, mode)), mode);
  if (!mode.generates && !gate && !sub_norm && up.plain() && down.plain())
    return feed_forward(x, up.weight, up.bias, down.weight, down.bias, activation_);
  const auto scaled = [](const Tensor& y, double scale) { return scale == 1 ? y : y * scale; };
  const Tensor first = gate ? scaled((*gate)(x, mode), gate_scale_) : up(x, mode);
  Tensor h = activate(std::isnan(deviations_) ? first : cut_off(first), activation_);
  if (gate) h = h * up(x, mode);
  return scaled(down(sub_norm ? (*sub_norm)(h) : h, mode), down_scale_);
}

/// What is above so many standard deviations of each row, the rest 0.
Tensor DecoderFeedForward::cut_off(const Tensor& gate) const {
  const Tensor centered = gate - gate.mean(-1, true);
  return relu(centered - sqrt((centered * centered).mean(-1, true)) * deviations_);
}

/// Between the matrices of an expert.
Tensor DecoderFeedForward::between(const Tensor& gate, const Tensor& up) const {
  const double limit = config_->limit;
  if (limit == 0) return activate(gate, activation_) * up;
  const Tensor g = clamp_max(gate, limit);
  return g * sigmoid(g * 1.702) * (clamp(up, -limit, limit) + 1.0);
}

Tensor DecoderFeedForward::experts(const Tensor& x, const ChosenExperts& chosen, const ProjectionMode& mode) const {
  if (const Device own = up.device(); own != x.device())
    return experts(x.to(own), {chosen.expert.to(own), chosen.factor.to(own)}, mode).to(x.device());
  const auto& [expert, factors] = chosen;
  const std::int64_t count = up.experts;
  const bool adapted = (gate && gate->has_adapter()) || up.has_adapter() || down.has_adapter();
  const bool in_blocks = mode.generates || up.frozen();
  if (in_blocks && !adapted && gate && config_->limit == 0 && !config_->scales_input && !up.bias.defined())
    return expert_feed_forward(x, gate->blocks(), up.blocks(), down.blocks(), {expert, factors}, activation_, count);
  const auto times = [&](const Tensor& rows, const Projection& layer) {
    const Tensor y = layer.of_experts(rows, chosen.expert, mode);
    return layer.bias.defined() ? y + chosen_bias(layer.bias, chosen.expert, count) : y;
  };
  const Tensor factor = factors.unsqueeze(-1);
  const Tensor rows = config_->scales_input ? x.unsqueeze(1) * factor : x;
  const Tensor h = gate ? between(times(rows, *gate), times(rows, up)) : activate(times(rows, up), activation_);
  if (mode.generates) {
    const Tensor y = times(h, down);
    return (config_->scales_input ? y : y * factor).sum(1).to(x.dtype());
  }
  // Gradients need what factors multiply: what is between the matrices has fewer columns than results of each choice.
  const Tensor y = down.of_experts(config_->scales_input ? h : h * factor, expert, mode, true);
  if (!down.bias.defined()) return y.to(x.dtype());
  const Tensor bias = chosen_bias(down.bias, expert, count);
  return (y + (config_->scales_input ? bias : bias * factor).sum(1)).to(x.dtype());
}

}  // namespace etna::models
