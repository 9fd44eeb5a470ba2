#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace etna::serve {

/// API keys. How long a comparison takes does not depend on how much of a key is right.
class Keys {
 public:
  explicit Keys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  bool empty() const { return keys_.empty(); }
  /// Which key this is.
  std::optional<std::size_t> find(const std::string& key) const;

 private:
  const std::vector<std::string> keys_;
};

}  // namespace etna::serve
