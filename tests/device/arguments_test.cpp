#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <etna/device/arguments.h>

namespace etna {
namespace {

constexpr std::uint64_t kX = 0x7f00'0000'1000, kY = 0x7f00'0000'2000;

std::vector<std::uint32_t> words(const Arguments& a) {
  std::vector<std::uint32_t> all(a.bytes().size() / 4);
  std::memcpy(all.data(), a.bytes().data(), all.size() * 4);
  return all;
}

TEST(Arguments, YieldBytesRangesAndPlacesOfAddressesAtOnce) {
  Arguments a;
  a.number(7u);
  a.read({kX + 16, {kX, 64}});
  a.number(0.5f);
  a.read_write({kY, {kY, 32}});
  a.number(std::uint64_t{1} << 40);
  EXPECT_EQ(words(a), (std::vector<std::uint32_t>{7, 0x1010, 0x7f00, 0x3f000000, 0x2000, 0x7f00, 0, 256}));
  ASSERT_EQ(a.addresses().size(), 2u);
  EXPECT_EQ(a.addresses()[0].offset, 4u);
  EXPECT_EQ(a.addresses()[1].offset, 16u);
  EXPECT_EQ(a.addresses()[1].access, Access::read_write);
  ASSERT_EQ(a.reads().size(), 2u);
  EXPECT_EQ(a.reads()[0], (MemoryRange{kX, 64}));
  EXPECT_EQ(a.reads()[1], (MemoryRange{kY, 32}));
  ASSERT_EQ(a.writes().size(), 1u);
  EXPECT_EQ(a.writes()[0], (MemoryRange{kY, 32}));
}

TEST(Arguments, AnArgumentLeftOutIsAZeroThatNothingRelocates) {
  Arguments a;
  a.read({});
  a.write({kY, {kY, 0}});
  EXPECT_EQ(words(a), (std::vector<std::uint32_t>{0, 0, 0x2000, 0x7f00}));
  EXPECT_EQ(a.addresses().size(), 1u) << "an empty tensor's address still moves with it";
  EXPECT_TRUE(a.reads().empty());
  EXPECT_TRUE(a.writes().empty());
}

TEST(Arguments, ATableReachesWhatItsRowsReach) {
  Arguments rows;
  for (std::uint64_t i = 0; i < 100; ++i) {
    rows.read({kX + i * 64, {kX + i * 64, 64}});
    rows.write({kY + i * 64, {kY + i * 64, 64}});
    rows.number(static_cast<std::uint32_t>(i));
  }
  Arguments a;
  a.table({0x9000, {0x9000, 2000}}, rows);
  EXPECT_EQ(a.bytes().size(), 8u);
  EXPECT_EQ(a.addresses().size(), 1u);
  EXPECT_EQ(a.reads().size(), 101u);
  EXPECT_EQ(a.writes().size(), 100u);
  EXPECT_EQ(rows.addresses().size(), 200u);
  EXPECT_EQ(rows.addresses()[199].offset, 99u * 20 + 8);
}

TEST(Arguments, AppendedOnesKeepTheirPlaces) {
  Arguments front, back;
  front.number(1u);
  back.write({kY, {kY, 8}});
  front.append(back);
  EXPECT_EQ(front.addresses()[0].offset, 4u);
  EXPECT_EQ(front.writes()[0], (MemoryRange{kY, 8}));
  Arguments copy = front;
  copy.clear();
  EXPECT_TRUE(copy.bytes().empty() && copy.addresses().empty() && copy.writes().empty());
  EXPECT_EQ(front.bytes().size(), 12u);
}

/// The same list for a backend without buffer addresses: bindings, and one block of words in which each address is
/// replaced by the offset from its binding's start.
TEST(Arguments, BecomeBindingsAndABlockOfWords) {
  Arguments a;
  a.read({kX + 16, {kX, 64}});
  a.write({kY, {kY, 32}});
  a.number(3u);
  std::vector<MemoryRange> bindings;
  std::vector<std::uint32_t> block = words(a);
  for (const Arguments::Address& address : a.addresses()) {
    std::uint64_t value;
    std::memcpy(&value, a.bytes().data() + address.offset, 8);
    block[address.offset / 4] = static_cast<std::uint32_t>(bindings.size());
    block[address.offset / 4 + 1] = static_cast<std::uint32_t>(value - address.range.address);
    bindings.push_back(address.range);
  }
  EXPECT_EQ(bindings, (std::vector<MemoryRange>{{kX, 64}, {kY, 32}}));
  EXPECT_EQ(block, (std::vector<std::uint32_t>{0, 16, 1, 0, 3}));
}

}  // namespace
}  // namespace etna
