#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/kernel.h>

/// What a dispatch computes, said in words that do not need its pipeline: a recording joins neighbouring commands with
/// it (fusion/). Dtypes are the numbers of shaders/lib/dtype.glsl, which are etna::DType's.
namespace etna::gpu {

/// Where operand i of an iteration lies: i taken apart by `sizes`, each index times its stride. Neighbouring dimensions
/// are merged where that operand allows it, so that equal walks touch equal elements in equal order.
struct StridedView {
  std::uint64_t address = 0;
  std::uint32_t dtype = 0;
  std::uint32_t rank = 0;                   ///< 0: one element, whatever i
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

/// y[i] = expression(a[i], b[i], c[i]) for i below n.
struct ElementwiseInfo {
  const char* name = "";        ///< of the op, for labels
  const char* expression = "";  ///< GLSL, of a, b, c of type T; a literal
  bool integers = false;        ///< T is int; else float
  int arity = 1;
  int scalar_at = 0;  ///< 1, 2, 3: that operand is `scalar`, the bits of a T; 0: none
  std::uint32_t scalar = 0;
  std::uint32_t n = 0;
  std::array<StridedView, 4> operands;  ///< the result first
};

/// A dispatch that reads x element by element through load_x() of its shader's text, where a computed value may stand
/// in for the bytes; `x` is contiguous, and the dispatch reads nothing else that is written.
struct PrologueFusion {
  const char* name = "";     ///< of the op, for labels
  const char* source = "";   ///< "reduce.comp"
  const char* defines = "";  ///< of the variant, as lines of GLSL
  StridedView x;
  std::uint32_t n = 0;              ///< elements of x
  std::vector<std::uint32_t> spec;  ///< the dispatch's own
};

}  // namespace etna::gpu
