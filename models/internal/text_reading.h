#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <etna/models/generator.h>

/// Reading a given text of which nothing is generated. Internal.
namespace etna::models {

/// A text that is read in chunks, of which the cache keeps nothing. Its blocks are taken at once; other sequences may
/// run between two chunks.
class TextReading {
 public:
  /// @param generator, images must outlive this object @throws CacheFull
  TextReading(Generator& generator, std::span<const std::int32_t> tokens, std::int64_t adapter,
              const PromptImages* images = nullptr);
  ~TextReading();
  TextReading(const TextReading&) = delete;
  TextReading& operator=(const TextReading&) = delete;

  bool done() const { return at_ == std::ssize(tokens_); }
  /// The last block's outputs of the next chunk, [T, width].
  Tensor next();

 private:
  Generator& generator_;
  const std::vector<std::int32_t> tokens_;
  const std::int64_t adapter_;
  const PromptImages* images_;
  KvCache::Id cached_ = -1;
  std::int64_t at_ = 0;
  Tensor row_, states_;  ///< its blocks [1, M] and the row of its state [1], both i32
};

/// @throws IndexError for a token outside the vocabulary. @param text whose token it is: "the prompt"
void check_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary, const char* text);

}  // namespace etna::models
