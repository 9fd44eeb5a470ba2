#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct PlateauOptions {
  bool maximize = false;       ///< larger metrics are better; PyTorch's mode "max"
  double factor = 0.1;         ///< multiplies the rates, in (0, 1)
  std::int64_t patience = 10;  ///< steps without a better metric that are let pass
  double threshold = 1e-4;     ///< a metric must be better by this to count
  bool relative = true;        ///< the threshold is a share of the best metric; PyTorch's threshold_mode "rel"
  std::int64_t cooldown = 0;   ///< steps after a reduction that do not count
  double min_lr = 0;
  double eps = 1e-8;  ///< a rate that would change by no more stays
};

/// Lowers the rates of all groups, also of those added later, when a metric stops getting better: PyTorch's
/// ReduceLROnPlateau. The metric is a number on the host, so call step() outside captured steps; their next replay uses
/// the rates.
class ReduceLROnPlateau {
 public:
  /// The optimizer must outlive it. @throws Error for a setting out of range
  explicit ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options = {});
  /// @param metric NaN is never better @throws Error while a step is captured
  void step(double metric);
  double best() const { return best_; }

  /// "best", "bad_steps", "cooldown_left": f64 on the CPU.
  std::map<std::string, Tensor> state_dict() const;
  /// @throws Error if a name is missing or unknown
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  bool better(double metric) const;

  Optimizer& optimizer_;
  PlateauOptions options_;
  double best_;
  std::int64_t bad_steps_ = 0, cooldown_left_ = 0;
};

}  // namespace etna::optim
