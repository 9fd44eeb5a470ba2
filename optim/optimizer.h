#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna {
struct StepNumbers;
}

namespace etna::optim {

/// Parameters that are stepped alike.
///     optim::AdamW optimizer({{.parameters = matrices, .weight_decay = 0.1},
///                             {.parameters = vectors, .weight_decay = 0}},
///                            {.lr = 1e-3});
struct ParamGroup {
  static constexpr double kDefault = -1;  ///< replaced by the optimizer's own setting when it is made
  std::vector<Tensor> parameters = {};
  double lr = kDefault;
  double weight_decay = kDefault;
};

/// Changes parameters by their gradients. Parameters without a gradient are passed over. State lives on the parameter's
/// device and follows it when the model moves.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  std::vector<ParamGroup>& groups() { return groups_; }
  const std::vector<ParamGroup>& groups() const { return groups_; }

  /// One update of every parameter that has a gradient.
  void step();
  /// The norm of the gradients of the last step, unscaled and before clipping, found on their device. Kept by
  /// optimizers that clip or are stepped by a GradScaler; the next step overwrites it. @return 0-d f32; undefined where
  /// there is none
  Tensor grad_norm() const;
  /// Drops every gradient.
  void zero_grad();
  /// Of every group.
  void set_lr(double lr);
  /// Of the first group.
  double lr() const { return groups_.front().lr; }

  /// Step counts and moments as "3.step", "3.exp_avg" (3: the parameter's position over all groups), and "group.0.lr",
  /// "group.0.weight_decay". Tensors share storage with the optimizer's own; numbers are f64 on the CPU.
  std::map<std::string, Tensor> state_dict() const;
  /// Copies values; nothing is changed where anything is wrong. @throws Error listing every name that does not fit
  void load_state_dict(const std::map<std::string, Tensor>& state);

 protected:
  /// What is kept of one parameter. Tensors are made at its first step.
  struct State {
    std::int64_t step = 0;        ///< that were asked for
    std::int64_t skipped = 0;     ///< by the optimizer, before this parameter's first step
    std::vector<Tensor> tensors;  ///< one for each of state_names(), f32, or f64 for f64 parameters
  };

  /// @param max_grad_norm what gradients are scaled down to, as one vector, in the pass that steps; 0: no bound
  /// @throws Error where there is no parameter, one appears twice, or one does not require grad; for a negative setting
  Optimizer(std::vector<ParamGroup> groups, double lr, double weight_decay, double max_grad_norm);

  /// Names of the tensors kept of a parameter: "exp_avg" ...
  virtual std::vector<std::string> state_names() const = 0;
  /// Steps parameters of one device, all as often stepped before. What changes from step to step is in `numbers`.
  /// @param list parameter, gradient, state tensors, parameter, gradient, state tensors ... @param control the step's,
  /// or undefined
  virtual void update(const std::vector<Tensor>& list, const StepNumbers& numbers, const Tensor& control) = 0;

 private:
  friend class GradScaler;
  /// @param loss_scale [3] or undefined @param scaled gradients still hold it
  void step(const Tensor& loss_scale, bool scaled);
  std::vector<Tensor> gradients() const;
  Tensor control_from(const std::vector<Tensor>& gradients, const Tensor& loss_scale, bool scaled);
  /// Some parameter gets its first gradient after others have made steps.
  bool newcomers() const;
  /// Steps that were not made so far; waits for the device where there may be any.
  std::int64_t skipped() const;

  std::vector<ParamGroup> groups_;
  std::vector<State> state_;
  double max_grad_norm_;
  Tensor control_;  ///< StepControl, on the gradients' device
};

}  // namespace etna::optim
