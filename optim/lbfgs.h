#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::optim {

enum class LineSearch { none, strong_wolfe };

struct LBFGSOptions {
  double lr = 1;  ///< length of a step, or of a line search's first trial
  std::int64_t max_iter = 20;
  std::int64_t max_eval = 0;        ///< evaluations of the closure in a step; 0: max_iter · 5/4
  double tolerance_grad = 1e-7;     ///< ends a step if no element of the gradient is larger
  double tolerance_change = 1e-9;   ///< ends a step if neither loss nor parameters change by more
  std::int64_t history_size = 100;  ///< pairs of vectors kept; each takes the memory of two gradients
  LineSearch line_search = LineSearch::none;
};

/// The quasi-Newton method of limited memory (Liu & Nocedal 1989), by PyTorch's formulas. A step evaluates the closure
/// many times. The host decides from numbers that it reads back, so a captured step cannot contain it; vectors stay on
/// the parameters' device.
///     optim::LBFGS optimizer(model.parameters(), {.line_search = optim::LineSearch::strong_wolfe});
///     optimizer.step([&] {
///       optimizer.zero_grad();
///       Tensor loss = ...;
///       loss.backward();
///       return loss;
///     });
class LBFGS {
 public:
  using Closure = std::function<Tensor()>;

  /// @param parameters leaves on one device; frozen ones are left out @throws Error if none remains, or for a setting
  /// out of range
  explicit LBFGS(std::vector<Tensor> parameters, LBFGSOptions options = {});

  /// @param closure drops the gradients, computes the loss and its gradients, and returns the loss
  /// @return the loss before the step @throws CaptureError while a step is captured
  Tensor step(const Closure& closure);
  void zero_grad();
  double lr() const { return options_.lr; }
  void set_lr(double lr) { options_.lr = lr; }

  /// "n_iter", "func_evals", "t", "h_diag", "prev_loss" (f64 on the CPU), and once a step was made "d",
  /// "prev_flat_grad", "old_dirs", "old_stps": vectors over all parameters, the last two [pairs, elements].
  std::map<std::string, Tensor> state_dict() const;
  /// @throws Error naming what does not fit; then nothing changes
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  struct Point {
    double loss;
    Tensor grad;
  };
  Tensor flat_grad() const;
  void move(double t, const Tensor& direction);
  Point evaluate(const Closure& closure);
  Tensor direction(const Tensor& grad);
  std::vector<Tensor> saved_parameters() const;
  /// @return the point found, its distance along d_, and the number of evaluations
  std::tuple<Point, double, std::int64_t> search(const Closure& closure, const Point& from, double t, double slope);

  std::vector<Tensor> parameters_;
  LBFGSOptions options_;
  Tensor d_, previous_grad_;
  std::vector<Tensor> old_dirs_, old_stps_;  ///< differences of gradients, and of parameters
  std::vector<double> ro_;
  double t_ = 0, h_diag_ = 1, previous_loss_ = 0;
  std::int64_t n_iter_ = 0, func_evals_ = 0;
};

}  // namespace etna::optim
