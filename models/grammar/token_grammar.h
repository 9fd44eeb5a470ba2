#pragma once

#include <cstdint>
#include <span>

namespace etna::models {

/// Which tokens may come next in a text that must have a given form. States are numbered as texts reach them, so that
/// two texts that allow the same continuations have the same state. Not thread-safe.
class TokenGrammar {
 public:
  /// The state of the empty text is kStart.
  using State = std::int32_t;
  static constexpr State kStart = 0, kRefused = -1;

  virtual ~TokenGrammar() = default;

  /// The state after a token; kRefused if it may not come here. @throws Error where there are more states than allowed
  virtual State next(State state, std::int32_t token) = 0;
  /// Bit i % 32 of element i / 32 says whether token i may come next; [ceil(vocabulary / 32)]. Stop tokens are allowed
  /// where the text may end. Valid until the next call of this object's methods.
  virtual std::span<const std::uint32_t> allowed(State state) = 0;
  /// Whether the text is complete here; it may still go on.
  virtual bool may_end(State state) = 0;
  /// Of the model, tokens that no text can contain included.
  virtual std::int64_t vocabulary() const = 0;
};

}  // namespace etna::models
