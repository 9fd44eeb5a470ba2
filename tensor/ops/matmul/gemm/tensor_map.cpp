#include <etna/tensor/ops/matmul/gemm/internal/tensor_map.h>

#include <array>

namespace etna::gemm {
namespace {

// Fields of the second u64: from bit 4 on the number of dimensions minus one, then the element type, the swizzle, and
// the L2 read size; the upper half is the row stride.
constexpr std::uint64_t kThreeDimensions = 2 << 4, kFourDimensions = 3 << 4, k16Bits = 0x500, k32Bits = 0x380,
                        kSwizzle128 = 0x6000, kReadAhead128 = 0x40000;
constexpr std::uint64_t kBoxBytes = 128, kSwizzledRows = 8;
// Images have four dimensions, and their first bit is set.
constexpr std::uint64_t kPixels = 3 << 4 | 1;

std::uint64_t less_one(std::int64_t n) { return static_cast<std::uint64_t>(n - 1); }
std::uint64_t sixteenths(std::int64_t bytes) { return static_cast<std::uint64_t>(bytes / 16); }

using Words = std::array<std::uint64_t, 16>;  ///< the first is the address

/// A box of rows of 128 bytes, of so many matrices.
void set_box(Words& words, std::int64_t item, std::int64_t rows, std::int64_t matrices = 1) {
  words[6] = (kBoxBytes / static_cast<std::uint64_t>(item) - 1) << 56;
  words[7] = less_one(matrices) << 8 | less_one(rows);
  words[8] = kBoxBytes * static_cast<std::uint64_t>(rows * matrices);
  words[9] = kBoxBytes * kSwizzledRows;
}

Arguments tensor_map_of(const Pointer& at, const Words& words) {
  Arguments map;
  map.read(at);
  for (std::size_t i = 1; i < words.size(); ++i) map.number(words[i]);
  return map;
}

}  // namespace

std::optional<Arguments> tensor_map(const TiledMatrix& x) {
  const auto item = static_cast<std::int64_t>(item_size(x.dtype));
  const std::int64_t row_bytes = x.leading * item, matrix_bytes = x.matrices > 1 ? x.stride * item : row_bytes;
  constexpr std::int64_t most = std::int64_t{1} << 36;
  if (x.at.address % 16 != 0 || row_bytes % 16 != 0 || matrix_bytes % 16 != 0) return {};
  if (row_bytes <= 0 || row_bytes >= most || matrix_bytes <= 0 || matrix_bytes >= most) return {};
  Words words{};
  words[1] =
      sixteenths(row_bytes) << 32 | kReadAhead128 | kSwizzle128 | (item == 2 ? k16Bits : k32Bits) | kThreeDimensions;
  words[2] = sixteenths(matrix_bytes);
  words[4] = less_one(x.rows) << 32 | less_one(x.columns);
  words[5] = less_one(x.matrices);
  set_box(words, item, x.box_rows);
  return tensor_map_of(x.at, words);
}

std::optional<Arguments> tensor_map(const TiledHeads& x) {
  constexpr std::int64_t item = 2, most = std::int64_t{1} << 36;
  const std::int64_t row = x.row_stride * item, head = x.heads > 1 ? x.head_stride * item : row,
                     batch = x.batch > 1 ? x.batch_stride * item : row;
  if (x.at.address % 16 != 0) return {};
  for (std::int64_t stride : {row, head, batch}) {
    if (stride <= 0 || stride >= most || stride % 16 != 0) return {};
  }
  Words words{};
  words[1] = sixteenths(row) << 32 | kReadAhead128 | kSwizzle128 | k16Bits | kFourDimensions;
  words[2] = sixteenths(batch) << 32 | sixteenths(head);
  words[4] = less_one(x.rows) << 32 | less_one(x.size);
  words[5] = less_one(x.batch) << 32 | less_one(x.heads);
  set_box(words, item, x.box_rows, x.box_heads);
  return tensor_map_of(x.at, words);
}

std::optional<Arguments> tensor_map(const TiledImages& x) {
  const auto item = static_cast<std::int64_t>(item_size(x.dtype));
  const std::int64_t pixel = x.channels * item, row = pixel * x.width, image = row * x.height;
  constexpr std::int64_t most = std::int64_t{1} << 36;
  if (x.at.address % 16 != 0 || pixel % 16 != 0 || image >= most || x.box_pixels > 1024) return {};
  // The walk is bounded by its first pixel and by the distance from its end to the image's end.
  const std::int64_t end_x = x.first_x + (x.places_x - 1) * x.stride_x + 1 - x.width,
                     end_y = x.first_y + (x.places_y - 1) * x.stride_y + 1 - x.height;
  std::uint64_t corners = 0;
  for (std::int64_t corner : {end_y, end_x, x.first_y, x.first_x}) {
    if (corner < -128 || corner > 127) return {};
    corners = corners << 8 | (static_cast<std::uint64_t>(corner) & 0xff);
  }
  if (x.stride_x > 8 || x.stride_y > 8) return {};
  Words words{};
  words[1] = sixteenths(pixel) << 32 | kReadAhead128 | kSwizzle128 | (item == 2 ? k16Bits : k32Bits) | kPixels;
  words[2] = sixteenths(image) << 32 | sixteenths(row);
  words[4] = less_one(x.width) << 32 | less_one(x.channels);
  words[5] = less_one(x.images) << 32 | less_one(x.height);
  words[6] = (kBoxBytes / static_cast<std::uint64_t>(item) - 1) << 56 | less_one(x.stride_y) << 38 |
             less_one(x.stride_x) << 35;
  words[7] = less_one(x.box_pixels) << 32 | corners;
  words[8] = kBoxBytes * static_cast<std::uint64_t>(x.box_pixels);
  words[9] = kBoxBytes * kSwizzledRows;
  return tensor_map_of(x.at, words);
}

}  // namespace etna::gemm
