#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace etna::io {

/// A streaming 64-bit XXH3 (seed 0): libxxhash, or PlainXxh3 in builds without it.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;

  void add(const void* bytes, std::size_t count);
  void add(std::uint64_t number) { add(&number, sizeof number); }
  /// With its length, so that "ab", "c" differs from "a", "bc".
  void add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    add(text.data(), text.size());
  }
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The same hash without a library, in plain C++.
class PlainXxh3 {
 public:
  void add(const void* bytes, std::size_t count);
  std::uint64_t value() const;

 private:
  static constexpr std::size_t kStripe = 64, kBlock = 1024;
  using Sums = std::array<std::uint64_t, 8>;
  static void add_stripe(Sums& sums, const std::byte* stripe, std::size_t secret);
  static void add_block(Sums& sums, const std::byte* block);

  /// 32- and 64-bit primes of the format, in its order.
  Sums sums_ = {0xC2B2AE3D,         0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                0x85EBCA77C2B2AE63, 0x85EBCA77,         0x27D4EB2F165667C5, 0x9E3779B1};
  /// The last hashed stripe, then a buffered block, which is hashed when more bytes follow.
  std::array<std::byte, kStripe + kBlock> bytes_{};
  std::size_t waiting_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace etna::io
