#pragma once

#include <array>
#include <cstdint>
#include <random>

/// A pole on a cart that is pushed left or right at every step (Barto, Sutton & Anderson 1983). An episode ends when
/// the pole has fallen by 12 degrees, the cart is 2.4 m off, or after 200 steps. Each step is worth 1.
class CartPole {
 public:
  using State = std::array<float, 4>;  ///< position in m, velocity, angle in radians, angular velocity

  explicit CartPole(std::uint32_t seed) : random_(seed) {}

  State reset();
  struct Outcome {
    State state;
    bool fallen = false;  ///< the pole or the cart; there is no future to hope for
    bool over = false;    ///< fallen, or after 200 steps
  };
  /// @param action 0: push left, 1: push right
  Outcome step(int action);

 private:
  std::mt19937 random_;
  std::array<double, 4> state_ = {};
  int steps_ = 0;
};
