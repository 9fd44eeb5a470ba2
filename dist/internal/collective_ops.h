#pragma once

#include <etna/dist/dist.h>
#include <etna/dist/internal/engine.h>
#include <etna/dist/internal/peer_exchange.h>
#include <etna/tensor/op.h>

namespace etna::distributed {

/// Begins to reduce x in place, and returns. Nobody may touch x before finish_all_reduces_(). Part of captured steps
/// like any other op. @param x contiguous
void start_all_reduce_(const Tensor& x, Reduce reduce, const ProcessGroup& group = {});
/// Begins to reduce the equal parts of `all`, of which `own` gets this rank's, and returns; as start_all_reduce_().
/// @param own [n], contiguous @param all [size() · n], contiguous, other storage
void start_reduce_scatter_(const Tensor& own, const Tensor& all, Reduce reduce);
/// Begins to gather the tensors of all ranks, and returns; as start_all_reduce_().
/// @param all [size() · n], contiguous, other storage @param own [n], contiguous
void start_all_gather_(const Tensor& all, const Tensor& own);
/// Waits for all that were started. @param arena a tensor on their device, which the graph orders it by
void finish_all_reduces_(const Tensor& arena);

/// An exchange of parts of an arena between two ranks; null where gradients are reduced otherwise. All ranks call it.
std::shared_ptr<PeerExchange> make_exchange(Device device, std::size_t bytes, std::size_t parts);
/// A flat tensor over its memory.
Tensor over(const StoragePtr& storage, DType dtype, std::int64_t count);
/// Begins to exchange a part, and returns: `own` goes to the other rank's `inbox`. Whatever touches them waits.
void start_exchange_(PeerExchange& exchange, std::int64_t part, const Tensor& own, const Tensor& inbox);

}  // namespace etna::distributed
