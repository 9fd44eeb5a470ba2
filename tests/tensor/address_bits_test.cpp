#include <cstdint>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/quant/block_format.h>

// Sizes that addresses of 32 bits do not count, on systems of either kind: nothing may wrap around to a small one.
namespace etna {
namespace {

constexpr bool kNarrow = std::numeric_limits<std::size_t>::max() == std::numeric_limits<std::uint32_t>::max();

TEST(AddressBits, BlocksThatTakeMoreBytesThanAnAddressCountsAreRefused) {
  const quant::BlockFormat& f16 = quant::format_named("F16");
  const std::int64_t large = std::int64_t{1} << 31;
  if (kNarrow) {
    EXPECT_THROW(quant::storage_bytes(f16, large), ShapeError);
    EXPECT_THROW(quant::storage_bytes(f16, large + 8), ShapeError);
  } else {
    EXPECT_EQ(quant::storage_bytes(f16, large + 8), 2 * static_cast<std::uint64_t>(large + 8));
  }
  EXPECT_EQ(quant::storage_bytes(f16, large - 1), 4'294'967'294u);
}

TEST(AddressBits, TensorsOfMoreThanTwoGibibytesAreRefusedOn32Bits) {
  if (!kNarrow) GTEST_SKIP() << "addresses have 64 bits here";
  const auto refuses = [](const char* what) { return testing::ThrowsMessage<ShapeError>(testing::HasSubstr(what)); };
  EXPECT_THAT([] { zeros({std::int64_t{1} << 29}); }, refuses("does not fit in 31 bits"));
  EXPECT_THAT([] { zeros({std::int64_t{1} << 62}); }, refuses("does not fit in 31 bits"));
  EXPECT_THAT([] { empty({std::int64_t{1} << 30, std::int64_t{1} << 30}); }, refuses("does not fit in 31 bits"));
}

}  // namespace
}  // namespace etna
