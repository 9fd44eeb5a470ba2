#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna {
struct StepNumbers;
}

namespace etna::distributed {
class Sharding;
}

namespace etna::optim {

/// Parameters that share their settings. What is left out is the optimizer's own setting; one that the optimizer does
/// not have is an error.
///     optim::AdamW optimizer({{.parameters = matrices, .weight_decay = 0.1},
///                             {.parameters = vectors, .weight_decay = 0}},
///                            {.lr = 1e-3});
struct ParamGroup {
  /// Stands for the optimizer's own setting.
  static constexpr double kDefault = -std::numeric_limits<double>::infinity();
  std::vector<Tensor> parameters = {};
  double lr = kDefault;
  double weight_decay = kDefault;
  double momentum = kDefault;
  double beta1 = kDefault, beta2 = kDefault;
  double eps = kDefault;
};

/// Those of its settings that an optimizer's options have.
template <typename Options>
ParamGroup settings_of(const Options& options) {
  ParamGroup settings;
  settings.lr = options.lr, settings.weight_decay = 0;
  if constexpr (requires { options.weight_decay; }) settings.weight_decay = options.weight_decay;
  if constexpr (requires { options.momentum; }) settings.momentum = options.momentum;
  if constexpr (requires { options.betas; }) {
    settings.beta1 = options.betas.first;
    settings.beta2 = options.betas.second;
  }
  if constexpr (requires { options.eps; }) settings.eps = options.eps;
  return settings;
}

/// Updates parameters by their gradients. Parameters without a gradient are skipped. State is on the parameter's device
/// and follows it when the model moves.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// The parameters and their settings, in the order in which they were added.
  const std::vector<ParamGroup>& groups() const { return groups_; }
  /// Settings of one group. @throws Error for a group that is not there, or a setting that is negative or not finite
  void set_lr(std::size_t group, double lr);
  void set_weight_decay(std::size_t group, double weight_decay);
  /// The momentum, or beta1 of optimizers with betas. Captured steps read it at each replay, as they read the learning
  /// rate; the other settings are constants of a captured step, and so is whether SGD's and RMSprop's momentum is 0.
  /// @throws Error also for an optimizer that has neither
  void set_momentum(std::size_t group, double momentum);
  bool has_momentum() const { return momentum_ != nullptr; }
  double momentum(std::size_t group) const;
  /// Adds parameters, a layer that is unfrozen later for example; they begin without state.
  /// @throws Error as the constructor, and then nothing changes
  void add_param_group(ParamGroup group);

  /// From now on this rank keeps the state of its part of each parameter alone, and steps that part (ZeRO). Norms are
  /// those of all ranks' gradients. All ranks step, and call state_dict(), together. Null: does nothing.
  ///     distributed::DataParallel parallel(model, {.zero_stage = 1});
  ///     optimizer.shard(parallel.sharding());
  /// @throws Error for an optimizer whose step of an element needs others (Muon, LAMB, Adafactor), after the first
  /// step, and for parameters that the sharding does not contain
  void shard(std::shared_ptr<distributed::Sharding> sharding);
  bool is_sharded() const { return sharding_ != nullptr; }

  /// Updates every parameter that has a gradient. Where none has one, it says so once on standard error.
  void step();
  /// The norm of the last step's gradients, unscaled and before clipping, on their device. Only optimizers that clip,
  /// or that a GradScaler steps, compute it. The next step overwrites it. @return 0-d f32, or undefined if there is
  /// none
  Tensor grad_norm() const;
  /// Drops all gradients.
  void zero_grad();
  /// Sets it for every group. @throws Error unless it is finite and not negative
  void set_lr(double lr);
  /// The learning rate of the first group.
  double lr() const { return groups_.front().lr; }

  /// Step counts and moments as "3.step", "3.exp_avg" (3: the parameter's position over all groups), and the groups'
  /// settings, "group.0.lr", "group.0.beta1" ... Tensors share storage with the optimizer; numbers are f64 on the CPU.
  /// Of a sharded optimizer, rank 0 gets the whole state, collected in host memory; the others get no moments.
  std::map<std::string, Tensor> state_dict() const;
  /// Copies values; a sharded optimizer takes its part of the whole state. Settings of groups other than lr and
  /// weight_decay may be missing: they stay. If anything is wrong, nothing changes.
  /// @throws Error listing every name that does not fit
  void load_state_dict(const std::map<std::string, Tensor>& state);

 protected:
  /// The state of one parameter. Its tensors are allocated at the first step.
  struct State {
    std::int64_t step = 0;        ///< steps asked for
    std::int64_t skipped = 0;     ///< steps the optimizer skipped before this parameter's first step
    bool begun = false;           ///< has made a step, or a captured step will
    std::vector<Tensor> tensors;  ///< one for each of state_names(); f32, or f64 for f64 parameters
  };

  /// @param name the class, for errors; a literal
  /// @param defaults settings of groups that give none, settings_of() the options; kDefault: the optimizer has no such
  /// setting
  /// @param max_grad_norm clips the gradients, as one vector, to this norm in the pass that steps; 0: no bound
  /// Parameters that do not require grad (frozen ones) are left out.
  /// @throws Error if none remains, if one appears twice, is no leaf or repeats elements, or for a negative setting
  Optimizer(const char* name, std::vector<ParamGroup> groups, ParamGroup defaults, double max_grad_norm);

  /// Names of the state tensors of a group's parameters: "exp_avg" ... A setting may add names at the end.
  virtual std::vector<std::string> state_names(const ParamGroup& group) const = 0;
  /// Shape and first value of a state. Only composed optimizers have states that differ in shape from the parameter.
  virtual Shape state_shape(const Tensor& parameter, [[maybe_unused]] std::size_t state) const {
    return parameter.shape();
  }
  virtual double initial_state() const { return 0; }
  /// Whether update() changes each element by its own gradient and states alone, so that parts can be stepped apart.
  virtual bool is_elementwise() const { return false; }
  /// Steps parameters of one group and device that have made equally many steps. `numbers` holds what changes from step
  /// to step, the momentum too.
  /// @param list parameter, gradient, state tensors; then the same for the next parameter
  /// @param control the control of this step, or undefined
  virtual void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                      const Tensor& control) = 0;

 private:
  friend class GradScaler;
  /// @param loss_scale [3] or undefined @param scaled the gradients still contain it
  void step(const Tensor& loss_scale, bool scaled);
  /// What is stepped: the parameter, or this rank's part of it, and its gradient.
  Tensor stepped(const Tensor& parameter) const;
  Tensor gradient(const Tensor& parameter) const;
  std::vector<Tensor> gradients() const;
  std::vector<Tensor> norm_of_all_ranks(const std::vector<Tensor>& gradients) const;
  void require_sharded(const ParamGroup& group) const;
  Tensor control_from(const std::vector<Tensor>& gradients, const Tensor& loss_scale, bool scaled);
  /// True if some parameter gets its first gradient after others have made steps.
  bool newcomers() const;
  /// Number of steps skipped so far; waits for the device if there may be any.
  std::int64_t skipped() const;

  void require_group(std::size_t index) const;
  void warn_of_no_gradients();

  std::function<std::string()> equal_steps(std::vector<std::size_t> list) const;
  /// The settings that captured steps hold as constants have changed, or the parameters.
  void settings_changed();

  std::vector<ParamGroup> groups_;
  std::vector<State> state_;
  std::shared_ptr<std::int64_t> version_;  ///< of these; shared with the captured steps that read it
  std::shared_ptr<distributed::Sharding> sharding_;
  const char* name_;
  ParamGroup defaults_;
  double ParamGroup::*momentum_ = nullptr;  ///< momentum, beta1, or null: it has neither
  double max_grad_norm_;
  bool told_ = false;  ///< that no parameter has a gradient
  Tensor control_;     ///< StepControl, on the gradients' device
};

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the norm of all gradients taken as one
/// vector (Pascanu et al. 2013). The norm stays on the gradients' device; nothing is read back. A NaN or infinity in a
/// gradient shows in the norm.
/// @param norm_type 2, 1 or infinity (largest magnitude)
/// @return the norm before scaling, 0-d; 0 if no parameter has a gradient
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2);

/// Clamps every element of every gradient to [-clip_value, clip_value], in place. NaN stays NaN.
/// @throws Error if the limit is negative
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace etna::optim
