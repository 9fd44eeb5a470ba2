#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include <fmt/core.h>

#include <etna/device/kernel.h>
#include <etna/device/memory.h>
#include <etna/tensor/tensor.h>

#include "bench.h"
#include "commands.h"

namespace etna::cli {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Far larger than any cache, and at most an eighth of the memory.
std::size_t copied_bytes(const Sheet& sheet) {
  if (sheet.effort().quick) return 4 * kMiB;
  if (sheet.software()) return 64 * kMiB;
  const std::uint64_t eighth = sheet.adapter().memory_bytes / 8 / kMiB * kMiB;
  return std::clamp<std::uint64_t>(eighth, kMiB, (sheet.device().is_cpu() ? 256 : 1024) * kMiB);
}

Measured rate(const Sheet& sheet, std::size_t bytes_a_call, std::size_t buffer, const std::function<void()>& work) {
  const double seconds = seconds_a_call(sheet.device(), sheet.effort(), work);
  return {static_cast<double>(bytes_a_call) / seconds * 1e-9, readable_bytes(buffer)};
}

Measured copy_by_op(const Sheet& sheet) {
  const std::size_t bytes = copied_bytes(sheet);
  const Shape shape{static_cast<std::int64_t>(bytes / 4)};
  const Tensor from = ones(shape, {f32, sheet.device()});
  Tensor to = empty(shape, {f32, sheet.device()});
  return rate(sheet, 2 * bytes, bytes, [&] { to.copy_(from); });
}

Measured copy_by_command(const Sheet& sheet) {
  const std::size_t bytes = copied_bytes(sheet);
  const StoragePtr from = allocate(sheet.device(), bytes), to = allocate(sheet.device(), bytes);
  gpu::enqueue_fill(sheet.device(), *from, 0, bytes, 1);
  return rate(sheet, 2 * bytes, bytes, [&] { gpu::enqueue_copy(sheet.device(), *from, 0, *to, 0, bytes); });
}

Measured transfer(const Sheet& sheet, bool up) {
  const std::size_t bytes = std::min(copied_bytes(sheet), 256 * kMiB);
  std::vector<std::byte> host(bytes, std::byte{1});
  const StoragePtr there = allocate(sheet.device(), bytes);
  if (up) return rate(sheet, bytes, bytes, [&] { upload(host.data(), *there, 0, bytes); });
  gpu::enqueue_fill(sheet.device(), *there, 0, bytes, 1);
  return rate(sheet, bytes, bytes, [&] { download(*there, 0, host.data(), bytes); });
}

Measured read_a_number(const Sheet& sheet) {
  const StoragePtr there = allocate(sheet.device(), 4);
  gpu::enqueue_fill(sheet.device(), *there, 0, 4, 1);
  std::uint32_t word = 0;
  const double seconds = seconds_a_call(sheet.device(), sheet.effort(), [&] { download(*there, 0, &word, 4); });
  return {seconds * 1e6};
}

Measured allocate_from_system(const Sheet& sheet) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t bytes = 256 * kMiB;
  std::vector<double> runs;
  for (int run = 0; run < sheet.effort().repeats; ++run) {
    empty_cache(sheet.device());
    const std::uint64_t misses = memory_stats(sheet.device()).misses;
    auto start = Clock::now();
    StoragePtr made = allocate(sheet.device(), bytes);
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    // There may still be no miss, if a larger free block exists.
    if (memory_stats(sheet.device()).misses > misses) runs.push_back(ms);
  }
  empty_cache(sheet.device());
  if (runs.empty()) throw LeftOut("the cache had that much left over");
  return {median(std::move(runs)), readable_bytes(bytes)};
}

}  // namespace

void bench_memory(Sheet& sheet) {
  sheet.add({.key = "copy_gbs",
             .label = sheet.device().is_cpu() ? "copy" : "copy by kernel",
             .unit = "GB/s",
             .meaning = "Tensor::copy_, bytes read and bytes written both counted"},
            [&] { return copy_by_op(sheet); });
  if (sheet.device().is_cpu()) return;
  sheet.add({.key = "copy_command_gbs",
             .label = "copy by vkCmdCopyBuffer",
             .unit = "GB/s",
             .meaning = "the same by the driver's command"},
            [&] { return copy_by_command(sheet); });
  sheet.add({.key = "upload_gbs",
             .label = "host to device",
             .unit = "GB/s",
             .meaning = "from ordinary host memory, the copy into staging memory included"},
            [&] { return transfer(sheet, true); });
  sheet.add({.key = "download_gbs",
             .label = "device to host",
             .unit = "GB/s",
             .meaning = "into ordinary host memory, the copy out of staging memory included"},
            [&] { return transfer(sheet, false); });
  sheet.add(
      {.key = "read_us", .label = "read 4 bytes", .unit = "us", .meaning = "what item() takes where nothing is queued"},
      [&] { return read_a_number(sheet); });
  sheet.add({.key = "allocate_ms",
             .label = "allocate from the system",
             .unit = "ms",
             .meaning = "what the allocator's cache saves each step"},
            [&] { return allocate_from_system(sheet); });
}

}  // namespace etna::cli
