#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <etna/device/arguments.h>
#include <etna/device/internal/backend.h>
#include <etna/device/internal/placeholder.h>
#include <etna/device/memory.h>

namespace etna {
struct CaptureReport;
}

/// The memory of a graph.
namespace etna::graph {

/// A number that the host writes before each run.
struct NumberPlace {
  StoragePtr storage;
  std::size_t offset = 0;
};

/// The storages made while a step is captured. Commands know them by placeholder addresses, each of a range of its
/// own; plan() gives them memory, and addresses are relocated.
///
/// In a graph of commands the storage itself has that address and no memory. In a graph of calls, which run while they
/// are captured, it has memory, and a proxy has the address: calls refer to the proxy, so that the storage dies when
/// the program releases it.
class Storages {
 public:
  Storages(Device device, GraphForm form);

  /// @throws OutOfMemory
  StoragePtr allocate(std::size_t bytes);
  /// Whether a graph made this storage while capturing, and it has no planned memory yet.
  bool made(const Storage& storage) const;
  /// Of a storage made for calls; null for others.
  StoragePtr proxy(const Storage& storage) const;
  /// Commands may use this storage from before the capture. The caller keeps it alive.
  void pin(const StoragePtr& storage);
  /// A place in a block that each run writes, or, where the host has access to memory, a storage of its own.
  /// @throws CaptureError where the block is full
  NumberPlace reserve_numbers(std::size_t bytes);

  /// Makes a table whose bytes never change.
  Pointer constant(const Arguments& rows);
  /// Bytes of a storage that never change. @throws CaptureError for a storage from before the capture
  void set_constant(std::uint64_t to, const Arguments& rows);
  /// Those that nobody refers to any more, in order of address.
  std::vector<MemoryRange> dropped() const;

  /// A storage that was dropped lies at this address from before the capture.
  void place(std::uint64_t address, std::uint64_t at) { find(address)->real = at; }
  /// A command of this group accesses the range. @throws CaptureError where it is in no known storage
  void touch(const MemoryRange& range, std::uint32_t group, const char* op);
  /// Allocates: storages still referenced get memory of their own, the others share it over time.
  /// @param shared as in GraphOptions @param report gets the bytes
  void plan(std::size_t largest_chunk, std::vector<StoragePtr>* shared, CaptureReport& report);
  /// @throws CaptureError for a placeholder of another graph
  std::uint64_t relocated(std::uint64_t address, const char* op) const;
  void relocate(std::span<std::byte> bytes, std::span<const std::uint32_t> addresses, const char* op) const;
  /// Queues the upload of the constants, then forgets all but the memory.
  void finish();

  /// The block of numbers; null without one.
  const StoragePtr& numbers() const { return numbers_; }

 private:
  struct Made {
    std::uint64_t address;
    std::size_t bytes;
    std::weak_ptr<Storage> storage;
    StoragePtr proxy;                      ///< of calls
    std::vector<std::byte> constant;       ///< its bytes, if they never change
    std::vector<std::uint32_t> addresses;  ///< offsets of addresses in `constant`
    bool used = false;
    std::uint32_t first = 0, last = 0;  ///< group that uses it
    std::uint64_t real = 0;             ///< its address, once it has memory
    StoragePtr own;                     ///< that memory, if not shared
  };
  std::uint64_t take_addresses(std::size_t bytes);
  Made& add(std::size_t bytes);
  const Made* find(std::uint64_t address) const;
  Made* find(std::uint64_t address);
  bool is_pinned(const MemoryRange& range);
  const StoragePtr& give_memory(Made& made, MemoryUse use = MemoryUse::captured_steps);

  Device device_;
  bool calls_;
  std::vector<Made> made_;                                 ///< in order of address
  std::unordered_map<const Storage*, std::size_t> place_;  ///< in made_, of calls' storages
  std::uint64_t taken_ = 0;                                ///< addresses, of calls
  std::vector<MemoryRange> pins_;
  bool pins_sorted_ = true;
  StoragePtr numbers_;
  std::optional<std::size_t> numbers_at_;  ///< in made_
  std::size_t number_bytes_ = 0;
  std::vector<StoragePtr> memory_;  ///< planned, and of storages that outlive a run
};

}  // namespace etna::graph
