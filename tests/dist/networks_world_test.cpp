#include <gmock/gmock.h>

#include "world.h"

// Ranks in two networks, which only TCP connects.
namespace etna {
namespace {

struct Cable {
  const char* name;
  std::string milliseconds, environment;
};

void PrintTo(const Cable& cable, std::ostream* out) { *out << cable.name; }

class TwoNetworks : public testing::TestWithParam<Cable> {};

TEST_P(TwoNetworks, TrainThroughTcp) {
  const Cable& cable = GetParam();
  const Result result =
      run_program(ETNA_SOURCE_DIR "/tests/dist/two_networks.sh",
                  cable.milliseconds + " '" ETNA_WORLD "' --gtest_filter=Collectives.*:DataParallel.*:Network.*",
                  "-u ETNA_MEET -u ETNA_DIST -u ETNA_PRIVATE ETNA_THREADS=1 "
                  "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " +
                      cable.environment);
  if (result.code == 77) GTEST_SKIP() << result.output;
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, testing::HasSubstr("tests ran"));
}

// A round trip passes the cable twice.
INSTANTIATE_TEST_SUITE_P(World, TwoNetworks,
                         testing::Values(Cable{"AtOnce", "0", "ETNA_WORLD_ROUND_TRIP=0"},
                                         Cable{"With1msOfDelay", "1", "ETNA_WORLD_ROUND_TRIP=0.002"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace etna
