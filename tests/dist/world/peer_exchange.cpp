#include <set>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <etna/device/error.h>
#include <etna/device/internal/foreign_work.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/group.h>
#include <etna/dist/internal/peer_exchange.h>

#include "world.h"

// How two ranks come to share memory, and what is left where they do not. The memory is the host's.
namespace etna {
namespace {

using distributed::PeerExchange, distributed::rank;

int open_descriptors() {
  int count = 0;
  for (int d = 0; d < 1024; ++d) count += ::fcntl(d, F_GETFD) >= 0;
  return count;
}

/// Shares pages of the host, and fails where it is told to.
struct HostStream final : gpu::ForeignStream {
  int shares = 0, fail_share = 0;  ///< the number of the call that fails, from 1
  bool fail_open = false;
  std::set<std::uint64_t> opened;
  std::vector<std::weak_ptr<Storage>> storages;

  void enter() override {}
  void* handle() const override { return nullptr; }
  std::uint64_t queued() const override { return 0; }
  std::uint64_t done() override { return 0; }
  double busy_seconds() override { return 0; }
  Shared share(std::size_t bytes) override {
    if (++shares == fail_share) throw OutOfMemory("no room");
    Shared made;
    std::string why;
    made.bytes = bytes;
    made.descriptor = distributed::make_shared_pages(bytes, why);
    if (!why.empty()) throw DeviceError(why);
    made.storage = allocate(kCPU, bytes);
    storages.push_back(made.storage);
    return made;
  }
  std::uint64_t open(int descriptor, std::size_t bytes) override {
    if (fail_open) throw DeviceError("not opened");
    void* at = distributed::map_shared_pages(descriptor, bytes);
    if (at == nullptr) throw DeviceError("not mapped");
    return *opened.insert(reinterpret_cast<std::uintptr_t>(at)).first;
  }
  void close(std::uint64_t at, std::size_t bytes) override {
    EXPECT_EQ(opened.erase(at), 1u);
    distributed::unmap_shared_pages(reinterpret_cast<void*>(at), bytes);
  }
  std::uint64_t copy(std::uint64_t, std::uint64_t, std::size_t) override { return 0; }
  bool copied(std::uint64_t) override { return true; }
  std::string gpu() const override { return "host"; }

  bool has_live_storage() const {
    for (const auto& s : storages)
      if (!s.expired()) return true;
    return false;
  }
};

std::shared_ptr<PeerExchange> exchange_by(HostStream& stream, std::string& why) {
  distributed::Group& group = *distributed::group();
  distributed::Place place = group.place();
  place.local_size = 2;
  return PeerExchange::make(group.meeting(), place, stream, 1 << 20, 3, 20, why);
}

struct SharingFault {
  const char* name;
  int fail_share;
  bool fail_open;
  const char* why;
};

class PeerExchangeFaults : public testing::TestWithParam<SharingFault> {};

TEST_P(PeerExchangeFaults, LeaveNothingOnEitherRank) {
  if (distributed::size() != 2) GTEST_SKIP() << "it is for two ranks";
  const SharingFault& fault = GetParam();
  for (const int failing : {0, 1}) {
    distributed::barrier();
    const int before = open_descriptors();
    HostStream stream;
    if (rank() == failing) stream.fail_share = fault.fail_share, stream.fail_open = fault.fail_open;
    std::string why;
    EXPECT_EQ(exchange_by(stream, why), nullptr);
    EXPECT_EQ(why, "rank " + std::to_string(failing) + ": " + fault.why);
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_TRUE(stream.opened.empty());
    EXPECT_FALSE(stream.has_live_storage());
  }
}

INSTANTIATE_TEST_SUITE_P(World, PeerExchangeFaults,
                         testing::Values(SharingFault{"FirstShare", 1, false, "no room"},
                                         SharingFault{"SecondShare", 2, false, "no room"},
                                         SharingFault{"Open", 0, true, "not opened"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PeerExchangeMemory, EndsWithTheExchange) {
  if (distributed::size() != 2) GTEST_SKIP() << "it is for two ranks";
  distributed::barrier();
  const int before = open_descriptors();
  HostStream stream;
  std::string why;
  std::shared_ptr<PeerExchange> exchange = exchange_by(stream, why);
  ASSERT_NE(exchange, nullptr) << why;
  EXPECT_EQ(open_descriptors(), before) << "mapped memory needs none";
  EXPECT_EQ(stream.opened.size(), 1u);
  exchange = nullptr;
  EXPECT_TRUE(stream.opened.empty());
  EXPECT_FALSE(stream.has_live_storage());
}

}  // namespace
}  // namespace etna
