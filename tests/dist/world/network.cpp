#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <gtest/gtest.h>

#include <etna/dist/dist.h>

#include "world.h"

namespace etna {
namespace {

/// What two_networks.sh promises of the way between the ranks.
TEST(Network, ARoundTripTakesAsLongAsTheWayIs) {
  const char* asked = std::getenv("ETNA_WORLD_ROUND_TRIP");
  if (asked == nullptr) GTEST_SKIP() << "the ranks share a computer";
  const double least = std::atof(asked);
  const Tensor x = ones({1});
  double fastest = 1e9;
  for (int k = 0; k < 20; ++k) {
    distributed::barrier();
    const auto began = std::chrono::steady_clock::now();
    if (distributed::rank() == 0) distributed::send(x, 1), distributed::receive_(x, 1);
    if (distributed::rank() == 1) distributed::receive_(x, 0), distributed::send(x, 0);
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  if (distributed::rank() == 0) {
    EXPECT_GE(fastest, least);
    std::fprintf(stderr, "a round trip takes %.2f ms\n", fastest * 1e3);
  }
}

}  // namespace
}  // namespace etna
