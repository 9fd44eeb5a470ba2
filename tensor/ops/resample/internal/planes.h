#pragma once

#include <array>
#include <cstdint>

#include <etna/tensor/tensor.h>

/// Tensors with one to three spatial dimensions in the layout that kernels use.
namespace etna::resample {

using Sizes = std::array<std::int64_t, 3>;

/// x as [outer, D, H, W, inner], without a copy if its strides allow it. [N, C, H, W] becomes [N·C, 1, H, W, 1]; a view
/// whose channels are adjacent in memory becomes [N, 1, H, W, C], and so do the results.
class Planes {
 public:
  /// @param spatial 1 to 3: the last dimensions of x @throws ShapeError naming `op` if x has fewer
  Planes(const char* op, const Tensor& x, int spatial);

  const Tensor& folded() const { return folded_; }
  Sizes sizes() const;
  /// Gives another tensor of x's rank, such as indices or the gradient, the same layout.
  Tensor fold(const Tensor& x) const;
  /// A result [outer, D', H', W', inner] with x's leading dimensions.
  Tensor unfold(const Tensor& y) const;

 private:
  const char* op_;
  int spatial_;
  bool channels_last_ = false;
  Shape leading_;
  Tensor folded_;
};

}  // namespace etna::resample
