// XXH3 as specified: short inputs are hashed by 128-bit products of two u64s, longer ones by eight accumulators over
// stripes of 64 bytes, which are scrambled after each block of 1024.
#include <etna/tensor/io/internal/xxh3.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace etna::io {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read without conversion");

constexpr std::uint32_t kPrime32 = 0x9E3779B1;
constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F, kPrime3 = 0x165667B19E3779F9;

/// The format's secret, 192 bytes.
constexpr std::uint64_t kSecret[] = {0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
                                     0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
                                     0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
                                     0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
                                     0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
                                     0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};

template <typename T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
std::uint64_t word(const std::byte* at) { return read<std::uint64_t>(at); }
std::uint64_t secret(std::size_t offset) { return word(reinterpret_cast<const std::byte*>(kSecret) + offset); }

/// The upper half of a 128-bit product xor the lower half.
std::uint64_t fold_product(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
  const std::uint64_t low = a0 * b0, left = a1 * b0, right = a0 * b1;
  const std::uint64_t middle = (low >> 32) + (left & 0xffffffff) + right;
  return (a1 * b1 + (left >> 32) + (middle >> 32)) ^ (middle << 32 | (low & 0xffffffff));
}

std::uint64_t byte_swap(std::uint64_t x) {
  std::uint64_t out = 0;
  for (int i = 0; i < 8; ++i) out = out << 8 | (x >> (8 * i) & 0xff);
  return out;
}

std::uint64_t avalanche(std::uint64_t h) {
  h = (h ^ h >> 37) * 0x165667919E3779F9;
  return h ^ h >> 32;
}
std::uint64_t strong_avalanche(std::uint64_t h) {
  h = (h ^ h >> 33) * kPrime2;
  h = (h ^ h >> 29) * kPrime3;
  return h ^ h >> 32;
}

std::uint64_t mix(const std::byte* at, std::size_t offset) {
  return fold_product(word(at) ^ secret(offset), word(at + 8) ^ secret(offset + 8));
}

std::uint64_t up_to_16(const std::byte* x, std::size_t n) {
  if (n == 0) return strong_avalanche(secret(56) ^ secret(64));
  if (n <= 3) {
    const auto byte = [x](std::size_t i) { return static_cast<std::uint32_t>(x[i]); };
    const std::uint32_t all = byte(0) << 16 | byte(n >> 1) << 24 | byte(n - 1) | static_cast<std::uint32_t>(n) << 8;
    return strong_avalanche(all ^ ((secret(0) & 0xffffffff) ^ secret(0) >> 32));
  }
  if (n <= 8) {
    const std::uint64_t first = read<std::uint32_t>(x), last = read<std::uint32_t>(x + n - 4);
    std::uint64_t h = (last + (first << 32)) ^ (secret(8) ^ secret(16));
    h = (h ^ std::rotl(h, 49) ^ std::rotl(h, 24)) * 0x9FB21C651E98DF25;
    h = (h ^ ((h >> 35) + n)) * 0x9FB21C651E98DF25;
    return h ^ h >> 28;
  }
  const std::uint64_t low = word(x) ^ secret(24) ^ secret(32), high = word(x + n - 8) ^ secret(40) ^ secret(48);
  return avalanche(n + byte_swap(low) + high + fold_product(low, high));
}

std::uint64_t up_to_240(const std::byte* x, std::size_t n) {
  std::uint64_t sum = n * kPrime1;
  if (n <= 128) {
    for (std::size_t i = (n - 1) / 32 + 1; i-- > 0;)
      sum += mix(x + 16 * i, 32 * i) + mix(x + n - 16 * (i + 1), 32 * i + 16);
    return avalanche(sum);
  }
  for (std::size_t i = 0; i < 8; ++i) sum += mix(x + 16 * i, 16 * i);
  sum = avalanche(sum);
  for (std::size_t i = 8; i < n / 16; ++i) sum += mix(x + 16 * i, 16 * (i - 8) + 3);
  return avalanche(sum + mix(x + n - 16, 136 - 17));
}

}  // namespace

void PlainXxh3::add_stripe(Sums& sums, const std::byte* stripe, std::size_t offset) {
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint64_t value = word(stripe + 8 * i), key = value ^ secret(offset + 8 * i);
    sums[i ^ 1] += value;
    sums[i] += (key & 0xffffffff) * (key >> 32);
  }
}

void PlainXxh3::add_block(Sums& sums, const std::byte* block) {
  for (std::size_t i = 0; i < kBlock / kStripe; ++i) add_stripe(sums, block + kStripe * i, 8 * i);
  for (std::size_t i = 0; i < 8; ++i) sums[i] = (sums[i] ^ sums[i] >> 47 ^ secret(128 + 8 * i)) * kPrime32;
}

void PlainXxh3::add(const void* bytes, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  total_ += count;
  while (count > 0) {
    std::byte* block = bytes_.data() + kStripe;
    if (waiting_ == kBlock) {
      add_block(sums_, block);
      std::memcpy(bytes_.data(), block + kBlock - kStripe, kStripe);
      waiting_ = 0;
    }
    const std::size_t some = std::min(count, kBlock - waiting_);
    std::memcpy(block + waiting_, from, some);
    waiting_ += some;
    from += some;
    count -= some;
  }
}

std::uint64_t PlainXxh3::value() const {
  const std::byte* block = bytes_.data() + kStripe;
  if (total_ <= 16) return up_to_16(block, waiting_);
  if (total_ <= 240) return up_to_240(block, waiting_);
  Sums sums = sums_;
  for (std::size_t i = 0; i < (waiting_ - 1) / kStripe; ++i) add_stripe(sums, block + kStripe * i, 8 * i);
  add_stripe(sums, block + waiting_ - kStripe, 121);
  std::uint64_t out = total_ * kPrime1;
  for (std::size_t i = 0; i < 4; ++i)
    out += fold_product(sums[2 * i] ^ secret(11 + 16 * i), sums[2 * i + 1] ^ secret(19 + 16 * i));
  return avalanche(out);
}

}  // namespace etna::io
