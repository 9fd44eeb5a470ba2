#include <string_view>

#include <gtest/gtest.h>

#include <etna/dist/dist.h>

#include "relay.h"
#include "world.h"

// Runs tests in every process of a group. Each process runs the same ones, in the same order.
namespace etna {
namespace {

/// Only what failed, with the rank: the output of all ranks comes together.
class FailuresOnly : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", distributed::rank(), result.file_name(), result.line_number(),
                   result.message());
    if (result.skipped() && distributed::rank() == 0) std::fprintf(stderr, "skipped: %s\n", result.message());
  }
  void OnTestProgramEnd(const testing::UnitTest& tests) override {
    if (distributed::rank() == 0) std::fprintf(stderr, "%d tests ran\n", tests.test_to_run_count());
  }
};

}  // namespace
}  // namespace etna

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--relay") return etna::relay(argc - 2, argv + 2);
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new etna::FailuresOnly);
  try {
    etna::distributed::init(etna::world_options());
    const int code = RUN_ALL_TESTS();
    etna::distributed::finish();
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
