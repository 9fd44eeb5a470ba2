#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/internal/fake/backend.h>
#include <etna/device/memory.h>

namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// Strict mode, as it was before.
class FakeDevice : public testing::Test {
 protected:
  FakeDevice() { set_strict(false); }
  ~FakeDevice() override { set_strict(before_); }

 private:
  bool before_ = strict();
};

TEST_F(FakeDevice, IsAmongTheAdaptersAsDescribed) {
  const Device device =
      fake::add({.name = "Tiny GPU", .memory = 64 << 20, .features = {"float16"}, .limits = {"shared memory 16 KiB"}});
  const std::vector<AdapterInfo> all = adapters();
  const auto found = std::find_if(all.begin(), all.end(), [&](const AdapterInfo& a) { return a.device == device; });
  ASSERT_NE(found, all.end());
  EXPECT_EQ(found->name, "Tiny GPU");
  EXPECT_EQ(found->kind, "fake");
  EXPECT_EQ(found->memory_bytes, 64u << 20);
  EXPECT_THAT(found->features, ElementsAre("float16"));
  EXPECT_THAT(found->limits, ElementsAre("shared memory 16 KiB"));
  EXPECT_TRUE(all.back().device.is_cpu());
  EXPECT_EQ(select_device(device.str()), device);
  EXPECT_EQ(device.str().substr(0, 5), "fake:");
  EXPECT_THAT(device_line(device.str(), device), HasSubstr("Tiny GPU"));
}

TEST_F(FakeDevice, IsNeverChosenByAuto) {
  const Device device = fake::add({.memory = std::uint64_t{1} << 40});
  EXPECT_NE(select_device("auto").type, device.type);
  try {
    EXPECT_NE(select_device("gpu").type, device.type);
  } catch (const DeviceError&) {  // no GPU here
  }
}

TEST_F(FakeDevice, IsRefusedByStrictMode) {
  const Device device = fake::add({});
  set_strict(true);
  EXPECT_THAT(
      [&] { select_device(device.str()); },
      ThrowsMessage<DeviceError>(AllOf(HasSubstr("fake device for tests"), HasSubstr("strict mode refuses it"))));
  EXPECT_THAT([&] { allocate(device, 100); }, ThrowsMessage<DeviceError>(HasSubstr("strict mode refuses it")));
  set_strict(false);
  EXPECT_THAT([&] { select_device_strictly(device.str()); },
              ThrowsMessage<DeviceError>(HasSubstr("strict mode refuses it")));
}

TEST_F(FakeDevice, HasTheMemoryOfItsDescription) {
  const Device device = fake::add({.memory = 10 << 20, .most_at_once = 6 << 20});
  EXPECT_EQ(available_memory(device), 10u << 20);
  const StoragePtr half = allocate(device, 5 << 20);
  EXPECT_LT(available_memory(device), 6u << 20);
  EXPECT_THAT(
      [&] { allocate(device, 6 << 20); },
      ThrowsMessage<OutOfMemory>(AllOf(HasSubstr("the fake device has 10.0 MiB"), HasSubstr("5.0 MiB in use"))));
  EXPECT_THAT([&] { allocate(device, 7 << 20); }, ThrowsMessage<OutOfMemory>(HasSubstr("at most 6.0 MiB at once")));
}

TEST_F(FakeDevice, MayBeOneThatCannotBeUsed) {
  const Device device = fake::add({.name = "Old GPU", .rejected = "it has no subgroups"});
  EXPECT_THAT([&] { select_device(device.str()); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("it cannot be used"), HasSubstr("it has no subgroups"))));
  EXPECT_THAT([&] { allocate(device, 1); }, ThrowsMessage<DeviceError>(HasSubstr("cannot be used")));
  EXPECT_THAT([&] { allocate({device.type, 63}, 1); }, ThrowsMessage<DeviceError>(HasSubstr("does not exist")));
}

TEST_F(FakeDevice, IsReadFromText) {
  EXPECT_EQ(fake::parse("1").size(), 1u);
  EXPECT_THAT(fake::parse(" ; "), IsEmpty());
  const auto two =
      fake::parse("name=Tiny GPU, memory=64MiB, feature=int8, feature=float16; name=Old, rejected=too old");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].name, "Tiny GPU");
  EXPECT_EQ(two[0].memory, 64u << 20);
  EXPECT_THAT(two[0].features, ElementsAre("int8", "float16"));
  EXPECT_EQ(two[1].rejected, "too old");
  for (const char* wrong : {"memory=lots", "size=3", "name", "=", "memory=-1", "lost_after=-1", "lost_after=1x"}) {
    const auto one = fake::parse(wrong);
    ASSERT_EQ(one.size(), 1u) << wrong;
    EXPECT_THAT(one[0].rejected, HasSubstr("ETNA_FAKE_DEVICE: ")) << wrong;
  }
  EXPECT_EQ(fake::parse(std::string(1000, ';') + "1x").size(), 1u);
}

}  // namespace
}  // namespace etna
