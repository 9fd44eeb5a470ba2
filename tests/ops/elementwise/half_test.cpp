#include <algorithm>
#include <bit>
#include <cstring>

#include <ops/rows.h>

// Conversion to f16: to nearest even, with the same bits on every device, whatever its own conversions do.
namespace etna {
namespace {

using namespace op_tests;

/// For every f16: the number itself, the midpoint to the next one, and the f32 numbers next to that midpoint; both
/// signs, and values out of range.
std::vector<float> numbers_around_halves() {
  std::vector<float> all;
  for (std::uint32_t h = 0; h < 0x7c00; ++h) {
    const float here = static_cast<float>(std::bit_cast<Half>(static_cast<std::uint16_t>(h)));
    const float next =
        h == 0x7bff ? 65536.0f : static_cast<float>(std::bit_cast<Half>(static_cast<std::uint16_t>(h + 1)));
    const float middle = here + (next - here) / 2;
    for (float v : {here, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e30f)}) {
      all.push_back(v);
      all.push_back(-v);
    }
  }
  const auto inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  all.insert(all.end(), {65520.0f, 65536.0f, 1e30f, -1e30f, inf, -inf, nan, -nan, 1e-30f, -1e-30f, 0.0f, -0.0f});
  return all;
}

/// The nearest f16's bits, found by comparing distances in double.
std::uint16_t nearest_half(float value) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) >> 31 << 15;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
  const double x = std::abs(static_cast<double>(value));
  if (x >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  // The power of two at or below x, at least that of the smallest normal number; f16 numbers are 2^-10 of it apart.
  const double power = std::max(std::exp2(std::floor(std::log2(std::max(x, 1e-8)))), 0x1p-14);
  const double steps = x / (power * 0x1p-10), below = std::floor(steps), part = steps - below;
  const double kept = below + (part > 0.5 || (part == 0.5 && std::fmod(below, 2) == 1) ? 1 : 0);
  const auto exponent = static_cast<int>(std::log2(power)) + 14;
  return static_cast<std::uint16_t>(sign |
                                    (static_cast<std::uint32_t>(exponent) * 1024 + static_cast<std::uint32_t>(kept)));
}

std::vector<std::uint16_t> halves_of(const Tensor& x) {
  const Tensor host = x.to(kCPU).contiguous();
  std::vector<std::uint16_t> out(static_cast<std::size_t>(host.numel()));
  std::memcpy(out.data(), host.raw_data(), out.size() * 2);
  return out;
}

TEST(Half, IsRoundedToNearestEvenEverywhere) {
  const std::vector<float> numbers = numbers_around_halves();
  const Tensor x = from_vector(numbers);
  for (Device device : devices()) {
    const Tensor there = x.to(device);
    // One by one, since a view that starts at the second element is not aligned, and in pairs.
    const Tensor one_by_one = there.slice(0, 1, x.numel()).to(f16), pairs = there.to(f16);
    const std::vector<std::uint16_t> got = halves_of(pairs), alone = halves_of(one_by_one);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::uint16_t want = nearest_half(numbers[i]);
      ASSERT_EQ(got[i], want) << numbers[i] << " on " << device.str();
      ASSERT_TRUE(i == 0 || alone[i - 1] == want) << numbers[i] << " on " << device.str();
    }
  }
}

}  // namespace
}  // namespace etna
