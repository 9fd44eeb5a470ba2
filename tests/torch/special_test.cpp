#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include <etna/tensor/ops.h>
#include <torch/cases.h>

namespace etna {
namespace {

using SpecialIn = const TensorList&;

const std::map<std::string, figures::Function>& special_calls() {
  static const std::map<std::string, figures::Function> all = {
      {"lgamma", [](SpecialIn in) { return lgamma(in[0]); }},
      {"digamma", [](SpecialIn in) { return digamma(in[0]); }},
      {"polygamma 1", [](SpecialIn in) { return polygamma(1, in[0]); }},
      {"polygamma 2", [](SpecialIn in) { return polygamma(2, in[0]); }},
      {"polygamma 3", [](SpecialIn in) { return polygamma(3, in[0]); }},
      {"polygamma 5", [](SpecialIn in) { return polygamma(5, in[0]); }},
      {"mvlgamma 3", [](SpecialIn in) { return mvlgamma(in[0], 3); }},
      {"i0", [](SpecialIn in) { return i0(in[0]); }},
      {"i1", [](SpecialIn in) { return i1(in[0]); }},
      {"logit", [](SpecialIn in) { return logit(in[0]); }},
      {"logit eps", [](SpecialIn in) { return logit(in[0], 0.1); }},
      {"deg2rad", [](SpecialIn in) { return deg2rad(in[0]); }},
      {"rad2deg", [](SpecialIn in) { return rad2deg(in[0]); }},
      {"frexp mantissa", [](SpecialIn in) { return frexp(in[0]).mantissa; }},
      {"frexp exponent", [](SpecialIn in) { return frexp(in[0]).exponent; }},
      {"fmax", [](SpecialIn in) { return fmax(in[0], in[1]); }},
      {"fmin", [](SpecialIn in) { return fmin(in[0], in[1]); }},
      {"logaddexp2", [](SpecialIn in) { return logaddexp2(in[0], in[1]); }},
      {"float_power", [](SpecialIn in) { return float_power(in[0], in[1]); }},
      {"heaviside", [](SpecialIn in) { return heaviside(in[0], in[1]); }},
      {"ldexp", [](SpecialIn in) { return ldexp(in[0], in[1]); }},
      {"gcd", [](SpecialIn in) { return gcd(in[0], in[1]); }},
      {"lcm", [](SpecialIn in) { return lcm(in[0], in[1]); }},
      {"nextafter", [](SpecialIn in) { return nextafter(in[0], in[1]); }},
  };
  return all;
}

/// The name in calls(), without the range behind it.
std::string function_of(std::string name) {
  for (const char* range : {" positive", " negative", " zeros", " edges"}) {
    const std::size_t at = name.find(range);
    if (at != std::string::npos) name.resize(at);
  }
  return name;
}

// Relative to each value by itself. Near the zeros between the poles of negative arguments, where terms of about 1
// cancel, relative to 1.
TEST(TorchSpecial, ValuesAreWithinTwoMillionthsOfEachOne) {
  const nlohmann::json cases = figures::load("special")["cases"];
  for (Device device : figures::devices()) {
    for (const auto& [name, figure] : cases.items()) {
      if (name == "float_power" && !device.is_cpu()) continue;  // in f64
      const std::string what = name + " on " + device.str();
      ASSERT_TRUE(special_calls().contains(function_of(name))) << name;
      TensorList in;
      for (const auto& input : figure["inputs"]) in.push_back(figures::tensor(input, device));
      const Tensor y = special_calls().at(function_of(name))(in), wanted = figures::tensor(figure["value"], kCPU, f64);
      ASSERT_EQ(y.shape(), wanted.shape()) << what;
      const std::vector<double> got = y.to_vector<double>(), want = wanted.to_vector<double>();
      const double least = name.find("negative") != std::string::npos ? 1 : 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i]) continue;
        // What f32 rounds to infinity, or to a subnormal number that a device may flush to 0.
        if (std::isinf(got[i]) && std::abs(want[i]) > 3.402823e38) continue;
        if (std::abs(want[i]) < 1.2e-38 && std::abs(got[i]) < 1.2e-38) continue;
        EXPECT_LE(std::abs(got[i] - want[i]), 2e-6 * std::max(std::abs(want[i]), least))
            << what << " at "
            << in[0].reshape({in[0].numel()}).to_vector<double>()[i % static_cast<std::size_t>(in[0].numel())] << ": "
            << got[i] << ", PyTorch has " << want[i];
      }
    }
  }
}

TEST(TorchSpecial, Gradients) {
  const nlohmann::json cases = figures::load("special")["gradients"];
  for (Device device : figures::devices()) {
    for (const auto& [name, figure] : cases.items()) {
      ASSERT_TRUE(special_calls().contains(name)) << name;
      figures::expect_case(figure, special_calls().at(name), device, f32, 1e-5, name + " on " + device.str());
    }
  }
}

// PyTorch's own polygamma(1) is wrong in the tenth digit.
TEST(TorchSpecial, InF64) {
  const nlohmann::json all = figures::load("special");
  for (const auto& [name, figure] : all["cases"].items()) {
    if (name == "nextafter" || name == "float_power") continue;
    TensorList in;
    for (const auto& input : figure["inputs"]) in.push_back(figures::tensor(input, kCPU, f64));
    figures::expect_close(special_calls().at(function_of(name))(in), figure["value"], 2e-10, name + " in f64");
  }
}

}  // namespace
}  // namespace etna
