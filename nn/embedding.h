#pragma once

#include <optional>

#include <etna/nn/dropout.h>
#include <etna/nn/module.h>
#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/indexing/indexing.h>

namespace etna::nn {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  ///< a row that starts at 0 and gets no gradient
};

/// Rows of a table: y[i] = weight[index[i]]. weight [count, dim] is initialized standard normal.
class Embedding : public UnaryModule {
 public:
  /// @throws IndexError for a padding_idx outside [-count, count)
  Embedding(std::int64_t count, std::int64_t dim, EmbeddingOptions options = {});
  /// @param index [...] i64 or i32 in [0, count) @return [..., dim]
  Tensor forward(const Tensor& index) const override;

  std::string extra_repr() const override;

  Tensor weight;
  EmbeddingOptions options;

 protected:
  std::unique_ptr<Module> another() const override;
};

using etna::BagMode;
using etna::EmbeddingBagOptions;

/// embedding_bag() with its table and settings. weight [count, dim] is initialized standard normal; the row padding_idx
/// starts at 0.
class EmbeddingBag : public Module {
 public:
  EmbeddingBag(std::int64_t count, std::int64_t dim, EmbeddingBagOptions options = {});
  /// @return [B, dim]
  Tensor forward(const Tensor& index, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;
  Tensor operator()(const Tensor& index, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;
  std::string extra_repr() const override;

  Tensor weight;
  EmbeddingBagOptions options;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// Images as sequences of patches (Dosovitskiy et al. 2021): one linear layer on each patch × patch square. Named and
/// shaped as a convolution, proj.weight [dim, channels, patch, patch] and proj.bias [dim], and started as one.
class PatchEmbedding : public UnaryModule {
 public:
  PatchEmbedding(std::int64_t channels, std::int64_t dim, std::int64_t patch, bool bias = true);
  /// @param x [N, channels, H, W], whose sides are multiples of the patch @return [N, H/patch · W/patch, dim]
  /// @throws ShapeError
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  struct Projection : Module {
    Tensor weight, bias;  ///< bias is undefined if left out
    Projection(std::int64_t channels, std::int64_t dim, std::int64_t patch, bool bias);
  };
  Projection proj;

 protected:
  std::unique_ptr<Module> another() const override;
};

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
