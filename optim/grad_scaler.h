#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  ///< steps in a row without a gradient that is not finite before the scale grows
  bool enabled = true;                  ///< false: everything passes through, for f32 and bf16
};

/// Keeps f16 gradients from vanishing (Micikevicius et al. 2018): the loss is multiplied by a scale, gradients are
/// divided by it in the optimizer's own pass, and a step whose gradients are not all finite is skipped and halves the
/// scale. The scale and every decision live on the device; nothing waits for the host, and a captured step replays
/// them.
///     optim::GradScaler scaler;
///     scaler.scale(loss).backward();
///     scaler.step(optimizer);
///     scaler.update();
class GradScaler {
 public:
  /// @throws Error for a setting outside its range
  explicit GradScaler(GradScalerOptions options = {});

  /// loss · scale. @param loss f32, 0-d or not
  Tensor scale(const Tensor& loss);
  /// Divides the optimizer's gradients by the scale, for who wants to look at them or clip them himself before step().
  /// @throws Error where they are unscaled already
  void unscale_(Optimizer& optimizer);
  /// Steps the optimizer, unless a gradient is not finite: then nothing changes. @throws Error before the first scale()
  void step(Optimizer& optimizer);
  /// Once a step, behind the optimizers' steps: lets the scale grow, or backs off.
  void update();

  bool enabled() const { return options_.enabled; }
  /// The scale now; waits for the device. 1 where disabled.
  double get_scale() const;
  /// "scale" and "growth_tracker", f64 on the CPU. Empty where disabled.
  std::map<std::string, Tensor> state_dict() const;
  /// @throws Error listing what is missing or not known
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  const Tensor& state_on(Device device);

  GradScalerOptions options_;
  double scale_, growth_tracker_ = 0;  ///< until there is a state
  Tensor state_;                       ///< as update_loss_scale_ has it
  std::set<const Optimizer*> unscaled_;
};

}  // namespace etna::optim
