#pragma once

#include <etna/nn/dropout.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::nn {

/// The base of encodings that add the first rows of a table [max_len, dim] to x, then drop out.
class PositionalEncoding : public UnaryModule {
 public:
  /// @param x [..., T, dim], T ≤ max_len @throws ShapeError
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  Dropout dropout;

 protected:
  explicit PositionalEncoding(double p);
  virtual const Tensor& table() const = 0;
};

/// x + sines and cosines of the position (Vaswani et al. 2017): element 2i is sin(t / 10000^(2i/dim)), element 2i + 1
/// the cosine. Then dropout. The table is the buffer "pe" [max_len, dim].
class SinusoidalPositionalEncoding : public PositionalEncoding {
 public:
  explicit SinusoidalPositionalEncoding(std::int64_t dim, std::int64_t max_len = 5000, double dropout = 0);

  Tensor pe;

 protected:
  const Tensor& table() const override { return pe; }
  std::unique_ptr<Module> another() const override;
};

/// x + weight[0 ... T-1], then dropout. weight [max_len, dim] starts normal with standard deviation 0.02.
class LearnedPositionalEncoding : public PositionalEncoding {
 public:
  LearnedPositionalEncoding(std::int64_t dim, std::int64_t max_len, double dropout = 0);

  Tensor weight;

 protected:
  const Tensor& table() const override { return weight; }
  std::unique_ptr<Module> another() const override;
};

/// rope() with its frequencies, which are computed again rather than saved: they are no part of state_dict(). They
/// follow x to its device at the first call there.
class RotaryEmbedding : public Module {
 public:
  /// @param size R, how many elements of a row are rotated; even
  explicit RotaryEmbedding(std::int64_t size, double base = 10000, bool interleaved = false);
  /// @param x [..., T, D] @param positions as in rope()
  Tensor forward(const Tensor& x, const Tensor& positions = {}) const;
  Tensor operator()(const Tensor& x, const Tensor& positions = {}) const;
  std::string extra_repr() const override;

  const std::int64_t size;
  const double base;
  const bool interleaved;

 protected:
  std::unique_ptr<Module> another() const override;

 private:
  mutable Tensor frequencies_;
};

}  // namespace etna::nn
