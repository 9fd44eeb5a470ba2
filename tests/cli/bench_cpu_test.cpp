#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "etna_program.h"

namespace etna {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string temporary_json() {
  return (std::filesystem::temp_directory_path() / fmt::format("etna_bench_cpu_{}.json", getpid())).string();
}

TEST(BenchCpu, TimesEachOpAgainstTheCeilingsOfTheSameRun) {
  const std::string file = temporary_json();
  Result run =
      run_program(ETNA_BENCH_CPU, fmt::format("--quick --filter '^(add|fused_chain|layer_norm.*)$' --json '{}'", file));
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("ceilings: copy"));
  EXPECT_THAT(run.output, HasSubstr("tiny/add "));
  const json seen = json::parse(std::ifstream(file))[0];
  std::filesystem::remove(file);
  EXPECT_GT(seen["ceilings"]["copy_gbs"].get<double>(), 0);
  for (const char* t : {"f32", "f16", "bf16"}) EXPECT_GT(seen["ceilings"]["product_gflops"][t].get<double>(), 0) << t;
  ASSERT_EQ(seen["ops"].size(), 4u);  // and layer_norm_backward
  for (const json& op : seen["ops"]) {
    EXPECT_FALSE(op.contains("error")) << op.dump();
    EXPECT_GT(op["us"].get<double>(), 0) << op.dump();
    EXPECT_GT(op["share"].get<double>(), 0) << op.dump();
    EXPECT_FALSE(op.contains("peers_us")) << op.dump();
  }
}

TEST(BenchCpu, PutsProductsBesideEigen) {
  const std::string file = temporary_json();
  Result run =
      run_program(ETNA_BENCH_CPU, fmt::format("--quick --filter '^linear_(proj|proj_dx|proj_dw)/(f32|bf16)$' --json "
                                              "'{}'",
                                              file));
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("beside products: Eigen"));
  const json ops = json::parse(std::ifstream(file))[0]["ops"];
  std::filesystem::remove(file);
  ASSERT_EQ(ops.size(), 6u);
  for (const json& op : ops) {
    EXPECT_FALSE(op.contains("error")) << op.dump();
    ASSERT_TRUE(op.contains("peers_us")) << op.dump();
    EXPECT_THAT(op["peers_us"].begin().key(), StartsWith("Eigen"));
    for (const json& us : op["peers_us"]) EXPECT_GT(us.get<double>(), 0) << op.dump();
  }
}

TEST(BenchCpu, KeepsAFileThatItDidNotWrite) {
  const std::string file = temporary_json();
  std::ofstream(file) << "weights";
  const std::string command = fmt::format("--quick --filter '^add$' --json '{}'", file);
  const Result refused = run_program(ETNA_BENCH_CPU, command);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("--force"));
  EXPECT_EQ(std::filesystem::file_size(file), 7u);
  EXPECT_EQ(run_program(ETNA_BENCH_CPU, command + " --force").code, 0);
  EXPECT_EQ(run_program(ETNA_BENCH_CPU, command).code, 0) << "a file of its own";
  std::filesystem::remove(file);
}

TEST(BenchCpu, SaysWhatIsWrong) {
  Result preset = run_program(ETNA_BENCH_CPU, "--preset huge");
  EXPECT_EQ(preset.code, 2);
  EXPECT_THAT(preset.output, HasSubstr("--preset"));
  Result regex = run_program(ETNA_BENCH_CPU, "--filter '('");
  EXPECT_EQ(regex.code, 2);
  EXPECT_THAT(regex.output, HasSubstr("no regular expression"));
  Result nothing = run_program(ETNA_BENCH_CPU, "--filter no_such_op");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.output, HasSubstr("no_such_op"));
  Result gpu = run_program(ETNA_BENCH_CPU, "--device vulkan:0");
  EXPECT_EQ(gpu.code, 3);
  EXPECT_THAT(gpu.output, HasSubstr("bench_gpu"));
  Result file = run_program(ETNA_BENCH_CPU, "--quick --filter '^add$' --json /no/such/folder/x.json");
  EXPECT_EQ(file.code, 1);
  EXPECT_THAT(file.output, HasSubstr("/no/such/folder/x.json: cannot be written"));
}

}  // namespace
}  // namespace etna
