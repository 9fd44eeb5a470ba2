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

/// The GPU side of ops: a builder for the arguments of a kernel.
namespace etna::gpu {

/// The bytes from a tensor's first element through its last, whatever its strides.
MemoryRange range(const Tensor& x);
/// A tensor as a kernel argument; null if undefined.
Pointer pointer(const Tensor& x);

/// Workgroups for `count` along x, folded into y above 65535; the shader computes y * gl_NumWorkGroups.x + x and checks
/// that index against the count.
std::array<std::uint32_t, 3> grid(std::int64_t count);
/// Workgroups of `size` elements that cover `count` elements.
std::array<std::uint32_t, 3> grid(std::int64_t count, std::int64_t size);

/// A number as a u32 for specialization constants and arguments; negative numbers as two's complement.
/// @throws ShapeError if it does not fit
std::uint32_t u32(std::int64_t n);
inline std::uint32_t u32(DType t) { return static_cast<std::uint32_t>(t); }
template <typename T>
requires(std::is_enum_v<T> && !std::same_as<T, DType>) std::uint32_t u32(T value) {
  return static_cast<std::uint32_t>(value);
}

/// A kernel's variants by the type they compute in: f32, i32, i64, and i64 as pairs of u32.
struct Variants {
  const Shader &floats, &ints, &int64, &pairs;

  /// The variant that computes in t; i64 as pairs of u32 if the device has no 64-bit integers.
  const Shader& of(DType t, Device device) const;
};

/// Types that a specialization constant or a 32-bit argument may have.
template <typename T>
concept Word = std::integral<T> || std::is_enum_v<T>;

/// Memory for a table that kernels read: the bytes of its rows. A captured step relocates the addresses in it.
struct Table {
  Tensor storage;
  Pointer rows;
};
/// Queues an upload of the rows' bytes. They travel in the command buffer, so this does not count as a transfer.
Table make_table(Device device, const Arguments& rows);

/// One dispatch. The arguments must appear in the order in which the shader declares them.
///     Kernel(shaders::softmax, call)
///         .spec(dtype, threads_per_row).read(x).write(y).u32(rows, n, inner).dispatch(grid(rows));
class Kernel {
 public:
  Kernel(const Shader& shader, const OpCall& call) : Kernel(shader, call.op.name) {}
  Kernel(const Shader& shader, const char* op) : shader_(&shader), op_(op) {}
  Kernel(Kernel&&) = default;

  /// Appends specialization constants.
  template <Word... T>
  Kernel& spec(T... values) {
    (spec_.push_back(gpu::u32(values)), ...);
    return *this;
  }
  Kernel& spec(std::span<const std::uint32_t> values) {
    spec_.append(values);
    return *this;
  }

  /// Addresses. An undefined tensor becomes a null address.
  Kernel& read(const Tensor& x) { return on(x), read(pointer(x)); }
  Kernel& write(const Tensor& y) { return on(y), write(pointer(y)); }
  Kernel& read_write(const Tensor& y) { return on(y), read_write(pointer(y)); }
  Kernel& read(const Pointer& p) { return arguments_.read(p), *this; }
  Kernel& write(const Pointer& p) { return arguments_.write(p), *this; }
  Kernel& read_write(const Pointer& p) { return arguments_.read_write(p), *this; }
  /// The address of a table, and all memory that its rows point to.
  Kernel& table(const Table& table, const Arguments& rows) {
    return on(table.storage), arguments_.table(table.rows, rows), *this;
  }
  /// Where the kernel reports an index outside its dimension. Call it after the first tensor, which sets the device.
  Kernel& index_errors() { return write(gpu::index_errors(device_, op_)); }
  Kernel& arguments(const Arguments& all) { return arguments_.append(all), *this; }

  /// 32-bit numbers. @throws ShapeError if one does not fit
  template <Word... T>
  Kernel& u32(T... values) {
    (arguments_.number(gpu::u32(values)), ...);
    return *this;
  }
  Kernel& u32(std::span<const std::uint32_t> values) { return arguments_.numbers(values), *this; }
  Kernel& f32(float value) { return arguments_.number(value), *this; }
  /// A 64-bit number; the shader reads it as a uvec2.
  Kernel& u64(std::uint64_t value) { return arguments_.number(value), *this; }

  /// Sets the device, if the op's arguments do not determine it.
  Kernel& on(Device device) { return device_ = device, *this; }
  /// Describes the computation, so that a captured step can fuse it. Must live until dispatch().
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
