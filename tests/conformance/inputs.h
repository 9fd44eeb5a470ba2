#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <conformance/samples.h>

/// Draws a sample's inputs and lays them out in memory. Conversions are implemented here, so that the values passed to
/// an op and read from it do not go through the ops under test.
namespace etna::conformance {

/// The layout of a tensor in its storage.
enum class Variant {
  contiguous,
  offset,      ///< contiguous, but one element after the start of the storage
  sliced,      ///< every second element of longer rows, with NaN between
  transposed,  ///< dimensions stored in reverse
  expanded,    ///< the first dimension larger than 1 repeats its first entry
};
inline constexpr Variant kVariants[] = {Variant::contiguous, Variant::offset, Variant::sliced, Variant::transposed,
                                        Variant::expanded};
const char* name(Variant variant);

/// True if it differs from `contiguous` for some input.
bool applies(const Sample& sample, Variant variant);

/// The dtype an input has when the walk runs in `dtype`.
DType dtype_of(const Input& input, DType dtype);

/// A drawn input: a block of memory, and the view of it that the op gets.
struct Drawn {
  const Input* input = nullptr;
  Variant variant = Variant::contiguous;
  Tensor base;                 ///< contiguous, on the CPU; undefined for an absent input
  std::vector<double> values;  ///< row-major values of the view, as the dtype holds them

  /// The view on a device; with `grad`, a leaf that requires grad if the input is differentiable.
  Tensor on(Device device, bool grad) const;
  /// The same values in f64 (indices and masks in their own dtype), contiguous, on the CPU.
  Tensor exact(bool grad) const;
  bool differentiable() const { return base.defined() && input->differentiable && is_floating(base.dtype()); }
};
std::vector<Drawn> draw(const Sample& sample, DType dtype, Variant variant);

/// Gradients of outputs of these shapes: values in ±[0.5, 1.5] as `dtype` holds them.
std::vector<double> draw_gradient(const Sample& sample, std::size_t output, std::int64_t count, DType dtype);

/// A contiguous tensor on the CPU. Wraps integers as C++ does.
Tensor make(const std::vector<double>& values, const Shape& shape, DType dtype);
/// The values of a tensor on the CPU in row-major order, by its strides.
std::vector<double> read(const Tensor& x);
/// A value converted to `dtype`: rounded, truncated, wrapped.
double rounded(double value, DType dtype);

/// FNV-1a over the elements' bytes in row-major order.
std::uint64_t hash(const Tensor& x, std::uint64_t seed = 1469598103934665603ull);

}  // namespace etna::conformance
