#pragma once

#include <optional>
#include <string_view>

#include <etna/tensor/tensor.h>

/// Initializers: fill a parameter in place, off the tape, and return it. Random ones draw from the process's generator
/// (manual_seed), which gives the same bits on every device.
namespace etna::nn::init {

/// Sets every element to `value`.
Tensor constant_(Tensor x, double value);
/// Sets every element to 0.
Tensor zeros_(Tensor x);
/// Sets every element to 1.
Tensor ones_(Tensor x);
/// Uniform in [low, high).
Tensor uniform_(Tensor x, double low = 0, double high = 1);
/// Normal with this mean and standard deviation.
Tensor normal_(Tensor x, double mean = 0, double std = 1);
/// Normal within [low, high]: numbers outside are drawn again, on the host.
Tensor trunc_normal_(Tensor x, double mean = 0, double std = 1, double low = -2, double high = 2);
/// Uniform in ±gain·√(6/(fan_in + fan_out)) (Glorot & Bengio 2010). Here and below, @throws ShapeError for fewer than
/// two dimensions
Tensor xavier_uniform_(Tensor x, double gain = 1);
Tensor xavier_normal_(Tensor x, double gain = 1);  ///< of standard deviation gain·√(2/(fan_in + fan_out))
enum class FanMode { fan_in, fan_out };
/// Uniform in ±gain·√(3/fan), gain as calculate_gain() says (He et al. 2015); a = √5 gives ±1/√fan_in, a Linear's
/// default.
/// @param a slope of leaky_relu below 0
Tensor kaiming_uniform_(Tensor x, double a = 0, FanMode mode = FanMode::fan_in,
                        std::string_view nonlinearity = "leaky_relu");
/// Of standard deviation gain/√fan.
Tensor kaiming_normal_(Tensor x, double a = 0, FanMode mode = FanMode::fan_in,
                       std::string_view nonlinearity = "leaky_relu");
/// The factor by which a nonlinearity makes up for what it takes from the standard deviation: 1 for linear,
/// convolutions and sigmoid, 5/3 for tanh, √2 for relu, √(2/(1 + slope²)) for leaky_relu, 3/4 for selu. @throws Error
/// for others
double calculate_gain(std::string_view nonlinearity, std::optional<double> slope = {});
/// A random matrix with orthogonal rows or columns, whichever are fewer (Saxe et al. 2013); further dimensions count as
/// columns. Computed on the host.
Tensor orthogonal_(Tensor x, double gain = 1);
/// The identity, for two dimensions.
Tensor eye_(Tensor x);
/// Convolution weights [out, in, ...] of three to five dimensions that pass their input on.
/// @throws ShapeError unless groups divides out
Tensor dirac_(Tensor x, std::int64_t groups = 1);
/// Normal, with the share `sparsity` of each column set to 0, for two dimensions (Martens 2010).
Tensor sparse_(Tensor x, double sparsity, double std = 0.01);

}  // namespace etna::nn::init
