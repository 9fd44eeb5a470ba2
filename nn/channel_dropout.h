#pragma once

#include <etna/nn/dropout.h>

namespace etna::nn {

/// While training, zeroes whole channels with probability p and scales the rest by 1/(1-p) (Tompson et al. 2015).
/// Otherwise returns x.
class ChannelDropout : public UnaryModule {
 public:
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;
  double p;

 protected:
  /// @param ranks of inputs that are taken, and whether the shorter one lacks the batch
  ChannelDropout(double p, int shorter, int longer, bool shorter_unbatched, const char* name);

 private:
  int shorter_, longer_;
  bool shorter_unbatched_;
  const char* name_;
};

/// @param x [N, C, L], or [C, L]
class Dropout1d : public ChannelDropout {
 public:
  explicit Dropout1d(double p = 0.5) : ChannelDropout(p, 2, 3, true, "Dropout1d") {}

 protected:
  std::unique_ptr<Module> another() const override { return std::make_unique<Dropout1d>(p); }
};
/// @param x [N, C, H, W], or, as PyTorch reads three dimensions, [N, C, L]
class Dropout2d : public ChannelDropout {
 public:
  explicit Dropout2d(double p = 0.5) : ChannelDropout(p, 3, 4, false, "Dropout2d") {}

 protected:
  std::unique_ptr<Module> another() const override { return std::make_unique<Dropout2d>(p); }
};
/// @param x [N, C, D, H, W], or [C, D, H, W]
class Dropout3d : public ChannelDropout {
 public:
  explicit Dropout3d(double p = 0.5) : ChannelDropout(p, 4, 5, true, "Dropout3d") {}

 protected:
  std::unique_ptr<Module> another() const override { return std::make_unique<Dropout3d>(p); }
};

/// Dropout for networks with selu (Klambauer et al. 2017): dropped elements take selu's lower limit, and the result is
/// scaled and shifted so that mean 0 and variance 1 stay.
class AlphaDropout : public UnaryModule {
 public:
  /// @throws Error if p is not in [0, 1)
  explicit AlphaDropout(double p = 0.5);
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;
  double p;

 protected:
  std::unique_ptr<Module> another() const override { return std::make_unique<AlphaDropout>(p); }
};

}  // namespace etna::nn
