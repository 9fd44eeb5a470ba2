#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <etna/tensor/op.h>

namespace etna::recording {

/// What the host does before each replay, in the order recorded: callbacks, and the values of attributes that change from step
/// to step. Kernels find those values in a block of bytes on the device, the step state.
class HostSteps {
 public:
  HostSteps();
  HostSteps(const HostSteps&) = delete;
  HostSteps& operator=(const HostSteps&) = delete;

  void add(std::function<void()> f) { steps_.push_back(std::move(f)); }
  /// Attributes that `make` computes anew each step. @returns their first value, marked as such
  Attrs add_attrs(std::function<Attrs()> make);

  /// True where these attributes are made anew each step, by this.
  bool owns(const Attrs& attrs) const;
  /// The value of this step; of attributes that do not change, themselves.
  const Attrs& now(const Attrs& attrs) const;

  using Write = void (*)(const Attrs&, std::byte*);
  struct Slot {
    std::size_t value;
    Write write;
    std::size_t place, bytes;
  };
  /// The slot into which `write` puts these attributes, or null.
  const Slot* find_slot(const Attrs& attrs, Write write) const;
  void add_slot(const Attrs& attrs, Write write, std::size_t place, std::size_t bytes);

  /// Runs the callbacks and computes the values of the next step.
  void advance();
  /// The block's bytes for this step.
  std::span<const std::byte> state(std::size_t bytes);

 private:
  std::size_t index(const Attrs& attrs) const { return attrs.source() & 0xffff; }

  std::uint32_t serial_;  ///< in the upper half of what marks attributes as ours
  std::vector<std::function<void()>> steps_;
  std::vector<Attrs> values_;
  std::vector<Slot> slots_;
  std::vector<std::byte> state_;
};

}  // namespace etna::recording
