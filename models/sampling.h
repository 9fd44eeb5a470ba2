#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::models {

class Decoder;

/// How the next token is sampled from logits. Applied in this order: bias, penalties, temperature, then the filters.
struct SamplingOptions {
  double temperature = 0.8;       ///< 0: greedy, always the most probable token
  std::int64_t top_k = 40;        ///< keep the k most probable tokens; 0: all
  double top_p = 0.95;            ///< the fewest tokens with this total probability (Holtzman et al. 2020); 1: all
  double min_p = 0.05;            ///< tokens with this fraction of the largest probability (Nguyen et al. 2024); 0: all
  double typical_p = 1;           ///< like top_p, nearest to the entropy first (Meister et al. 2023); 1: all
  double repetition_penalty = 1;  ///< divides positive logits of tokens in the text, multiplies negative ones
  double presence_penalty = 0;    ///< subtracted if the token is in the answer
  double frequency_penalty = 0;   ///< subtracted once per occurrence in the answer
  std::map<std::int32_t, float> logit_bias = {};  ///< added to a token's logit; minus infinity forbids the token
  std::uint64_t seed = 0;

  bool greedy() const { return temperature <= 0; }
  bool penalizes() const { return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0; }
  /// @throws Error naming the first option that is out of range
  void check(std::int64_t vocabulary) const;
};

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
