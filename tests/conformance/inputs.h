#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <conformance/samples.h>

/// Drawing a sample's inputs and laying them out in memory. Conversions are written out here, so that the values handed
/// to an op, and read from it, do not pass through the ops under test.
namespace etna::conformance {

/// How the tensor lies in its storage.
enum class Variant {
  contiguous,
  offset,      ///< contiguous, but one element behind the storage's begin
  sliced,      ///< every second element of longer rows, NaN between
  transposed,  ///< dimensions stored in reverse
  expanded,    ///< the first dimension larger than 1 repeats its first entry
};
inline constexpr Variant kVariants[] = {Variant::contiguous, Variant::offset, Variant::sliced, Variant::transposed,
                                        Variant::expanded};
const char* name(Variant variant);

/// True where it differs from `contiguous` for some input.
bool applies(const Sample& sample, Variant variant);

/// The dtype an input has when the walk runs in `dtype`.
DType dtype_of(const Input& input, DType dtype);

/// An input that was drawn: a block of memory and the view of it that the op gets.
struct Drawn {
  const Input* input = nullptr;
  Variant variant = Variant::contiguous;
  Tensor base;                 ///< contiguous, on the CPU; undefined for an input that is left out
  std::vector<double> values;  ///< row-major values of the view, as the dtype holds them

  /// The view on a device; a leaf that requires grad where `grad` and the input is differentiable.
  Tensor on(Device device, bool grad) const;
  /// The same values in f64 (indices and masks in their own dtype), contiguous, on the CPU.
  Tensor exact(bool grad) const;
  bool differentiable() const { return base.defined() && input->differentiable && is_floating(base.dtype()); }
};
std::vector<Drawn> draw(const Sample& sample, DType dtype, Variant variant);

/// Gradients to send into outputs of these shapes: values in ±[0.5, 1.5] as `dtype` holds them.
std::vector<double> draw_gradient(const Sample& sample, std::size_t output, std::int64_t count, DType dtype);

/// A contiguous tensor on the CPU. Wraps integers as C++ does.
Tensor make(const std::vector<double>& values, const Shape& shape, DType dtype);
/// The values of a tensor on the CPU in row-major order, by its strides.
std::vector<double> read(const Tensor& x);
/// What `dtype` makes of a value: rounded, truncated, wrapped.
double rounded(double value, DType dtype);

/// FNV-1a over the elements' bytes in row-major order.
std::uint64_t hash(const Tensor& x, std::uint64_t seed = 1469598103934665603ull);

}  // namespace etna::conformance
