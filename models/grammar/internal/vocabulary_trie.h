#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/models/grammar/internal/expressions.h>

namespace etna::models {

/// The texts of a vocabulary's tokens as a trie in an array, in the order of a depth-first walk.
class VocabularyTrie {
 public:
  struct Node {
    std::uint32_t skip;   ///< the next node that is not below this one
    std::uint32_t first;  ///< of tokens(): the tokens that end here, up to those of the next node
    std::uint16_t depth;  ///< of its text before `byte`
    unsigned char byte;
  };

  /// @param texts of the tokens; empty ones are left out
  /// @throws GrammarError for stop tokens outside the vocabulary, and texts longer than 65,535 bytes
  VocabularyTrie(std::vector<std::string> texts, std::vector<std::int32_t> stop_tokens);

  std::int64_t vocabulary() const { return static_cast<std::int64_t>(texts_.size()); }
  /// Empty: the token adds no text, or is not allowed.
  std::string_view text(std::int32_t token) const { return texts_[static_cast<std::size_t>(token)]; }
  bool stops(std::int32_t token) const { return stops_[static_cast<std::size_t>(token)]; }
  const std::vector<std::int32_t>& stop_tokens() const { return stop_tokens_; }
  const std::vector<Node>& nodes() const { return nodes_; }  ///< with one more at the end
  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  std::size_t longest() const { return longest_; }
  /// Bytes that occur in tokens.
  const ByteSet& bytes() const { return bytes_; }
  /// Whether each byte is a token, so that any text can be written.
  bool complete() const { return complete_; }

 private:
  std::vector<std::string> texts_;
  std::vector<std::int32_t> stop_tokens_;
  std::vector<bool> stops_;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> tokens_;
  std::size_t longest_ = 0;
  ByteSet bytes_;
  bool complete_ = false;
};

}  // namespace etna::models
