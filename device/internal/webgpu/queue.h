#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/internal/webgpu/index_errors.h>
#include <etna/device/internal/webgpu/javascript.h>
#include <etna/device/kernel.h>

namespace etna::webgpu {

/// Dispatches and their blocks of arguments, as JavaScript takes them.
struct Batch {
  /// What a dispatch can bind as a block of uniform memory: a multiple of 256 bytes everywhere.
  static constexpr std::size_t kBlockBytes = 256;
  static constexpr std::size_t kArgumentBytes = 128;

  std::vector<javascript::EncodedDispatch> commands;
  std::vector<std::byte> blocks;

  void add(std::uint32_t pipeline, const std::array<std::uint32_t, 3>& groups, std::span<const std::byte> arguments);
  void clear();
};

/// Queues work in order, in batches: submitted once about a hundred dispatches have accumulated, or when somebody
/// waits. WebGPU orders dispatches that touch the heap by itself.
///
/// A failure drops the open batch and leaves the queue ready for the next one; a lost device stays lost.
class Queue {
 public:
  /// The kernel's pipeline, which the browser may still be building. @throws DeviceError where there is no such kernel
  std::uint32_t pipeline(const char* kernel, std::span<const std::uint32_t> constants, std::string_view op);

  void dispatch(const gpu::Dispatch& dispatch);
  void copy(std::uint64_t from, std::uint64_t to, std::size_t bytes);
  /// @param to, bytes multiples of 4
  void fill(std::uint64_t to, std::size_t bytes, std::uint32_t word);
  /// The same into a batch that is kept.
  void add_copy(Batch& batch, std::uint64_t from, std::uint64_t to, std::size_t bytes);
  void add_fill(Batch& batch, std::uint64_t to, std::size_t bytes, std::uint32_t word, std::uint32_t mask = ~0u);

  void upload(std::uint64_t to, std::span<const std::byte> bytes);
  /// @throws DeviceLost, IndexError
  void download(std::uint64_t from, std::span<std::byte> bytes);

  /// Reads at most a few bytes behind everything queued so far; for finish_read(), once, or drop_read().
  std::uint32_t start_read(std::uint64_t from, std::size_t bytes);
  void finish_read(std::uint32_t read, std::uint64_t from, std::span<std::byte> bytes);

  /// Submits the open batch.
  void flush();
  /// Submits the open batch, then a program made of a batch.
  void run(std::uint32_t program, std::span<const javascript::EncodedDispatch> commands);
  /// Submits the open batch and waits for all submitted work. @throws DeviceLost, IndexError
  void finish();
  /// Waits for the kernels that are being built. @throws DeviceError where one cannot be
  void finish_building();

  gpu::QueueStats stats() const { return stats_; }
  IndexErrors& index_errors() { return index_errors_; }

 private:
  struct Key {
    std::string kernel;
    std::vector<std::uint32_t> constants;
    auto operator<=>(const Key&) const = default;
  };
  void require_healthy();
  void submitted();

  Batch open_;
  std::map<Key, std::uint32_t> pipelines_;
  Key key_;
  IndexErrors index_errors_;
  gpu::QueueStats stats_;
};

}  // namespace etna::webgpu
