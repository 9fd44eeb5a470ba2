#pragma once

#include <span>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/multi_tensor/pieces.h>
#include <etna/tensor/ops/multi_tensor/table.h>
#include <etna/tensor/vulkan.h>

/// The norm of many tensors as one vector: what global_norm and a step's control share.
namespace etna::multi_tensor {

/// Larger than an optimizer's: there is a sum over pieces to come.
inline constexpr std::int64_t kNormPiece = 8192;

/// f64 where one of them is, else f32.
DType widest(std::span<const Tensor> tensors);

/// @throws DtypeError
void require_floating(const OpCall& call, std::span<const Tensor> tensors);

/// @param order 1, 2 or infinity; sums in f64, in an order that does not depend on threads
double norm_on_cpu(std::span<const Tensor> tensors, double order);

/// The same composed of base ops. @return 0-d, of the widest dtype
Tensor composed_norm(std::span<const Tensor> tensors, double order);

/// Tensors as rows of a table, those without elements left out.
struct TensorRows {
  Pieces pieces{kNormPiece};
  std::vector<Row> rows;
  std::vector<vulkan::Range> ranges;
  TensorList kept;

  explicit TensorRows(std::span<const Tensor> tensors);
  /// Results beside them: the second address of each row. @param results as many, contiguous, of the same shapes and dtypes
  TensorRows(std::span<const Tensor> tensors, std::span<const Tensor> results);
};

/// As the variants of shaders/global_norm.comp declare it.
struct NormPush {
  vulkan::Word64 rows = {};
  std::uint32_t count = 0, pieces = 0;
  vulkan::Word64 partial = {}, norm = {}, loss_scale = {};
  float max_norm = 0;
};

/// Spec constants of its variants. @param order as a word: 1, 2, or 0 for infinity
std::vector<std::uint32_t> norm_spec(const Table& table, std::uint32_t order);

/// Records the dispatch that leaves one partial sum (of order's kind) a piece. @param rows not empty
struct PartialSums {
  Tensor sums;
  Table table;
  NormPush push;  ///< norm and what is behind it are the caller's to fill in
  PartialSums(const OpCall& call, TensorRows& rows, Device device, std::uint32_t order);
};

}  // namespace etna::multi_tensor
