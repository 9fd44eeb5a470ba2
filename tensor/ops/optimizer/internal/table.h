#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/optimizer/internal/chunks.h>

/// Many tensors in one dispatch: a table of their addresses.
namespace etna::optimizer {

inline constexpr std::uint32_t kMixed = 255;

/// The table's rows as kernels read them, laid out as Row in shaders/lib/multi_tensor.glsl: addresses of up to five
/// tensors that are read together, their size, the first chunk, and the dtypes of the first two (the others are f32).
/// Tensors without elements have no row.
struct Rows {
  struct Entry {
    Tensor tensor;
    Access access;
  };
  static constexpr std::size_t kMostEntries = 5;

  Chunks chunks;
  Arguments arguments;
  std::uint32_t count = 0;
  std::uint32_t common_dtype[2] = {};  ///< common to all rows, or kMixed
  std::uint32_t width = 4;             ///< elements that can be loaded at once from every tensor: 4 or 1

  explicit Rows(std::int64_t chunk) : chunks(chunk) {}
  bool empty() const { return count == 0; }
  /// @param entries at most kMostEntries, of one shape; tensors that are written are contiguous
  void add(std::span<const Entry> entries);
  void add(std::initializer_list<Entry> entries) { add(std::span(entries.begin(), entries.size())); }
  /// Keeps x alive until the dispatch is queued; the rows must live until then.
  void keep(const Tensor& x) { kept_.push_back(x); }

 private:
  TensorList kept_;
};

/// Starts a dispatch over rows: queues their table and adds the arguments that all such shaders declare first. @param
/// rows not empty; keeps the table alive
gpu::Kernel kernel_over(const gpu::Shader& shader, const OpCall& call, Rows& rows, Device device);

}  // namespace etna::optimizer
