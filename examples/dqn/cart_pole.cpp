#include "cart_pole.h"

#include <cmath>

namespace {

constexpr double kGravity = 9.8, kCartMass = 1.0, kPoleMass = 0.1, kHalfLength = 0.5, kForce = 10.0, kSeconds = 0.02;
constexpr double kFarthest = 2.4, kSteepest = 12 * 3.14159265358979 / 180;
constexpr int kLongest = 200;

CartPole::State rounded(const std::array<double, 4>& state) {
  CartPole::State all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(state[i]);
  return all;
}

}  // namespace

CartPole::State CartPole::reset() {
  // 32 random bits to [-0.05, 0.05]: the same on every machine, unlike the standard library's distributions.
  for (double& x : state_) x = static_cast<double>(random_()) / 4294967296.0 * 0.1 - 0.05;
  steps_ = 0;
  return rounded(state_);
}

CartPole::Outcome CartPole::step(int action) {
  auto& [x, speed, angle, turning] = state_;
  const double force = action == 1 ? kForce : -kForce, mass = kCartMass + kPoleMass;
  const double push = (force + kPoleMass * kHalfLength * turning * turning * std::sin(angle)) / mass;
  const double angular = (kGravity * std::sin(angle) - std::cos(angle) * push) /
                         (kHalfLength * (4.0 / 3.0 - kPoleMass * std::cos(angle) * std::cos(angle) / mass));
  const double linear = push - kPoleMass * kHalfLength * angular * std::cos(angle) / mass;
  x += kSeconds * speed;
  speed += kSeconds * linear;
  angle += kSeconds * turning;
  turning += kSeconds * angular;
  const bool fallen = std::abs(x) > kFarthest || std::abs(angle) > kSteepest;
  return {rounded(state_), fallen, fallen || ++steps_ >= kLongest};
}
