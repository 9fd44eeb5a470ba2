#include <etna/optim/grad_scaler.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/device/profile/profiler.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/name_list.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

namespace {
/// Whether the device, which keeps the scale in f32, divides by it.
bool divides(double scale) { return scale >= 0x1p-126 && scale < 0x1p128; }
}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options), scale_(options.init_scale) {
  if (!divides(options.init_scale) || !(options.growth_factor >= 1) ||
      !(options.backoff_factor > 0 && options.backoff_factor <= 1) || options.growth_interval < 1) {
    throw Error(
        fmt::format("GradScaler: init_scale {}, growth_factor {}, backoff_factor {}, growth_interval {}; wanted are "
                    "a normal f32 above 0, at least 1, in (0, 1], at least 1",
                    options.init_scale, options.growth_factor, options.backoff_factor, options.growth_interval));
  }
}

const Tensor& GradScaler::state_on(Device device) {
  if (!state_.defined()) {
    NotCaptured now;  // replays continue from the current state
    GradMode off(false);
    state_ = zeros({3}, {f32, device});
    state_.select(0, 0).fill_(scale_);
    state_.select(0, 1).fill_(growth_tracker_);
  } else if (state_.device() != device) {
    NotCaptured now;
    state_ = state_.to(device);
  }
  return state_;
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!options_.enabled) return loss;
  unscaled_.clear();
  return loss * state_on(loss.device()).select(0, 0);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  if (!state_.defined()) throw Error("GradScaler: unscale_() before scale(): no loss was scaled");
  if (is_unscaled(optimizer))
    throw Error(
        "GradScaler: the gradients of this optimizer are unscaled already; unscale_() once between scale() and step()");
  unscaled_.push_back(&optimizer);
  etna::unscale_(optimizer.gradients(), state_);
}

bool GradScaler::is_unscaled(const Optimizer& optimizer) const {
  return std::find(unscaled_.begin(), unscaled_.end(), &optimizer) != unscaled_.end();
}

void GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return;
  }
  if (!state_.defined()) throw Error("GradScaler: step() before scale(): no loss was scaled");
  optimizer.step(state_, !is_unscaled(optimizer));
}

void GradScaler::update() {
  if (!options_.enabled || !state_.defined()) return;
  profile::Scope phase("optimizer", profile::Category::phase);
  unscaled_.clear();
  update_loss_scale_(state_, {options_.growth_factor, options_.backoff_factor, options_.growth_interval});
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return state_.defined() ? state_.select(0, 0).item<double>() : scale_;
}

std::map<std::string, Tensor> GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  double tracker = state_.defined() ? state_.select(0, 1).item<double>() : growth_tracker_;
  return {{"scale", etna::scalar(get_scale(), {f64})}, {"growth_tracker", etna::scalar(tracker, {f64})}};
}

void GradScaler::load_state_dict(const std::map<std::string, Tensor>& state) {
  if (!options_.enabled && state.empty()) return;
  auto scale = state.find("scale"), tracker = state.find("growth_tracker");
  if (state.size() != 2 || scale == state.end() || tracker == state.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : state) names.push_back(name);
    throw Error(fmt::format("GradScaler: load_state_dict: wanted are scale and growth_tracker, there are: {}",
                            name_list(names)));
  }
  const double loaded = scale->second.item<double>();
  if (!divides(loaded))
    throw Error(fmt::format("GradScaler: load_state_dict: a scale of {}; wanted is a normal f32 above 0", loaded));
  scale_ = loaded;
  growth_tracker_ = tracker->second.item<double>();
  state_ = {};
}

}  // namespace etna::optim
