#include <etna/data/dataset.h>

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/ops/random/internal/philox.h>

namespace etna::data {

Random Random::of_sample(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index) {
  // One block mixes seed and epoch, so that samples of neighbouring epochs and seeds share no numbers.
  const random::Counter mixed = random::block({seed, epoch}, ~std::uint64_t{0});
  return Random(static_cast<std::uint64_t>(mixed[1]) << 32 | mixed[0], index);
}

std::uint32_t Random::bits() {
  if (used_ == words_.size()) {
    words_ = random::block({seed_, stream_}, block_++);
    used_ = 0;
  }
  return words_[used_++];
}

std::uint64_t Random::bits64() {
  const std::uint64_t low = bits();
  return static_cast<std::uint64_t>(bits()) << 32 | low;
}

std::int64_t Random::below(std::int64_t end) {
  if (end <= 0) throw Error(fmt::format("random: below({}) has nothing to choose from", end));
  const auto range = static_cast<std::uint64_t>(end);
  // Numbers from the last, incomplete run of `range` are drawn again.
  const std::uint64_t rest = (~std::uint64_t{0} % range + 1) % range;
  std::uint64_t drawn = bits64();
  while (drawn > ~std::uint64_t{0} - rest) drawn = bits64();
  return static_cast<std::int64_t>(drawn % range);
}

double Random::uniform() { return static_cast<double>(bits64() >> 11) * 0x1p-53; }

std::vector<std::int64_t> Random::permutation(std::int64_t n) {
  if (n < 0) throw Error(fmt::format("random: permutation({}) of a negative number", n));
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  shuffle(values);
  return values;
}

void Random::shuffle(std::vector<std::int64_t>& values) {
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
}

}  // namespace etna::data
