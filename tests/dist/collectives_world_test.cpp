#include <cstdlib>

#include <gmock/gmock.h>

#include "world.h"

// Collectives between processes: tests/dist/world, under mpirun.
namespace etna {
namespace {

#ifdef __SANITIZE_ADDRESS__
// Open MPI loses memory, and unloads the modules that did before leaks are looked for, so that no suppression names
// them: processes that this one starts do not look.
[[maybe_unused]] const int kWithoutLeaks = ::setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
#endif

using testing::HasSubstr, testing::Not;

// Layers of 2023 wait for seconds where the host signals a semaphore: with them, captured steps are tested apart.
TEST(World, TwoProcesses) {
  const Result result = run_world(2, "-Faults.*", "ETNA_VALIDATION=0");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("tests ran"));
}

TEST(World, CapturedStepsOnAGpuAreValid) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "no Vulkan device is asked for (ETNA_TEST_VULKAN)";
  const Result result =
      run_world(2, "Vulkan.*:CapturedGpu.EveryCollectiveIsReplayed:CapturedGpu.TrainingFollowsStepsOpByOp");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("3 tests ran"));
}

TEST(World, FourProcesses) {
  const Result result = run_world(
      4, "Collectives.*:Gradients.*:Zero.*:DecoderSplit.*:GeneratorRanks.*:ProcessGroups.*:TensorParallel.*:Pipeline.*",
      "ETNA_VALIDATION=0");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("tests ran"));
}

struct Fault {
  const char* test;
  std::string words;
};

TEST(WorldFaults, AKilledRankIsNamed) {
  const Result result = run_world(3, "Faults.KilledRank");
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output, testing::ContainsRegex("rank 0 after 0 s: .*all_reduce.sum. of f32 .1000.: rank 1 .*has "
                                                    "ended; the group has ended"));
  EXPECT_THAT(result.output, testing::ContainsRegex("rank 2 after 0 s: .*rank 1 .*has ended"));
}

TEST(WorldFaults, AKilledFirstRankIsNamed) {
  const Result result = run_world(2, "Faults.KilledFirstRank");
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output, testing::ContainsRegex("rank 1 after 0 s: .*rank 0 .*process [0-9]+. has ended"));
}

TEST(WorldFaults, AKilledRankOfCapturedStepsOnAGpuIsNamed) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "no Vulkan device is asked for (ETNA_TEST_VULKAN)";
  const Result result = run_world(2, "Faults.KilledRankOfCapturedSteps", "ETNA_VALIDATION=0");
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output, testing::ContainsRegex("rank 0 after [0-9]+ s: .*rank 1 .*has ended"));
}

TEST(WorldFaults, OtherShapesInCapturedStepsAreNamed) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "no Vulkan device is asked for (ETNA_TEST_VULKAN)";
  const Result result = run_world(2, "Faults.OtherShapesInCapturedSteps", "ETNA_WORLD_LATE=10 ETNA_VALIDATION=0");
  EXPECT_THAT(result.output,
              HasSubstr("the ranks do not call the same: rank 0 calls all_reduce(sum) of f32 [4]; rank 1 "
                        "calls all_reduce(sum) of f32 [5]"));
}

TEST(WorldFaults, AStoppedRankIsNamed) {
  // By default the limit is 30 seconds.
  const Result result = run_world(3, "Faults.StoppedRank", "ETNA_WORLD_LIMIT=2");
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output, testing::ContainsRegex("rank 0 after [23] s: .*rank 1 .*no sign of life for 2 seconds"));
  EXPECT_THAT(result.output, testing::ContainsRegex("rank 2 after [23] s: .*rank 1 .*no sign of life for 2 seconds"));
}

TEST(WorldFaults, AStoppedFirstRankIsNamed) {
  const Result result = run_world(2, "Faults.StoppedFirstRank", "ETNA_WORLD_LIMIT=2");
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output, testing::ContainsRegex("rank 1 after [23] s: .*rank 0 .*no sign of life for 2 seconds"));
}

TEST(WorldFaults, ARankThatLivesAndDoesNotComeIsNamed) {
  const Result result = run_world(2, "Faults.LateRank", "ETNA_WORLD_LATE=1");
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output, testing::ContainsRegex("collective 20 of this rank: no answer after 1 seconds from rank 1 "
                                                    ".*has called 19 collectives"));
}

TEST(WorldFaults, ARankThatLeavesIsNamed) {
  const Result result = run_world(2, "Faults.RankThatLeaves");
  EXPECT_THAT(result.output, HasSubstr("rank 1 after 0 s: this rank has enough"));
  EXPECT_THAT(result.output, testing::ContainsRegex("no answer after 2 seconds from rank 1 .*has left the group"));
}

TEST(WorldFaults, ARankThatGivesSomethingElseThanRankZeroEndsTheGroup) {
  const Result result = run_world(2, "Faults.GeneratorThatDiffers", "ETNA_WORLD_LATE=10");
  EXPECT_THAT(result.output, HasSubstr("rank 1: distributed: rank 1 gave something else than rank 0"));
  EXPECT_THAT(result.output, testing::ContainsRegex("rank 0: .*rank 1"));
}

TEST(WorldFaults, ARankWithoutMemoryEndsTheGroup) {
  const Result result = run_world(2, "Faults.GeneratorOutOfMemory", "ETNA_WORLD_LATE=10");
  EXPECT_THAT(result.output, testing::ContainsRegex("rank 1: .*cpu: no room for"));
  EXPECT_THAT(result.output, testing::ContainsRegex("rank 0: .*rank 1 "));
}

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.test; }

class Mismatch : public testing::TestWithParam<Fault> {};

TEST_P(Mismatch, IsAnErrorOnAllRanksThatNamesThem) {
  const Fault& fault = GetParam();
  const Result result = run_world(2, std::string("Faults.") + fault.test, "ETNA_WORLD_LATE=10");
  for (const char* rank : {"rank 0", "rank 1"})
    EXPECT_THAT(result.output,
                testing::HasSubstr(rank + (" after 0 s: distributed: the ranks do not call the same: " + fault.words)));
}

INSTANTIATE_TEST_SUITE_P(
    WorldFaults, Mismatch,
    testing::Values(
        Fault{"OtherShapes", "rank 0 calls all_reduce(sum) of f32 [4]; rank 1 calls all_reduce(sum) of f32 [5]"},
        Fault{"OtherDtypes", "rank 0 calls all_reduce(sum) of f32 [4]; rank 1 calls all_reduce(sum) of f64 [4]"},
        Fault{"OtherOps", "rank 0 calls all_reduce(sum) of f32 [4]; rank 1 calls all_gather of f32 [4]"},
        Fault{"OtherReductions", "rank 0 calls all_reduce(max) of f32 [4]; rank 1 calls all_reduce(min) of f32 [4]"},
        Fault{"OtherRoots",
              "rank 0 calls broadcast from rank 0 of f32 [4]; rank 1 calls broadcast from rank 1 of f32 [4]"},
        Fault{"SendsToEachOther", "rank 0 calls send to rank 1 of f32 [4]; rank 1 calls send to rank 0 of f32 [4]"},
        Fault{"SendAgainstACollective", "rank 0 calls barrier; rank 1 calls send to rank 0 of f32 [4]"},
        Fault{"OneCollectiveFewer",
              "rank 0 calls all_reduce(sum) of f32 [4]; rank 1 calls all_reduce(sum) of f32 [7]"}),
    [](const auto& info) { return std::string(info.param.test); });

}  // namespace
}  // namespace etna
