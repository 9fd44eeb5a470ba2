#include <etna/tensor/ops/kernel.h>

#include <limits>

#include <fmt/format.h>

namespace etna::gpu {

MemoryRange range(const Tensor& x) {
  if (x.numel() == 0) return {x.address(), 0};
  std::int64_t last = 0;
  for (int i = 0; i < x.dim(); ++i) last += (x.shape()[i] - 1) * x.strides()[i];
  return {x.address(), static_cast<std::uint64_t>(last + 1) * item_size(x.dtype())};
}

Pointer pointer(const Tensor& x) { return x.defined() ? Pointer{x.address(), range(x)} : Pointer{}; }

std::array<std::uint32_t, 3> grid(std::int64_t count) {
  constexpr std::int64_t limit = 65535;
  if (count <= limit) return {static_cast<std::uint32_t>(count), 1, 1};
  std::int64_t rows = (count + limit - 1) / limit;
  return {static_cast<std::uint32_t>((count + rows - 1) / rows), static_cast<std::uint32_t>(rows), 1};
}

std::array<std::uint32_t, 3> grid(std::int64_t count, std::int64_t size) { return grid((count + size - 1) / size); }

std::uint32_t u32(std::int64_t n) {
  if (n < std::numeric_limits<std::int32_t>::min() || n > std::numeric_limits<std::uint32_t>::max()) {
    throw ShapeError(fmt::format("a size or stride of {} does not fit the 32 bits that kernels count in", n));
  }
  return static_cast<std::uint32_t>(n);
}

const Shader& Variants::of(DType t, Device device) const {
  if (is_floating(t)) return floats;
  if (t != i64) return ints;
  return capabilities(device).int64 ? int64 : pairs;
}

Table make_table(Device device, const Arguments& rows) {
  Table table;
  table.storage = empty({static_cast<std::int64_t>(rows.bytes().size())}, {u8, device});
  enqueue_update(device, *table.storage.storage(), 0, rows);
  table.rows = pointer(table.storage);
  return table;
}

void Kernel::dispatch(std::array<std::uint32_t, 3> groups) const {
  enqueue(device_, {.shader = *shader_,
                    .op = op_,
                    .spec = spec_,
                    .arguments = arguments_,
                    .groups = groups,
                    .elementwise = elementwise_,
                    .through = through_});
}

}  // namespace etna::gpu
