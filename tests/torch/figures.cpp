#include <torch/figures.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/tensor/ops.h>

namespace etna::figures {
namespace {

DType dtype_named(const std::string& name) {
  for (DType t : {f64, f32, f16, bf16, i64, i32, i8, u8, boolean}) {
    if (name == etna::name(t)) return t;
  }
  throw FormatError("figures: there is no dtype '" + name + "'");
}

double number(const nlohmann::json& figure) {
  if (figure.is_number()) return figure.get<double>();
  if (figure.is_boolean()) return figure.get<bool>() ? 1 : 0;
  const std::string word = figure.get<std::string>();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  return word == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

std::vector<double> numbers(const nlohmann::json& figures) {
  std::vector<double> all;
  for (const nlohmann::json& figure : figures.at("values")) all.push_back(number(figure));
  return all;
}

Shape shape_of(const nlohmann::json& figures) {
  Shape shape;
  for (const nlohmann::json& size : figures.at("shape")) shape.push_back(size.get<std::int64_t>());
  return shape;
}

}  // namespace

nlohmann::json load(const std::string& name) {
  const std::string path = ETNA_SOURCE_DIR "/tests/torch/" + name + ".json";
  std::ifstream in(path);
  if (!in) throw FormatError("cannot read " + path);
  return nlohmann::json::parse(in);
}

Tensor tensor(const nlohmann::json& figures, Device device, DType dtype) {
  const DType own = dtype_named(figures.at("dtype"));
  Tensor values = from_vector(numbers(figures), shape_of(figures));
  return values.to(is_floating(own) ? dtype : own).to(device);
}

void expect_close(const Tensor& got, const nlohmann::json& figures, double tolerance, const std::string& what) {
  ASSERT_TRUE(got.defined()) << what;
  ASSERT_EQ(got.shape(), shape_of(figures)) << what;
  const std::vector<double> values = got.detach().to_vector<double>(), wanted = numbers(figures);
  double squares = 0, finite = 0;
  for (double w : wanted) {
    if (std::isfinite(w)) squares += w * w, ++finite;
  }
  const double typical = finite > 0 ? std::sqrt(squares / finite) : 0;
  const bool exact = !is_floating(got.dtype());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double w = wanted[i], y = values[i];
    if (std::isnan(w) ? std::isnan(y) : y == w) continue;
    const double error = std::abs(y - w) / std::max(std::abs(w), typical);
    ASSERT_TRUE(!exact && error <= tolerance) << fmt::format(
        "{}: element {}: {}, PyTorch has {} (error {:.1e}, allowed {:.1e})", what, i, y, w, error, tolerance);
  }
}

std::vector<Device> devices() {
  std::vector<Device> all = {kCPU};
  for (const AdapterInfo& adapter : adapters()) {
    if (adapter.device == kVulkan && adapter.rejected.empty()) all.push_back(kVulkan);
  }
  return all;
}

}  // namespace etna::figures
