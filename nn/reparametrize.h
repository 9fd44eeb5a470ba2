#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <etna/nn/module.h>

/// Parameters that are computed from others before each call of their module. As with all hooks, the module has to be
/// called by operator(); a module that hands its weights to a fused op (TransformerEncoderLayer) does not call its
/// layers.
namespace etna::nn {

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

}  // namespace etna::nn
