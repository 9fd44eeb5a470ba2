#include <etna/tensor/ops/matmul/gemm/tensor_map.h>

#include <array>

namespace etna::gemm {
namespace {

// Fields of the second word: from bit 4 on the number of dimensions minus one, then the element type, the swizzle, and
// the L2 read size; the upper half is the row stride.
constexpr std::uint64_t kThreeDimensions = 2 << 4, k16Bits = 0x500, k32Bits = 0x380, kSwizzle128 = 0x6000,
                        kReadAhead128 = 0x40000;
constexpr std::uint64_t kBoxBytes = 128, kSwizzledRows = 8;

}  // namespace

std::optional<Arguments> tensor_map(const TiledMatrix& x) {
  const auto item = static_cast<std::int64_t>(item_size(x.dtype));
  const std::int64_t row_bytes = x.leading * item, matrix_bytes = x.matrices > 1 ? x.stride * item : row_bytes;
  constexpr std::int64_t most = std::int64_t{1} << 36;
  if (x.at.address % 16 != 0 || row_bytes % 16 != 0 || matrix_bytes % 16 != 0) return {};
  if (row_bytes <= 0 || row_bytes >= most || matrix_bytes <= 0 || matrix_bytes >= most) return {};
  auto less_one = [](std::int64_t n) { return static_cast<std::uint64_t>(n - 1); };
  auto sixteenths = [](std::int64_t bytes) { return static_cast<std::uint64_t>(bytes / 16); };
  std::array<std::uint64_t, 16> words{};  // the first word is the address
  words[1] =
      sixteenths(row_bytes) << 32 | kReadAhead128 | kSwizzle128 | (item == 2 ? k16Bits : k32Bits) | kThreeDimensions;
  words[2] = sixteenths(matrix_bytes);
  words[4] = less_one(x.rows) << 32 | less_one(x.columns);
  words[5] = less_one(x.matrices);
  words[6] = (kBoxBytes / static_cast<std::uint64_t>(item) - 1) << 56;
  words[7] = less_one(x.box_rows);
  words[8] = kBoxBytes * static_cast<std::uint64_t>(x.box_rows);
  words[9] = kBoxBytes * kSwizzledRows;
  Arguments map;
  map.read(x.at);
  for (std::size_t i = 1; i < words.size(); ++i) map.number(words[i]);
  return map;
}

}  // namespace etna::gemm
