#pragma once

#include <cstdint>
#include <string_view>

#include <etna/tensor/io/internal/xxh3.h>

namespace etna::data {

/// A running XXH3 of 64 bits.
class TokenHash {
 public:
  void add(const void* bytes, std::size_t count) { hash_.add(bytes, count); }
  void add(std::uint64_t number) { add(&number, sizeof number); }
  /// With its length, so that "ab", "c" differs from "a", "bc".
  void add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    add(text.data(), text.size());
  }
  std::uint64_t value() const { return hash_.value(); }

 private:
  io::Xxh3 hash_;
};

}  // namespace etna::data
