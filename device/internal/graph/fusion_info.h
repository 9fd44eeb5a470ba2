#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <etna/device/kernel.h>

/// What a dispatch computes, independent of its shader. A graph uses it to fuse commands (fuse.h).
/// Dtypes are numbered as in shaders/lib/dtype.glsl, which matches etna::DType.
namespace etna::gpu {

/// The address of operand i of an iteration: i is decomposed by `sizes`, and each index is multiplied by its stride.
/// Neighbouring dimensions are merged where that operand allows it, so equal views visit equal elements in equal order.
struct StridedView {
  std::uint64_t address = 0;
  std::uint32_t dtype = 0;
  std::uint32_t rank = 0;                   ///< 0: one element for every i
  std::array<std::uint32_t, 4> sizes = {};  ///< outermost first
  std::array<std::uint32_t, 4> strides = {};

  /// @param sizes, strides of at most four dimensions, outermost first
  StridedView() = default;
  StridedView(std::uint64_t address, std::uint32_t dtype, std::span<const std::uint32_t> sizes,
              std::span<const std::uint32_t> strides);

  bool contiguous() const { return rank == 0 || (rank == 1 && strides[0] == 1); }
  std::uint32_t count() const;  ///< elements of the iteration
  std::uint32_t item_bytes() const;
  MemoryRange range() const;  ///< from its first to its last element
  friend bool operator==(const StridedView&, const StridedView&) = default;
};

/// y[i] = expression(a[i], b[i], c[i]) for i < n.
struct ElementwiseInfo {
  const char* name = "";        ///< the op's name, for labels
  const char* expression = "";  ///< GLSL in a, b, c of type T; a string literal
  bool integers = false;        ///< T is int, otherwise float
  int arity = 1;
  int scalar_at = 0;  ///< 1, 2, 3: that operand is `scalar`, the bits of a T; 0: no operand
  std::uint32_t scalar = 0;
  std::uint32_t n = 0;
  std::array<StridedView, 4> operands;  ///< the result first
};

/// A dispatch that reads each element of x through load_x() of its shader source, so that fusion can replace the load
/// by a computed value. `x` is contiguous. The dispatch reads nothing else that a command writes.
struct PrologueFusion {
  const char* name = "";     ///< the op's name, for labels
  const char* source = "";   ///< "reduce.comp"
  const char* defines = "";  ///< the variant's defines, as lines of GLSL
  StridedView x;
  std::uint32_t n = 0;  ///< elements of x
};

}  // namespace etna::gpu
