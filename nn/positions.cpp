#include <etna/nn/embedding.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

Tensor sinusoids(std::int64_t dim, std::int64_t length) {
  checked_size("SinusoidalPositionalEncoding", "dim", dim, 1);
  checked_size("SinusoidalPositionalEncoding", "max_len", length);
  std::vector<float> table(static_cast<std::size_t>(numel(Shape{length, dim}, "SinusoidalPositionalEncoding")));
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t i = 0; i < dim; ++i) {
      const double exponent = static_cast<double>(i - i % 2) / static_cast<double>(dim);
      const double angle = static_cast<double>(t) * std::pow(10000.0, -exponent);
      table[static_cast<std::size_t>(t * dim + i)] = static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return from_vector(table, Shape{length, dim});
}

}  // namespace

Tensor PositionalEncoding::forward(const Tensor& x) const {
  const Tensor& rows = table();
  if (x.dim() < 2 || x.size(-1) != rows.size(1) || x.size(-2) > rows.size(0)) {
    throw ShapeError(fmt::format("{}: x is {}; wanted [..., T, {}] with T at most {}", type_name(), str(x.shape()),
                                 rows.size(1), rows.size(0)));
  }
  return dropout(x + rows.slice(0, 0, x.size(-2)));
}
std::string PositionalEncoding::extra_repr() const {
  return fmt::format("{}, max_len={}", table().size(1), table().size(0));
}

SinusoidalPositionalEncoding::SinusoidalPositionalEncoding(std::int64_t dim, std::int64_t max_len, double p)
    : PositionalEncoding(p), pe(sinusoids(dim, max_len)) {
  register_buffer("pe", &SinusoidalPositionalEncoding::pe);
  register_module("dropout", dropout);
}

LearnedPositionalEncoding::LearnedPositionalEncoding(std::int64_t dim, std::int64_t max_len, double p)
    : PositionalEncoding(p),
      weight(init::normal_(empty({checked_size("LearnedPositionalEncoding", "max_len", max_len),
                                  checked_size("LearnedPositionalEncoding", "dim", dim)}),
                           0, 0.02)) {
  register_parameter("weight", &LearnedPositionalEncoding::weight);
  register_module("dropout", dropout);
}

RotaryEmbedding::RotaryEmbedding(std::int64_t size, double base, bool interleaved)
    : size(size), base(base), interleaved(interleaved), frequencies_(rotary_frequencies(size, base)) {}

Tensor RotaryEmbedding::forward(const Tensor& x, const Tensor& positions) const {
  if (x.defined() && frequencies_.device() != x.device()) frequencies_ = rotary_frequencies(size, base, x.device());
  return rope(x, frequencies_, positions, interleaved);
}

Tensor RotaryEmbedding::operator()(const Tensor& x, const Tensor& positions) const {
  if (!hooked()) return forward(x, positions);
  return call_hooked({x, positions}, [this](const TensorList& in) { return TensorList{forward(in[0], in[1])}; })[0];
}

std::string RotaryEmbedding::extra_repr() const {
  return fmt::format("{}, base={}, interleaved={}", size, base, interleaved ? "True" : "False");
}

PositionalEncoding::PositionalEncoding(double p) : dropout(p) {}

std::unique_ptr<Module> SinusoidalPositionalEncoding::another() const {
  return std::make_unique<SinusoidalPositionalEncoding>(pe.size(1), pe.size(0), dropout.p);
}

std::unique_ptr<Module> LearnedPositionalEncoding::another() const {
  return std::make_unique<LearnedPositionalEncoding>(weight.size(1), weight.size(0), dropout.p);
}

std::unique_ptr<Module> RotaryEmbedding::another() const {
  return std::make_unique<RotaryEmbedding>(size, base, interleaved);
}

}  // namespace etna::nn
