#pragma once

#include <bit>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include <etna/device/kernel.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops/kernel.h>

/// Conveniences for the Vulkan side of ops.
namespace etna::vulkan {

using gpu::grid;
using gpu::range;
using gpu::Shader;
using gpu::PrologueFusion;
using Range = MemoryRange;

/// An address, or another 64-bit number, in a push-constant block: the shader's uvec2, which needs no more than 4-byte alignment.
class Word64 {
 public:
  Word64() = default;
  Word64(std::uint64_t value)
      : low_(static_cast<std::uint32_t>(value)), high_(static_cast<std::uint32_t>(value >> 32)) {}
  operator std::uint64_t() const { return low_ | static_cast<std::uint64_t>(high_) << 32; }
  Word64& operator+=(std::uint64_t n) { return *this = *this + n; }

 private:
  std::uint32_t low_ = 0, high_ = 0;
};

/// A push-constant block must match the shader's (scalar layout). Of words only, it has no padding, whose stray bytes a recording
/// could take for part of an address.
template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  static_assert(sizeof(T) <= 128 && alignof(T) == 4, "use vulkan::Word64 for 64-bit members");
  return {reinterpret_cast<const std::byte*>(&value), sizeof(T)};
}

inline std::uint32_t word(DType t) { return static_cast<std::uint32_t>(t); }
inline std::uint32_t word(bool b) { return b ? 1u : 0u; }
inline std::uint32_t word(std::int64_t n) { return static_cast<std::uint32_t>(n); }
inline std::uint32_t word(int n) { return static_cast<std::uint32_t>(n); }

/// Records one dispatch over tensors: ranges are taken from them. Spec and push as the shader declares.
template <typename Push>
void launch(const Shader& shader, const OpCall& call, std::span<const std::uint32_t> spec, const Push& push,
            std::array<std::uint32_t, 3> groups, std::span<const Tensor* const> reads,
            std::span<const Tensor* const> writes, const PrologueFusion* through = nullptr) {
  Range in[8], out[8];
  std::size_t n_in = 0, n_out = 0;
  Device device;
  for (const Tensor* x : reads) {
    if (x != nullptr && x->defined() && x->numel() > 0) in[n_in++] = range(*x);
  }
  for (const Tensor* y : writes) {
    if (y != nullptr && y->defined() && y->numel() > 0) out[n_out++] = range(*y), device = y->device();
  }
  gpu::record(device, {shader, call.op.name, spec, bytes_of(push), groups, {in, n_in}, {out, n_out}, nullptr, through});
}
template <typename Push>
void launch(const Shader& shader, const OpCall& call, std::initializer_list<std::uint32_t> spec, const Push& push,
            std::array<std::uint32_t, 3> groups, std::initializer_list<const Tensor*> reads,
            std::initializer_list<const Tensor*> writes, const PrologueFusion* through = nullptr) {
  launch(shader, call, std::span<const std::uint32_t>(spec.begin(), spec.size()), push, groups,
         std::span<const Tensor* const>(reads.begin(), reads.size()),
         std::span<const Tensor* const>(writes.begin(), writes.size()), through);
}

/// What a kernel puts in its push constants for an input that was left out: no shader reads it.
inline std::uint64_t address_or_zero(const Tensor& x) { return x.defined() ? x.address() : 0; }

}  // namespace etna::vulkan
