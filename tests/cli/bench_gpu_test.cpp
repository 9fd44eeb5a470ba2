#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/device/device.h>
#include <etna/device/error.h>

#include "etna_program.h"

namespace etna {
namespace {

using nlohmann::json;
using testing::HasSubstr;

bool bench_gpu_there() {
  try {
    select_device("vulkan:0");
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

TEST(BenchGpu, TimesEachOpAgainstTheCeilingsOfTheSameRun) {
  if (!bench_gpu_there()) {
    const char* expected = std::getenv("ETNA_TEST_VULKAN");
    if (expected != nullptr && *expected == '1') FAIL() << "no usable Vulkan device";
    GTEST_SKIP() << "no usable Vulkan device";
  }
  const std::string file =
      (std::filesystem::temp_directory_path() / fmt::format("etna_bench_gpu_{}.json", getpid())).string();
  Result run = run_program(ETNA_BENCH_GPU,
                           fmt::format("--device vulkan:0 --quick --filter '^(add|layer_norm.*)$' --json '{}'", file));
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("ceilings: copy"));
  EXPECT_THAT(run.output, HasSubstr("tiny/add "));
  const json seen = json::parse(std::ifstream(file))[0];
  std::filesystem::remove(file);
  EXPECT_GT(seen["ceilings"]["copy_gbs"].get<double>(), 0);
  for (const char* t : {"f32", "f16", "bf16"}) EXPECT_GT(seen["ceilings"]["product_gflops"][t].get<double>(), 0) << t;
  ASSERT_EQ(seen["ops"].size(), 3u);  // and layer_norm_backward
  for (const json& op : seen["ops"]) {
    EXPECT_FALSE(op.contains("error")) << op.dump();
    EXPECT_GT(op["us"].get<double>(), 0) << op.dump();
    EXPECT_GT(op["share"].get<double>(), 0) << op.dump();
    EXPECT_EQ(op["bound"], "bytes") << op.dump();
  }
}

TEST(BenchGpu, SaysWhatIsWrong) {
  EXPECT_EQ(run_program(ETNA_BENCH_GPU, "--preset huge").code, 2);
  Result regex = run_program(ETNA_BENCH_GPU, "--filter '('");
  EXPECT_EQ(regex.code, 2);
  EXPECT_THAT(regex.output, HasSubstr("--filter"));
  Result cpu = run_program(ETNA_BENCH_GPU, "--device cpu");
  EXPECT_EQ(cpu.code, 3);
  EXPECT_THAT(cpu.output, HasSubstr("bench_cpu"));
}

}  // namespace
}  // namespace etna
