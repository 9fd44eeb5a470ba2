#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <etna/tensor/tensor.h>

/// Results that PyTorch computed. tests/torch/make_<name>.py writes <name>.json with Debian's python3-torch:
///
///     /usr/bin/python3 tests/torch/make_loss.py
///
/// Figures are {"shape": [...], "dtype": "f64", "values": [...]}.
namespace etna::figures {

/// tests/torch/<name>.json
nlohmann::json load(const std::string& name);

/// A tensor of figures. @param dtype replaces the figures' own if they are floating
Tensor tensor(const nlohmann::json& figures, Device device = {}, DType dtype = f32);

/// Fails the test unless shapes are equal and every element is within `tolerance` of the figure, relative to the larger
/// of the figure's magnitude and the root mean square of all figures. NaN matches NaN. Integers and bool must be equal.
void expect_close(const Tensor& got, const nlohmann::json& figures, double tolerance = 1e-5,
                  const std::string& what = "");

/// The CPU, and the GPU where there is one.
std::vector<Device> devices();

}  // namespace etna::figures
