#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace etna::data {

/// Random numbers of one sample or one shuffle: Philox4x32-10, a pure function of (seed, stream, position). Integer
/// arithmetic only, so that every machine and every number of worker threads draws the same.
class Random {
 public:
  explicit Random(std::uint64_t seed = 0, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  /// The numbers of one sample in one epoch.
  static Random of_sample(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index);

  std::uint32_t bits();
  std::uint64_t bits64();
  /// Uniform in [0, end), without bias. @throws Error unless end > 0
  std::int64_t below(std::int64_t end);
  /// Uniform in [0, 1), of 53 bits.
  double uniform();
  /// True with this probability.
  bool chance(double probability) { return uniform() < probability; }
  /// 0 ... n-1, shuffled. @throws Error for a negative n
  std::vector<std::int64_t> permutation(std::int64_t n);
  void shuffle(std::vector<std::int64_t>& values);

 private:
  std::uint64_t seed_, stream_, block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  unsigned used_ = 4;
};

}  // namespace etna::data
