#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace etna::recording {

/// What the host does before each replay, in recorded order: callbacks, and numbers that it writes into one block. The
/// block goes to the device in one upload.
class HostSteps {
 public:
  void add(std::function<void()> f) { steps_.push_back(std::move(f)); }
  /// Adds bytes [place, place + bytes) of the block: `fill` writes them now and before each replay.
  void add_numbers(std::size_t place, std::size_t bytes, std::function<void(std::byte*)> fill);

  /// Runs the callbacks for the next step.
  void advance();
  /// The block's bytes for this step, padded to whole words.
  std::span<const std::byte> numbers() const { return numbers_; }

 private:
  std::vector<std::function<void()>> steps_;
  std::vector<std::byte> numbers_;
};

}  // namespace etna::recording
