#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include <etna/models/grammar/grammar.h>
#include <etna/tensor/tensor.h>

/// The masks of grammars' states on a device. Internal.
namespace etna::models {

/// A bounded table of masks, in which a state's mask is written when the state is first asked for; then the one that
/// was asked for longest ago is replaced. Grammars may end before the table; their rows are reused.
class MaskTable {
 public:
  /// @param rows at least as many as one step uses: those asked for last are valid
  MaskTable(std::int64_t vocabulary, std::int64_t rows, Device device);

  /// The row of the state's mask, for mask_tokens(). @throws Error if the grammar allows no token, or for a mask of
  /// another size; what the grammar throws
  std::int32_t row(const std::shared_ptr<TokenGrammar>& grammar, TokenGrammar::State state);
  /// [rows, ceil(vocabulary / 32)] i32; the same tensor always.
  const Tensor& masks() const { return masks_; }
  std::int64_t writes() const { return writes_; }

 private:
  struct Key {
    std::weak_ptr<TokenGrammar> grammar;
    TokenGrammar::State state;
    bool operator<(const Key& other) const {
      if (grammar.owner_before(other.grammar)) return true;
      return !other.grammar.owner_before(grammar) && state < other.state;
    }
  };
  /// The most recently used first.
  using Order = std::list<std::pair<Key, std::int32_t>>;

  const std::int64_t vocabulary_;
  Tensor masks_;
  Order order_;
  std::map<Key, Order::iterator> found_;
  std::int64_t writes_ = 0;
};

}  // namespace etna::models
