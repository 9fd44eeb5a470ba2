#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include <unistd.h>

#include <etna/dist/dist.h>
#include <etna/dist/internal/meeting.h>
#include <etna/dist/internal/socket.h>
#include <runner/run_program.h>

// How ranks find each other, in threads of one process.
namespace etna::distributed {
namespace {

using std::chrono::steady_clock;

double since(steady_clock::time_point began) {
  return std::chrono::duration<double>(steady_clock::now() - began).count();
}

/// Runs f(rank, meeting) in a thread for each rank.
void meet(int ranks, double limit, const std::function<void(int, Meeting&)>& f) {
  MeetingServer server("127.0.0.1", 0, ranks, limit);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Meeting meeting(server.local_address(), r, ranks, 10, limit);
      f(r, meeting);
      meeting.leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Meeting, ValuesReachAllRanks) {
  meet(4, 10, [](int rank, Meeting& meeting) {
    const std::string mine(static_cast<std::size_t>(rank) * 100'000, static_cast<char>('a' + rank));
    const std::vector<std::string> all = meeting.gather("value", mine, 10);
    ASSERT_EQ(all.size(), 4u);
    for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(all[r], std::string(r * 100'000, static_cast<char>('a' + r)));
    if (rank == 2) meeting.put("id", std::string("\0\n\xff", 3));
    EXPECT_EQ(meeting.get("id", 2, 10), std::string("\0\n\xff", 3));
    EXPECT_EQ(meeting.get("id", 2, 10), std::string("\0\n\xff", 3)) << "asked again";
  });
}

TEST(Meeting, NamesTheRanksThatDoNotCome) {
  meet(3, 10, [](int rank, Meeting& meeting) {
    if (rank == 1) return meeting.get("end", 0, 10), void();
    const auto began = steady_clock::now();
    try {
      meeting.gather("alone", "x", 0.5);
      ADD_FAILURE() << "rank 1 put nothing";
    } catch (const RankLost& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("of 3 ranks, 1 did not come within 0.5 seconds"));
      EXPECT_LT(since(began), 5);
    }
    if (rank == 0) meeting.put("end", "");
  });
}

TEST(Meeting, AnnouncementsComeInOrder) {
  meet(3, 10, [](int rank, Meeting& meeting) {
    const auto text = [](std::size_t i) { return std::string(i * 1000, static_cast<char>(i)); };
    meeting.gather("come", "", 10);
    if (rank == 0) {
      for (std::size_t i = 0; i < 300; ++i) meeting.announce(text(i));
      EXPECT_THROW(meeting.announce(std::string(std::size_t{61} << 20, 'x')), Error);
      meeting.gather("heard", "", 10);
      return;
    }
    for (std::size_t i = 0; i < 300; ++i) ASSERT_EQ(meeting.next_announcement(10), text(i)) << i;
    EXPECT_EQ(meeting.next_announcement(0.05), std::nullopt);
    meeting.gather("heard", "", 10);
    EXPECT_THROW(meeting.next_announcement(10), RankLost) << "rank 0 has left";
  });
}

TEST(Meeting, ProgressIsKnown) {
  meet(2, 1, [](int rank, Meeting& meeting) {
    meeting.report({.begun = 3 + static_cast<std::uint64_t>(rank), .ended = 3, .waited = 0.125});
    const int other_engine = 0;
    meeting.report({.begun = 1, .ended = 1, .waited = 100}, &other_engine);
    meeting.report({.begun = 2, .ended = 2, .waited = 0.125}, &other_engine);
    for (int tries = 0; tries < 50; ++tries) {
      if (meeting.members()[1].progress.begun == 6) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    const std::vector<Member> members = meeting.members();
    EXPECT_EQ(members[1].progress.begun, 6u);
    EXPECT_DOUBLE_EQ(members[1].progress.waited, 0.25);
    EXPECT_NE(members[0].process, 0);
    meeting.gather("seen", "", 10);
  });
}

TEST(Meeting, RefusesStrangersAndOtherGroups) {
  MeetingServer server("127.0.0.1", 0, 2, 10);
  const std::string address = server.local_address();
  const auto refusal = [&](const std::string& at, int rank, int size) -> std::string {
    try {
      Meeting meeting(at, rank, size, 2, 10);
      return "none";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal(address, 1, 3),
              testing::HasSubstr("rank 1 says that there are 3 ranks, rank 0 that there are 2"));
  EXPECT_THAT(refusal(address, 7, 2), testing::HasSubstr("ranks"));
  EXPECT_THAT(refusal("x" + address, 1, 2), testing::HasSubstr("not rank 0 of its group"));
  // Whatever speaks another protocol is sent away, and disturbs nobody.
  const int port = std::stoi(address.substr(address.find(' ')));
  for (const std::string& noise : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1000, '\xff'),
                                   std::string(9, '\0'), std::string("\x05\0\0\0\x00\xff\xff\xff\xff", 9)}) {
    std::string error;
    const Socket stranger = Socket::connect("127.0.0.1", port, 2, error);
    ASSERT_TRUE(stranger.is_open()) << error;
    stranger.send(noise);
  }
  Meeting zero(address, 0, 2, 5, 10);
  EXPECT_THAT(refusal(address, 0, 2), testing::HasSubstr("two processes are rank 0"));
  {
    Meeting one(address, 1, 2, 5, 10);
    zero.put("a", "b");
    EXPECT_EQ(one.get("a", 0, 5), "b");
  }
  // Gone without leaving.
  for (int tries = 0; tries < 100 && !zero.failed(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(zero.failure(), testing::ContainsRegex("rank 1 .*has ended"));
  EXPECT_EQ(zero.lost(), 1);
  EXPECT_THROW(zero.get("nothing", 1, 5), RankLost);
  zero.leave();
  server.stop();
}

TEST(Meeting, NobodyThereIsSaidInTime) {
  const auto began = steady_clock::now();
  try {
    Meeting meeting("127.0.0.1:1", 1, 2, 0.5, 10);
    FAIL();
  } catch (const RankLost& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 1 did not meet rank 0 within 0.5 seconds: 127.0.0.1:1 cannot be "
                                                 "reached"));
  }
  EXPECT_LT(since(began), 5);
}

TEST(Meeting, AddressesAreParsed) {
  EXPECT_EQ(parse_address("node7:29500"), std::make_pair(std::string("node7"), 29500));
  EXPECT_EQ(parse_address("[::1]:80"), std::make_pair(std::string("::1"), 80));
  for (const char* bad : {"", ":", "host", "host:", ":80", "host:0", "host:65536", "host:x", "host:99999999999999"})
    EXPECT_THROW(parse_address(bad), Error) << bad;
}

/// init() in processes that nothing launched: this test program again, by its filter.
class Joining : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("etna_meeting_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static Result join(int rank, int size, const std::string& environment) {
    return run_program(this_program(), "--gtest_filter=Joined.AsTheEnvironmentSays",
                       "-u ETNA_TESTS_RAN -u GTEST_TOTAL_SHARDS ETNA_RANK=" + std::to_string(rank) +
                           " ETNA_WORLD_SIZE=" + std::to_string(size) + " " + environment);
  }
  std::filesystem::path folder_;
};

TEST(Joined, AsTheEnvironmentSays) {
  try {
    init({.join_seconds = 3});
    std::printf("joined as %d of %d, local %d of %d\n", rank(), size(), local_rank(), local_size());
    finish();
    EXPECT_EQ(size(), 1);
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
}

TEST_F(Joining, ByAFile) {
  const std::string file = (folder_ / "meeting").string();
  std::ofstream(file) << "0123456789abcdef01234567 1 127.0.0.1\n";  // of an earlier run
  const std::string environment = "ETNA_DIST=none ETNA_MEET=" + file;
  Result other;
  std::thread thread([&] { other = join(1, 2, environment); });
  const Result first = join(0, 2, environment);
  thread.join();
  EXPECT_THAT(first.output, testing::HasSubstr("joined as 0 of 2, local 0 of 2"));
  EXPECT_THAT(other.output, testing::HasSubstr("joined as 1 of 2, local 1 of 2"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(Joining, KeepsAFileOfSomethingElse) {
  const std::string file = (folder_ / "notes").string();
  std::ofstream(file) << "add 3 eggs\n";
  EXPECT_THAT(join(0, 2, "ETNA_DIST=none ETNA_MEET=" + file).output,
              testing::HasSubstr("notes', where the ranks shall meet, is there and holds something else"));
  EXPECT_EQ(std::filesystem::file_size(file), 11u);
  const std::filesystem::path folder = folder_ / "folder";
  std::filesystem::create_directory(folder);
  EXPECT_THAT(join(0, 2, "ETNA_DIST=none ETNA_MEET=" + folder.string()).output, testing::HasSubstr("something else"));
  EXPECT_TRUE(std::filesystem::is_directory(folder));
}

TEST_F(Joining, ByAnAddress) {
  std::string error;
  const int port = Socket::listen("127.0.0.1", 0, error).port();
  const std::string environment = "ETNA_DIST=none ETNA_MEET=localhost:" + std::to_string(port);
  Result other;
  std::thread thread([&] { other = join(1, 2, environment); });
  const Result first = join(0, 2, environment);
  thread.join();
  EXPECT_THAT(first.output, testing::HasSubstr("joined as 0 of 2"));
  EXPECT_THAT(other.output, testing::HasSubstr("joined as 1 of 2"));
}

TEST_F(Joining, MissingRanksAreNamed) {
  const Result alone = join(0, 3, "ETNA_DIST=none ETNA_MEET=" + (folder_ / "alone").string());
  EXPECT_THAT(alone.output, testing::HasSubstr("of 3 ranks, 1, 2 did not come within 3 seconds"));
}

TEST_F(Joining, MpiNeedsALauncherOfItsOwn) {
  EXPECT_THAT(join(0, 2, "ETNA_MEET=localhost:1 ETNA_DIST=mpi").output,
              testing::HasSubstr("MPI cannot join processes that it did not start; use: etna launch -n 2 -- PROGRAM"));
  EXPECT_THAT(join(0, 2, "ETNA_DIST=none").output, testing::HasSubstr("nowhere to meet; set ETNA_MEET"));
  EXPECT_THAT(join(0, 2, "ETNA_DIST=gloo").output, testing::HasSubstr("'gloo' is no engine"));
}

TEST(GroupOfOne, EveryCallDoesNothing) {
  init();
  const Tensor x = ones({2}).requires_grad_();
  EXPECT_EQ(all_reduce(x).impl(), x.impl());
  EXPECT_EQ(all_gather(x).impl(), x.impl());
  EXPECT_EQ(reduce_scatter(x).impl(), x.impl());
  EXPECT_EQ(broadcast(x).impl(), x.impl());
  EXPECT_EQ(all_to_all(x).impl(), x.impl());
  barrier();
  EXPECT_THROW(send(x, 1), Error);
  EXPECT_FALSE(is_distributed());
  EXPECT_TRUE(reports_failure());
  EXPECT_EQ(engine(), "");
  finish();
}

}  // namespace
}  // namespace etna::distributed
