#pragma once

#include <span>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/optimizer/internal/table.h>

/// The norm of many tensors as one vector, shared by global_norm and control_step_.
namespace etna::optimizer {

/// Larger than a step's chunk, since a second dispatch adds up the chunks.
inline constexpr std::int64_t kNormChunk = 8192;

/// f64 if one of them is f64, else f32.
DType widest(std::span<const Tensor> tensors);

/// @throws DtypeError
void require_floating(const OpCall& call, std::span<const Tensor> tensors);

/// @param order 1, 2 or infinity. Sums in f64, in an order that does not depend on the threads.
double norm_on_cpu(std::span<const Tensor> tensors, double order);

/// The same, composed of base ops. @return 0-d, of the widest dtype
Tensor composed_norm(std::span<const Tensor> tensors, double order);

/// The table for the variants of shaders/optimizer/global_norm.comp.
Rows rows_of(std::span<const Tensor> tensors, Access access);

/// Specialization constants of those variants. @param order 1, 2, or 0 for infinity
void add_norm_spec(gpu::Kernel& kernel, const Rows& rows, std::uint32_t order = 0);

/// Queues the dispatch that writes one partial norm (of `order`) per chunk, and starts building the dispatch that
/// combines them. Its arguments already include the partial results; the caller adds the norm and the remaining
/// arguments. @param rows not empty; keeps the partial results alive
gpu::Kernel norm_total(const OpCall& call, const gpu::Shader& total, Rows& rows, Device device, std::uint32_t order);

}  // namespace etna::optimizer
