#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

#include <etna/device/arguments.h>
#include <etna/device/kernel.h>
#include <etna/tensor/op.h>

/// The GPU side of ops: one builder that states a kernel's arguments.
namespace etna::gpu {

/// The bytes from a tensor's first element to its last, whatever its strides.
MemoryRange range(const Tensor& x);
/// A tensor as an argument; null for an undefined one.
Pointer pointer(const Tensor& x);

/// Workgroups for `count` along x, folded into y above 65535; the shader computes y * gl_NumWorkGroups.x + x and checks
/// the end.
std::array<std::uint32_t, 3> grid(std::int64_t count);
/// Workgroups of `size` that cover `count` elements.
std::array<std::uint32_t, 3> grid(std::int64_t count, std::int64_t size);

/// A number as a u32, as specialization constants and arguments hold it; negative ones as two's complement.
/// @throws ShapeError where it does not fit
std::uint32_t u32(std::int64_t n);
inline std::uint32_t u32(DType t) { return static_cast<std::uint32_t>(t); }
template <typename T>
requires(std::is_enum_v<T> && !std::same_as<T, DType>) std::uint32_t u32(T value) {
  return static_cast<std::uint32_t>(value);
}

/// What a specialization constant or a number among the arguments may be made of.
template <typename T>
concept Word = std::integral<T> || std::is_enum_v<T>;

/// Memory for a table that kernels read: its rows' bytes, whose addresses move with a captured step.
struct Table {
  Tensor storage;
  Pointer rows;
};
/// Queues the rows' bytes; they travel in the command buffer, so this is no transfer.
Table make_table(Device device, const Arguments& rows);

/// One dispatch: what the shader declares, in its order.
///     Kernel(shaders::softmax, call)
///         .spec(dtype, threads_per_row).read(x).write(y).u32(rows, n, inner).dispatch(grid(rows));
class Kernel {
 public:
  Kernel(const Shader& shader, const OpCall& call) : Kernel(shader, call.op.name) {}
  Kernel(const Shader& shader, const char* op) : shader_(&shader), op_(op) {}
  Kernel(Kernel&&) = default;

  /// Specialization constants, behind those given before.
  template <Word... T>
  Kernel& spec(T... values) {
    (spec_.push_back(gpu::u32(values)), ...);
    return *this;
  }
  Kernel& spec(std::span<const std::uint32_t> values) {
    spec_.append(values);
    return *this;
  }

  /// Addresses. An undefined tensor is a null address.
  Kernel& read(const Tensor& x) { return on(x), read(pointer(x)); }
  Kernel& write(const Tensor& y) { return on(y), write(pointer(y)); }
  Kernel& read_write(const Tensor& y) { return on(y), read_write(pointer(y)); }
  Kernel& read(const Pointer& p) { return arguments_.read(p), *this; }
  Kernel& write(const Pointer& p) { return arguments_.write(p), *this; }
  Kernel& read_write(const Pointer& p) { return arguments_.read_write(p), *this; }
  /// The address of a table, and all that its rows reach.
  Kernel& table(const Table& table, const Arguments& rows) {
    return on(table.storage), arguments_.table(table.rows, rows), *this;
  }
  Kernel& arguments(const Arguments& all) { return arguments_.append(all), *this; }

  /// Numbers of 32 bits. @throws ShapeError where one does not fit
  template <Word... T>
  Kernel& u32(T... values) {
    (arguments_.number(gpu::u32(values)), ...);
    return *this;
  }
  Kernel& u32(std::span<const std::uint32_t> values) { return arguments_.numbers(values), *this; }
  Kernel& f32(float value) { return arguments_.number(value), *this; }
  /// A number of 64 bits, which the shader takes as a uvec2.
  Kernel& u64(std::uint64_t value) { return arguments_.number(value), *this; }

  /// Where the op's arguments do not say on which device it runs.
  Kernel& on(Device device) { return device_ = device, *this; }
  /// What it computes, for a captured step that may fuse it with others. Must live until dispatch().
  Kernel& fusible(const ElementwiseInfo* meaning) { return elementwise_ = meaning, *this; }
  Kernel& fusible(const PrologueFusion* meaning) { return through_ = meaning, *this; }

  void dispatch(std::array<std::uint32_t, 3> groups) const;
  void dispatch(std::uint32_t x, std::uint32_t y = 1, std::uint32_t z = 1) const {
    dispatch(std::array<std::uint32_t, 3>{x, y, z});
  }

 private:
  void on(const Tensor& x) {
    if (x.defined()) device_ = x.device();
  }

  const Shader* shader_;
  const char* op_;
  Device device_;
  InlineVector<std::uint32_t, 24> spec_;
  Arguments arguments_;
  const ElementwiseInfo* elementwise_ = nullptr;
  const PrologueFusion* through_ = nullptr;
};

}  // namespace etna::gpu
