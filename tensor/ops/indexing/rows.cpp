#include <etna/tensor/ops/indexing/internal/rows.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>

namespace etna::indexing {

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

namespace {

/// @throws IndexError if one of chosen[begin, end) is outside [0, limit)
template <typename Index>
void check_range(const char* op, const Index* chosen, std::int64_t begin, std::int64_t end, std::int64_t limit) {
  bool outside = false;
  for (std::int64_t i = begin; i < end; ++i)
    outside |= static_cast<std::uint64_t>(static_cast<std::int64_t>(chosen[i])) >= static_cast<std::uint64_t>(limit);
  for (std::int64_t i = begin; i < end && outside; ++i) {
    if (chosen[i] >= 0 && chosen[i] < limit) continue;
    throw IndexError(fmt::format("{}: index {} at position {} is outside [0, {})", op, chosen[i], i, limit));
  }
}

}  // namespace

Tensor checked_index(const char* op, const Tensor& index, std::int64_t limit) {
  const Tensor wide = index.to(i64).contiguous();
  const std::int64_t* chosen = wide.host<std::int64_t>();
  cpu::parallel_for(wide.numel(), 1 << 16,
                    [&](std::int64_t begin, std::int64_t end) { check_range(op, chosen, begin, end, limit); });
  return wide;
}

namespace {

/// Copies single elements of x, which are aligned to their size.
template <typename Item, typename Index>
void take_elements(const char* op, const Selection& s, const Tensor& x, const Index* chosen, std::int64_t count) {
  const Item* from = static_cast<const Item*>(x.raw_data());
  Item* to = static_cast<Item*>(s.y.raw_host());
  cpu::parallel_for(count, 16384, [&](std::int64_t begin, std::int64_t end) {
    check_range(op, chosen, begin, end, s.size);
    for (std::int64_t i = begin; i < end; ++i) to[i] = from[chosen[i]];
  });
}

template <typename Index>
void select(const OpCall& call, const Selection& s, const Tensor& index) {
  const Tensor x = s.x.contiguous();
  const Index* chosen = index.host<Index>();
  const std::int64_t count = index.numel(), row = s.inner * static_cast<std::int64_t>(item_size(x.dtype()));
  if (count == 0) return;
  if (s.outer == 1 && s.inner == 1) {
    if (row == 1) return take_elements<std::uint8_t>(call.op.name, s, x, chosen, count);
    if (row == 2) return take_elements<std::uint16_t>(call.op.name, s, x, chosen, count);
    if (row == 4) return take_elements<std::uint32_t>(call.op.name, s, x, chosen, count);
    if (row == 8) return take_elements<std::uint64_t>(call.op.name, s, x, chosen, count);
  }
  check_range(call.op.name, chosen, 0, count, s.size);
  const auto* from = static_cast<const std::byte*>(x.raw_data());
  auto* to = static_cast<std::byte*>(s.y.raw_host());
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(row, 1));
  cpu::parallel_for(s.outer * count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin, outer = begin / count, i = begin % count; r < end; ++r) {
      std::memcpy(to + r * row, from + (outer * s.size + chosen[i]) * row, static_cast<std::size_t>(row));
      if (++i == count) i = 0, ++outer;
    }
  });
}

}  // namespace

void select_cpu(const OpCall& call, const Selection& s) {
  if (s.index.dtype() == i32)
    select<std::int32_t>(call, s, s.index.contiguous());
  else
    select<std::int64_t>(call, s, s.index.to(i64).contiguous());
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
      .index_errors()
      .u32(n, inner, index.numel(), s.size)
      .dispatch(gpu::grid(n, 1024));
  return true;
}

}  // namespace etna::indexing
