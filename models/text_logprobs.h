#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <etna/models/generator.h>

namespace etna::models {

class TextReading;

/// Log-probabilities of the tokens of a given text, as Generator::logprobs(), chunk by chunk: the generator's sequences
/// may go on between two of them. The numbers are the same.
class TextLogprobs {
 public:
  /// Takes cache blocks for the whole text, and reads nothing. @param generator must outlive this object
  /// @throws as Generator::logprobs()
  TextLogprobs(Generator& generator, std::span<const std::int32_t> tokens, std::int64_t top = 0,
               std::int64_t adapter = -1);
  ~TextLogprobs();

  /// Reads at most GeneratorOptions::chunk tokens. @return whether there are more @throws SuspiciousWeights, OutOfMemory
  bool read();
  /// One for each token that was read but the first, whose `sequence` is -1.
  std::vector<GeneratedToken> take() { return std::move(result_); }

 private:
  void add(const Tensor& x);

  const Decoder& model_;
  const std::vector<std::int32_t> tokens_;
  const std::int64_t most_;
  std::unique_ptr<TextReading> reading_;  ///< null where nothing is to be read
  std::vector<GeneratedToken> result_;
};

}  // namespace etna::models
