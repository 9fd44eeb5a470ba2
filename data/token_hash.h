#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

/// XXH3's state; its header stays out of this one.
struct XXH3_state_s;

namespace etna::data {

/// A running XXH3 of 64 bits.
class TokenHash {
 public:
  TokenHash();
  void add(const void* bytes, std::size_t count);
  void add(std::uint64_t number) { add(&number, sizeof number); }
  /// With its length, so that "ab", "c" differs from "a", "bc".
  void add(std::string_view text);
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace etna::data
