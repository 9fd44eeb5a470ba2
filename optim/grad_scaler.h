#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  ///< number of finite steps in a row after which the scale grows
  bool enabled = true;                  ///< false: everything passes through unchanged, for f32 and bf16
};

/// Keeps f16 gradients from underflowing (Micikevicius et al. 2018). The loss is multiplied by a scale, and the
/// optimizer's pass divides the gradients by it. If a gradient is not finite, the step is skipped and the scale is
/// halved, down to kLeastLossScale. The scale and every decision stay on the device: nothing waits for the host, and a
/// captured step replays them.
///     optim::GradScaler scaler;
///     scaler.scale(loss).backward();
///     scaler.step(optimizer);
///     scaler.update();
class GradScaler {
 public:
  /// @throws Error for a setting out of range
  explicit GradScaler(GradScalerOptions options = {});

  /// loss · scale. @param loss f32, 0-d or not
  Tensor scale(const Tensor& loss);
  /// Divides the optimizer's gradients by the scale, for callers who inspect or clip them before step().
  /// @throws Error if they are unscaled already
  void unscale_(Optimizer& optimizer);
  /// Steps the optimizer, unless a gradient is not finite: then nothing changes. @throws Error before the first scale()
  void step(Optimizer& optimizer);
  /// Grows or shrinks the scale. Call it once a step, after the optimizers' steps.
  void update();

  bool enabled() const { return options_.enabled; }
  /// The current scale; waits for the device. 1 if disabled.
  double get_scale() const;
  /// "scale" and "growth_tracker", f64 on the CPU. Empty if disabled.
  std::map<std::string, Tensor> state_dict() const;
  /// @throws Error listing missing and unknown names, or for a scale that f32 does not divide by
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  const Tensor& state_on(Device device);
  bool is_unscaled(const Optimizer& optimizer) const;

  GradScalerOptions options_;
  double scale_, growth_tracker_ = 0;  ///< used until state_ exists
  Tensor state_;                       ///< in the layout of update_loss_scale_
  std::vector<const Optimizer*> unscaled_;
};

}  // namespace etna::optim
