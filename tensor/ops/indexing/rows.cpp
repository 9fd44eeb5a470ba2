#include <etna/tensor/ops/indexing/rows.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>

namespace etna::rows {

std::uint32_t unit(std::initializer_list<std::uint64_t> divided) {
  std::uint64_t bits = 16;
  for (std::uint64_t value : divided) bits |= value;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

void check_index_dtype(const char* op, const Tensor& index) {
  if (index.dtype() == i64 || index.dtype() == i32) return;
  throw DtypeError(
      fmt::format("{}: the index is {}, it must be i64 or i32; convert it with .to(i64)", op, name(index.dtype())));
}

Tensor checked_index(const char* op, const Tensor& index, std::int64_t limit) {
  Tensor wide = index.to(i64).contiguous();
  std::span values(wide.host<std::int64_t>(), static_cast<std::size_t>(wide.numel()));
  auto outside = std::find_if(values.begin(), values.end(), [&](std::int64_t v) { return v < 0 || v >= limit; });
  if (outside != values.end()) {
    throw IndexError(
        fmt::format("{}: index {} at position {} is outside [0, {})", op, *outside, outside - values.begin(), limit));
  }
  return wide;
}

void select_cpu(const OpCall& call, const Selection& s) {
  Tensor index = checked_index(call.op.name, s.index, s.size), x = s.x.contiguous();
  const std::int64_t* chosen = index.host<std::int64_t>();
  std::int64_t count = index.numel(), row = s.inner * static_cast<std::int64_t>(item_size(x.dtype()));
  const auto* from = static_cast<const std::byte*>(x.raw_data());
  auto* to = static_cast<std::byte*>(s.y.raw_host());
  std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(row, 1));
  cpu::parallel_for(s.outer * count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::memcpy(to + r * row, from + (r / count * s.size + chosen[r % count]) * row, static_cast<std::size_t>(row));
    }
  });
}

bool select_gpu(const OpCall& call, const Selection& s) {
  if (s.y.numel() == 0) return true;
  Tensor index = s.index.contiguous(), x = s.x.contiguous();
  std::uint64_t row = static_cast<std::uint64_t>(s.inner) * item_size(x.dtype());
  std::uint32_t bytes = unit({row, x.address(), s.y.address()});
  const std::int64_t inner = static_cast<std::int64_t>(row / bytes), n = s.outer * index.numel() * inner;
  gpu::Kernel(shaders::index_select, call)
      .spec(bytes, index.dtype())
      .write(s.y)
      .read(x)
      .read(index)
      .index_faults()
      .u32(n, inner, index.numel(), s.size)
      .dispatch(gpu::grid(n, 1024));
  return true;
}

}  // namespace etna::rows
