#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace etna::vulkan {

/// The value of a specialization constant, by the id that the shader gives it.
struct SpecializationValue {
  std::uint32_t id, value;
};

/// The module without the code that these specialization constants rule out: branches on them lead one way, and blocks
/// and functions that nothing reaches any more are gone. Drivers do the same, but some only after they have inlined and
/// translated all of it: a pipeline of the elementwise kernel, a switch over every op, takes Mesa's lavapipe a fraction
/// of the time this way. Constants stay as they are and have to be passed on. Modules that this does not understand
/// come back unchanged.
std::vector<std::uint32_t> taken_branches(std::span<const std::uint32_t> words,
                                          std::span<const SpecializationValue> constants);

}  // namespace etna::vulkan
