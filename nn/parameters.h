#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <etna/nn/module.h>
#include <etna/tensor/tensor.h>

/// Parameters of modules as values: replaced for a call, computed from others before each call, or as one vector. As
/// with all hooks, a module whose parameters are computed has to be called by operator(); a module that hands its
/// weight to a fused op (TransformerEncoderLayer) does not call its layers.
namespace etna::nn {

/// While one lives, parameters and buffers of a module are other tensors: of the same shapes, recorded or not. Names
/// that the dictionary leaves out keep theirs. Where two members share one tensor, replacing either replaces both.
/// @throws Error for a name that the module does not have, ShapeError for another shape
class [[nodiscard]] WithTensors {
 public:
  WithTensors(Module& module, const StateDict& tensors);
  ~WithTensors();
  WithTensors(const WithTensors&) = delete;
  WithTensors& operator=(const WithTensors&) = delete;

 private:
  template <typename Visit>
  static void each_member(Module& module, const std::string& prefix, const Visit& visit);

  std::vector<std::pair<Tensor*, Tensor>> before_;
};

/// Calls `f` while the module has other parameters and buffers, and returns what f returns. With a function of these
/// parameters instead of the module's own one takes gradients with respect to updated weights (MAML), Jacobians, or
/// averages of models.
///     Tensor y = functional_call(net, {{"weight", w - grad * 0.1}}, [&] { return net(x); });
template <typename F>
auto functional_call(Module& module, const StateDict& tensors, F&& f) {
  const WithTensors scope(module, tensors);
  return std::forward<F>(f)();
}

/// weight = g · v / |v| (Salimans & Kingma 2016): replaces the parameter `name` by name_g and name_v.
/// @param dim of which each slice has its own norm; {}: one norm for all
/// @throws Error if the module has no such parameter
void weight_norm(Module& module, const std::string& name = "weight", std::optional<std::int64_t> dim = 0);
/// Makes the last value the parameter again. @throws Error if the parameter is not computed so
void remove_weight_norm(Module& module, const std::string& name = "weight");

/// weight = W / σ, where σ = uᵀ·W·v estimates W's largest singular value (Miyato et al. 2018): replaces the parameter
/// `name` by name_orig and the buffers name_u and name_v, which each call in training mode improves.
/// @param dim of W's outputs, its rows; the others are flattened
/// @throws Error if the module has no such parameter
void spectral_norm(Module& module, const std::string& name = "weight", int n_power_iterations = 1, double eps = 1e-12,
                   std::int64_t dim = 0);
/// Makes the normalized weight a parameter again.
void remove_spectral_norm(Module& module, const std::string& name = "weight");

/// DropConnect (Wan et al. 2013) on a weight, as AWD-LSTM has it between a recurrent layer's steps (Merity et al.
/// 2018): in training each call drops other elements with probability p, the same for all steps of the call. Replaces
/// the parameter `name` by name_raw.
///     nn::weight_drop(lstm, "weight_hh_l0", 0.5);
/// @throws Error if the module has no such parameter, or if p is not in [0, 1]
void weight_drop(Module& module, const std::string& name = "weight", double p = 0.5);
void remove_weight_drop(Module& module, const std::string& name = "weight");

/// All elements of the parameters in one vector, in order; differentiable. @throws Error for no parameters
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
/// Copies a vector's elements into the parameters, in order, in place and off the tape.
/// @throws ShapeError unless the vector has as many elements as the parameters
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace etna::nn
