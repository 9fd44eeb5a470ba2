#include <gmock/gmock.h>

#include "world.h"

// Ranks in two networks, which only TCP connects.
namespace etna {
namespace {

Result in_two_networks(const std::string& delay) {
  return run_program(ETNA_SOURCE_DIR "/tests/dist/two_networks.sh",
                     delay + " '" ETNA_WORLD "' --gtest_filter=Collectives.*:DataParallel.*",
                     "-u ETNA_MEET -u ETNA_DIST -u ETNA_PRIVATE ETNA_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 "
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
}

class TwoNetworks : public testing::TestWithParam<const char*> {};

TEST_P(TwoNetworks, TrainThroughTcp) {
  const Result result = in_two_networks(GetParam());
  if (result.code == 77) GTEST_SKIP() << result.output;
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, testing::HasSubstr("tests ran"));
}

INSTANTIATE_TEST_SUITE_P(World, TwoNetworks, testing::Values("0", "1ms"),
                         [](const auto& info) { return std::string(info.param) == "0" ? "AtOnce" : "With1msOfDelay"; });

}  // namespace
}  // namespace etna
