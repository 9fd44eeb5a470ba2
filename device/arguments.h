#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

/// A kernel's arguments, stated once: the bytes it receives, which of them are addresses, and the memory it touches.
namespace etna {

/// A growing list that stores its first N elements in the object: a short list allocates nothing.
template <typename T, std::size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* data() const { return heap_.empty() ? inline_.data() : heap_.data(); }
  T* data() { return heap_.empty() ? inline_.data() : heap_.data(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T& operator[](std::size_t i) { return data()[i]; }

  void push_back(const T& value) { append(std::span(&value, 1)); }
  void append(std::span<const T> values) {
    if (heap_.empty() && size_ + values.size() <= N) {
      std::copy(values.begin(), values.end(), inline_.begin() + static_cast<std::ptrdiff_t>(size_));
    } else {
      if (heap_.empty()) heap_.assign(inline_.begin(), inline_.begin() + static_cast<std::ptrdiff_t>(size_));
      heap_.insert(heap_.end(), values.begin(), values.end());
    }
    size_ += values.size();
  }
  void clear() {
    heap_.clear();
    size_ = 0;
  }

  operator std::span<const T>() const { return {data(), size_}; }

 private:
  std::array<T, N> inline_;
  std::vector<T> heap_;  ///< all elements, once there are more than N
  std::size_t size_ = 0;
};

/// Device addresses [address, address + bytes).
struct MemoryRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

/// Memory as an argument: the address passed to the kernel, and the range of bytes the kernel may touch. For a strided
/// view the range runs from its first to its last element. The address may lie inside the range, as for a later matrix
/// of a batch.
struct Pointer {
  std::uint64_t address = 0;  ///< 0: an optional argument that was omitted
  MemoryRange range = {};

  explicit operator bool() const { return address != 0; }
  /// The same range with the address advanced by `bytes`.
  Pointer operator+(std::uint64_t bytes) const { return {address + bytes, range}; }
  Pointer& operator+=(std::uint64_t bytes) { return *this = *this + bytes; }
};

enum class Access : std::uint8_t { read = 1, write = 2, read_write = 3 };

/// A kernel's arguments in the order in which its shader declares them, without padding: addresses of 8 bytes, numbers
/// of 4 or 8.
///
/// A backend derives everything else from this list: the bytes to push, the ranges that order commands, and the
/// positions of addresses. A captured step assigns memory only when the capture ends, and then replaces those
/// addresses. A backend without buffer addresses binds the ranges and puts offsets in their place.
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

  /// Memory that the kernel reaches through a table instead of an address in its arguments.
  void reaches(const MemoryRange& range, Access access);
  /// The memory that holds the table `rows`: the table is an argument itself, and the kernel reaches all that its rows
  /// reach.
  void table(const Pointer& at, const Arguments& rows);
  /// Appends all of `other`.
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
