#pragma once

#include <etna/dist/dist.h>
#include <etna/dist/internal/engine.h>
#include <etna/tensor/op.h>

namespace etna::distributed {

/// Begins to reduce x in place, and returns. Nobody may touch x before finish_all_reduces_(). Part of captured steps
/// like any other op. @param x contiguous
void start_all_reduce_(const Tensor& x, Reduce reduce, const ProcessGroup& group = {});
/// Waits for all that were started. @param arena a tensor on their device, which the graph orders it by
void finish_all_reduces_(const Tensor& arena);

}  // namespace etna::distributed
