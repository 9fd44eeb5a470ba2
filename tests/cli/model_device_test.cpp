#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/device/device.h>

#include "etna_model.h"

// Language models on a GPU, by the commands.
namespace etna {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class EtnaModelOnGpu : public EtnaModel {
 protected:
  void SetUp() override {
    if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
    EtnaModel::SetUp();
  }
  std::string on(const std::string& device, const std::string& command) const {
    return command + " --device " + device + " --model " + quoted(model()) + " ";
  }
};

TEST_F(EtnaModelOnGpu, BenchComparesItWithTheCpu) {
  const Result bench = etna(on("vulkan:0", "bench") + "-p 8 -n 3 --repeat 1 --json " + quoted(folder_ / "speed.json"));
  ASSERT_EQ(bench.code, 0) << bench.output;
  // A line of each, then a table with a column of each and how many times faster the second is.
  EXPECT_TRUE(std::regex_search(bench.output, std::regex("\ncpu +prompt of 8: [0-9.]+ tokens/s   decode: [0-9.]+")));
  EXPECT_TRUE(std::regex_search(bench.output, std::regex("\nvulkan:0 +prompt of 8: [0-9.]+ tokens/s")));
  EXPECT_TRUE(std::regex_search(bench.output, std::regex("ms of a prompt, by op +cpu +vulkan:0 +speed-up\n")))
      << bench.output;
  EXPECT_TRUE(std::regex_search(bench.output, std::regex("ms a token, by op +cpu +vulkan:0 +speed-up\n")))
      << bench.output;
  EXPECT_TRUE(std::regex_search(bench.output, std::regex("\nquantized_linear( +[0-9.]+){3}\n"))) << bench.output;
  const auto json = nlohmann::json::parse(std::ifstream(folder_ / "speed.json"));
  for (const char* device : {"cpu", "vulkan:0"}) {
    EXPECT_GT(json[device]["decode_tokens_per_second"], 0) << device;
    EXPECT_GT(json[device]["op_ms_per_token"]["quantized_linear"], 0) << device;
  }
}

TEST_F(EtnaModelOnGpu, StrictWantsASoftwareRasterizerByItsNumber) {
  const std::string rest = "--temperature 0 --max-tokens 4 --prompt 'the river' --strict";
  const Result named = etna(on("vulkan:0", "run") + rest, "ETNA_STRICT=0");
  EXPECT_EQ(named.code, 0) << named.output;
  if (adapters()[0].kind != "software") GTEST_SKIP() << "vulkan:0 is a GPU";
  EXPECT_EQ(etna(on("vulkan", "run") + "--max-tokens 1 --prompt x").code, 0);
  for (const char* command : {"run", "bench", "chat"}) {
    const Result refused = etna(on("vulkan", command) + "--strict < /dev/null");
    EXPECT_EQ(refused.code, 3) << refused.output;
    EXPECT_THAT(refused.output, AllOf(HasSubstr("etna: device vulkan was asked for, but it is "),
                                      HasSubstr("strict mode takes that only as vulkan:0")));
  }
  if (select_device("auto").is_cpu()) {
    EXPECT_EQ(etna(on("gpu", "run") + "--strict --prompt x").code, 3);
  }
}

}  // namespace
}  // namespace etna
