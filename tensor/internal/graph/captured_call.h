#pragma once

#include <vector>

#include <etna/tensor/op.h>

namespace etna {

/// A call of a CPU kernel in a captured step. Its tensors are on memory of the graph, or on storages that the step
/// keeps alive.
struct CapturedCall {
  const OpDef* op;
  Attrs attrs;
  TensorList in, out;
  std::vector<StoragePtr> workspace;  ///< planned memory for what the kernel allocates itself, in order
  const char* phase;                  ///< for the profiler

  /// Grad mode is off.
  void operator()();
};

}  // namespace etna
