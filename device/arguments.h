#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <etna/device/inline_vector.h>

/// What a kernel gets, stated once: the bytes it sees, which of them are addresses, and the memory it touches.
namespace etna {

/// Device addresses [address, address + bytes).
struct MemoryRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

/// Memory as an argument: the address that the kernel gets, and the bytes that it may touch from there (a strided
/// view's from its first to its last element). The address may lie within the range, as that of a later matrix of a
/// batch does.
struct Pointer {
  std::uint64_t address = 0;  ///< 0: an optional argument that was left out
  MemoryRange range = {};

  explicit operator bool() const { return address != 0; }
  /// The same memory from another place of it on.
  Pointer operator+(std::uint64_t bytes) const { return {address + bytes, range}; }
  Pointer& operator+=(std::uint64_t bytes) { return *this = *this + bytes; }
};

enum class Access : std::uint8_t { read = 1, write = 2, read_write = 3 };

/// A kernel's arguments in the order in which its shader declares them, without padding: addresses of 8 bytes and
/// numbers of 4 or 8.
///
/// From this one statement a backend takes all that it needs: the bytes to push, the ranges that order commands, and
/// the places of addresses. A captured step gives memory to what it holds only at its end and then replaces those
/// addresses; a backend that has no addresses binds the ranges and puts offsets in their place.
class Arguments {
 public:
  struct Address {
    std::uint32_t offset;  ///< of the address among bytes()
    Access access;
    MemoryRange range;
  };

  void read(const Pointer& p) { add(p, Access::read); }
  void write(const Pointer& p) { add(p, Access::write); }
  void read_write(const Pointer& p) { add(p, Access::read_write); }

  void number(std::uint32_t n) { append(&n, sizeof(n)); }
  void number(std::int32_t n) { append(&n, sizeof(n)); }
  void number(float n) { append(&n, sizeof(n)); }
  void number(std::uint64_t n) { append(&n, sizeof(n)); }
  void numbers(std::span<const std::uint32_t> n) { append(n.data(), n.size_bytes()); }
  void bytes(std::span<const std::byte> numbers) { append(numbers.data(), numbers.size()); }

  /// Memory that the kernel reaches through a table rather than an address of its own.
  void reaches(const MemoryRange& range, Access access);
  /// Memory that holds `rows`: an argument itself, and all that rows reach.
  void table(const Pointer& at, const Arguments& rows);
  /// All of `other` behind what is here.
  void append(const Arguments& other);

  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<const Address> addresses() const { return addresses_; }
  std::span<const MemoryRange> reads() const { return reads_; }
  std::span<const MemoryRange> writes() const { return writes_; }
  void clear();

 private:
  void add(const Pointer& p, Access access);
  void append(const void* bytes, std::size_t count) { bytes_.append({static_cast<const std::byte*>(bytes), count}); }

  InlineVector<std::byte, 512> bytes_;
  InlineVector<Address, 12> addresses_;
  InlineVector<MemoryRange, 12> reads_, writes_;
};

}  // namespace etna
