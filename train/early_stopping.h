#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include <etna/tensor/tensor.h>

namespace etna::training {

struct EarlyStoppingOptions {
  std::int64_t patience = 5;  ///< evaluations in a row without improvement after which to stop; 0: never stop
  double min_delta = 0;       ///< an improvement is larger than this
  bool maximize = false;      ///< larger is better: accuracy
};

/// Watches a validation metric.
///     if (stopping.improved(loss)) checkpoints.save(step, {}, true);  // the best so far
///     if (stopping.should_stop()) break;
class EarlyStopping {
 public:
  /// @throws Error for a negative option or NaN
  explicit EarlyStopping(EarlyStoppingOptions options = {});

  /// Takes the value of one evaluation. @return true if it is the best so far; a NaN never is
  bool improved(double value);
  /// True if the last value was the best so far.
  bool improved() const { return bad_ == 0 && best_ != std::numeric_limits<double>::infinity(); }
  /// After `patience` values in a row that did not improve.
  bool should_stop() const { return options_.patience > 0 && bad_ >= options_.patience; }
  /// Infinite before the first value.
  double best() const { return options_.maximize ? -best_ : best_; }

  /// "best" and "num_bad", f64 on the CPU.
  std::map<std::string, Tensor> state_dict() const;
  /// @throws Error unless these are the names
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  EarlyStoppingOptions options_;
  double best_ = std::numeric_limits<double>::infinity();  ///< negated if larger is better
  std::int64_t bad_ = 0;
};

}  // namespace etna::training
