#pragma once

#include <string>

#include <etna/tensor/shape.h>

/// Settings as Python prints them, for extra_repr().
namespace etna::nn {

std::string repr_of(bool value);    ///< "True"
std::string repr_of(double value);  ///< "1.0", "1e-05"
/// One number is "3", several are "(3, 2)". @param none printed as "None"
std::string repr_of(const Dims& dims, std::int64_t none);
std::string repr_of(const Dims& dims);
/// "alpha=1.0"
std::string repr_of(const char* name, double value);
/// As many numbers as a layer has dimensions, "(3, 3)" or "(3,)"; one number stands for all.
std::string tuple_of(const Dims& dims, int count);

}  // namespace etna::nn
