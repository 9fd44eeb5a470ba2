#include <etna/device/internal/peer_copies.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include <etna/device/kernel.h>

#include "vulkan_fixture.h"

namespace etna::vulkan {
namespace {

using ::testing::HasSubstr;

/// A stream whose copies are done by the host, some questions after they began. Needs addresses that the host can use.
struct HostStream final : gpu::ForeignStream {
  void enter() override {}
  void* handle() const override { return nullptr; }
  std::uint64_t queued() const override { return 0; }
  std::uint64_t done() override { return 0; }
  double busy_seconds() override { return 0; }
  std::string gpu() const override { return "host"; }

  Shared share(std::size_t bytes) override {
    const StoragePtr storage = allocate(kVulkan, bytes);
    return {storage, -1, bytes, shared = storage->address()};
  }
  std::uint64_t open(int, std::size_t) override { return shared; }
  void close(std::uint64_t, std::size_t) override {}
  std::uint64_t copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    if (!failure.empty()) throw DeviceError(failure);
    copies.push_back({to, from, bytes, 3});
    return copies.size() - 1;
  }
  bool copied(std::uint64_t number) override {
    Copy& c = copies[number];
    if (c.questions > 0 && --c.questions > 0) return false;
    std::memcpy(reinterpret_cast<void*>(c.to), reinterpret_cast<const void*>(c.from), c.bytes);
    return true;
  }

  struct Copy {
    std::uint64_t to, from;
    std::size_t bytes;
    int questions;
  };
  std::vector<Copy> copies;
  std::uint64_t shared = 0;  ///< the last
  std::string failure;
};

class PeerCopies : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (adapters()[0].kind != "software") GTEST_SKIP() << "the host reaches only a software rasterizer's memory";
  }
};

TEST_F(PeerCopies, KeepTheOrderOfBothQueues) {
  static HostStream stream;  // the queue keeps what it did last
  const auto path = PeerPath::make(kVulkan, stream, kVulkan, stream, 4096);
  std::mt19937 random(5);
  constexpr std::size_t kWords = 20000;
  Words expected(kWords);
  const StoragePtr target = store(expected);
  for (std::uint32_t round = 1; round <= 20; ++round) {
    Words words(kWords);
    for (auto& w : words) w = random();
    const StoragePtr source = store(words), changed = store(Words(kWords));
    const std::size_t from = random() % kWords, to = random() % kWords;
    const std::size_t count = 1 + random() % (kWords - std::max(from, to));
    // The copy takes what the dispatch before it wrote, and nothing of what is written behind it.
    dispatch({*source, 0, *changed, 0, kWords, 3, round});
    path->copy(*changed, from * 4, *target, to * 4, count * 4);
    enqueue_fill(kVulkan, *changed, 0, kWords * 4, 0);
    for (std::size_t i = 0; i < count; ++i) expected[to + i] = words[from + i] * 3 + round;
    if (round % 5 == 0) {
      ASSERT_EQ(load(*target, kWords), expected) << round;
    }
  }
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4095}, std::size_t{4097}}) {
    const StoragePtr source = store(Words(2000, 0x01010101));
    path->copy(*source, 1, *target, 3, bytes);
    std::memset(reinterpret_cast<std::byte*>(expected.data()) + 3, 1, bytes);
    ASSERT_EQ(load(*target, kWords), expected) << bytes << " bytes, beside words";
  }
}

TEST_F(PeerCopies, AFailureIsToldAndStopsNobody) {
  static HostStream stream;
  const auto path = PeerPath::make(kVulkan, stream, kVulkan, stream, 4096);
  const StoragePtr source = store(Words(5000, 7)), target = store(Words(5000));
  stream.failure = "the link is down";
  const auto copied = [&] {
    path->copy(*source, 0, *target, 0, 20000);
    synchronize(kVulkan);
  };
  EXPECT_THAT(copied, testing::ThrowsMessage<DeviceError>(
                          AllOf(HasSubstr("copy from vulkan:0 to vulkan:0"), HasSubstr("the link is down"))));
  EXPECT_THROW(path->copy(*source, 0, *target, 0, 4), DeviceError);
  dispatch({*source, 0, *target, 0, 5000, 2, 1});
  EXPECT_EQ(load(*target, 2), (Words{15, 15})) << "the device goes on";
}

TEST(PeerCopiesOfGpus, DoNotPassThroughTheHost) {
  std::vector<Device> gpus;
  for (const AdapterInfo& a : etna::adapters())
    if (a.rejected.empty() && a.device.type == kVulkan.type && a.kind != "software") gpus.push_back(a.device);
  if (gpus.size() < 2) GTEST_SKIP() << "needs two GPUs";
  const auto filled = [](Device device, std::size_t bytes, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::uint8_t> values(bytes);
    for (auto& v : values) v = static_cast<std::uint8_t>(random());
    const StoragePtr made = allocate(device, bytes);
    upload(values.data(), *made, 0, bytes);
    return std::pair(made, values);
  };
  const auto read = [](const Storage& storage, std::size_t bytes) {
    std::vector<std::uint8_t> values(bytes);
    download(storage, 0, values.data(), bytes);
    return values;
  };
  EXPECT_FALSE(copy_to_peer(*allocate(gpus[0], 16), 0, *allocate(gpus[1], 16), 0, 16)) << "not worth a path yet";
  unsigned seed = 0;
  for (const std::size_t bytes : {(std::size_t{1} << 20) + 3, std::size_t{1}, std::size_t{150} << 20}) {
    const auto [x, there] = filled(gpus[0], bytes, ++seed);
    const auto [y, back] = filled(gpus[1], bytes, ++seed);
    const StoragePtr x1 = allocate(gpus[1], bytes), y0 = allocate(gpus[0], bytes), again = allocate(gpus[0], bytes);
    reset_transfers();
    if (!copy_to_peer(*x, 0, *x1, 0, bytes)) GTEST_SKIP() << "these GPUs do not reach each other's memory";
    ASSERT_TRUE(copy_to_peer(*y, 0, *y0, 0, bytes));
    ASSERT_TRUE(copy_to_peer(*x1, 0, *again, 0, bytes));
    synchronize(gpus[0]);
    EXPECT_EQ(transfers().h2d_calls + transfers().d2h_calls, 0u);
    EXPECT_TRUE(read(*x1, bytes) == there) << bytes;
    EXPECT_TRUE(read(*y0, bytes) == back) << bytes;
    EXPECT_TRUE(read(*again, bytes) == there) << bytes;
  }
}

}  // namespace
}  // namespace etna::vulkan
