#include <gtest/gtest.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/fft/fft.h>
#include <torch/cases.h>

namespace etna {
namespace {

using fft::Norm;
using FftCall = std::function<Tensor(const Tensor&)>;

/// torch.hann_window(n)
Tensor hann(std::int64_t n, const Tensor& like) {
  std::vector<double> w;
  for (std::int64_t i = 0; i < n; ++i)
    w.push_back(0.5 - 0.5 * std::cos(2 * 3.14159265358979323846 * static_cast<double>(i) / static_cast<double>(n)));
  return from_vector(w).to(like.dtype()).to(like.device());
}

const std::map<std::string, FftCall>& fft_calls() {
  static const std::map<std::string, FftCall> all = {
      {"fft", [](const Tensor& x) { return fft::fft(x); }},
      {"fft 6", [](const Tensor& x) { return fft::fft(x); }},
      {"fft 1", [](const Tensor& x) { return fft::fft(x); }},
      {"fft 131", [](const Tensor& x) { return fft::fft(x); }},
      {"fft n ortho", [](const Tensor& x) { return fft::fft(x, 5, -1, Norm::ortho); }},
      {"fft pad dim", [](const Tensor& x) { return fft::fft(x, 7, 0, Norm::forward); }},
      {"ifft", [](const Tensor& x) { return fft::ifft(x); }},
      {"ifft forward", [](const Tensor& x) { return fft::ifft(x, {}, 0, Norm::forward); }},
      {"rfft", [](const Tensor& x) { return fft::rfft(x); }},
      {"rfft odd", [](const Tensor& x) { return fft::rfft(x, {}, -1, Norm::ortho); }},
      {"rfft dim", [](const Tensor& x) { return fft::rfft(x, 6, 0); }},
      {"irfft", [](const Tensor& x) { return fft::irfft(x); }},
      {"irfft odd", [](const Tensor& x) { return fft::irfft(x, 7, -1, Norm::ortho); }},
      {"irfft 1", [](const Tensor& x) { return fft::irfft(x, 1); }},
      {"hfft", [](const Tensor& x) { return fft::hfft(x); }},
      {"ihfft", [](const Tensor& x) { return fft::ihfft(x); }},
      {"fft2", [](const Tensor& x) { return fft::fft2(x); }},
      {"ifft2",
       [](const Tensor& x) {
         return fft::ifft2(x, {3, 4});
       }},
      {"rfft2",
       [](const Tensor& x) {
         return fft::rfft2(x, {}, {-2, -1}, Norm::ortho);
       }},
      {"irfft2",
       [](const Tensor& x) {
         return fft::irfft2(x, {4, 5});
       }},
      {"fftn", [](const Tensor& x) { return fft::fftn(x); }},
      {"ifftn",
       [](const Tensor& x) {
         return fft::ifftn(x, {}, {0, 2});
       }},
      {"rfftn",
       [](const Tensor& x) {
         return fft::rfftn(x, {2, 5});
       }},
      {"irfftn", [](const Tensor& x) { return fft::irfftn(x); }},
      {"fftshift", [](const Tensor& x) { return fft::fftshift(x, fft::Layout::real); }},
      {"ifftshift", [](const Tensor& x) { return fft::ifftshift(x, fft::Layout::real, 0); }},
      {"stft", [](const Tensor& x) { return fft::stft(x, 8, hann(8, x)); }},
      {"stft hop",
       [](const Tensor& x) {
         return fft::stft(x, 8, hann(6, x),
                          {.hop_length = 3, .win_length = 6, .center = false, .normalized = true, .onesided = false});
       }},
      {"istft", [](const Tensor& x) { return fft::istft(x, 8, hann(8, x)); }},
      {"istft length", [](const Tensor& x) { return fft::istft(x, 8, {}, {.hop_length = 3, .normalized = true}, 17); }},
  };
  return all;
}

TEST(TorchFft, ValuesAndGradients) {
  const nlohmann::json all = figures::load("fft");
  for (Device device : figures::devices()) {
    for (const auto& [name, figure] : all["cases"].items()) {
      for (DType dtype : {f64, f32}) {
        if (dtype == f64 && !device.is_cpu()) continue;
        const double tolerance = dtype == f64 ? 1e-12 : 1e-5;
        const Tensor x = figures::tensor(figure["x"], device, dtype).requires_grad_();
        const Tensor y = fft_calls().at(name)(x);
        figures::expect_close(y, figure["value"], tolerance, name + " on " + device.str());
        const Tensor seed = figures::tensor(figure["seed"], device, dtype);
        const TensorList gradients = autograd::grad(TensorList{y}, TensorList{x}, TensorList{seed});
        figures::expect_close(gradients[0], figure["gradient"], tolerance, name + ", gradient on " + device.str());
      }
    }
  }
}

TEST(TorchFft, Frequencies) {
  const nlohmann::json all = figures::load("fft");
  for (const auto& [n, figure] : all["fftfreq"].items()) {
    figures::expect_close(fft::fftfreq(std::stoll(n), 0.5, f64), figure["fftfreq"], 1e-15, n);
    figures::expect_close(fft::rfftfreq(std::stoll(n), 0.5, f64), figure["rfftfreq"], 1e-15, n);
  }
}

}  // namespace
}  // namespace etna
