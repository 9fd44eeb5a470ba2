#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <etna/models/decoder.h>

namespace etna::models {

struct BeamOptions {
  std::int64_t width = 4;  ///< texts that are followed at once
  std::int64_t max_tokens = 64;
  std::vector<std::int32_t> stop_tokens = {};  ///< end a text and are not part of it
  /// A text's score is its log-probability divided by its length to this power; 0 prefers short texts.
  double length_penalty = 1;
  DType cache = f32;  ///< of keys and values, as in KvCacheOptions
};

/// A text that beam search found.
struct Beam {
  std::vector<std::int32_t> tokens;
  double log_probability = 0;  ///< of the tokens, the stop token included
  double score = 0;
};

/// The most probable continuations that following the best `width` texts token by token finds, best first. Ends early
/// where no text that still grows can become better than those found.
/// @param prompt at least one token; with max_tokens it must fit the context
/// @throws Error; IndexError for tokens outside of the vocabulary
std::vector<Beam> beam_search(const Decoder& decoder, Device device, std::span<const std::int32_t> prompt,
                              const BeamOptions& options = {});

}  // namespace etna::models
