#include <cstdlib>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/device/kernel.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "etna_program.h"

namespace etna {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

/// `etna doctor --kernels`, and what it writes.
class DoctorKernels : public testing::Test {
 protected:
  json on(const std::string& device) {
    const std::string file = (folder_ / "kernels.json").string();
    const Result run = etna("doctor --kernels --device " + device + " --force --json '" + file + "'");
    EXPECT_EQ(run.code, 0) << run.output;
    output_ = run.output;
    const json all = json::parse(std::ifstream(file));
    EXPECT_EQ(all["devices"].size(), 1u);
    return all["devices"].at(0);
  }
  static json call_of(const json& device, const std::string& call, const std::string& dtype) {
    for (const json& one : device["calls"])
      if (one["call"] == call && one["dtype"] == dtype) return one;
    ADD_FAILURE() << "no " << call << " in " << dtype;
    return {};
  }

  TemporaryFolder folder_;
  std::string output_;
};

TEST_F(DoctorKernels, NamesWhatRunsOnAGpu) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  const json device = on("vulkan:0");
  EXPECT_EQ(device["device"], "vulkan:0");
  EXPECT_THAT(output_,
              AllOf(HasSubstr("vulkan:0: "), HasSubstr("cooperative matrices: "), HasSubstr("ops have kernels")));
  for (const json& call : device["calls"]) {
    const bool on_cpu = call["path"] == "cpu";
    EXPECT_EQ(on_cpu, call["dtype"] == "f64") << call;
    EXPECT_EQ(on_cpu, call["kernels"].empty()) << call;
    for (const json& kernel : call["kernels"]) EXPECT_THAT(output_, HasSubstr(kernel["kernel"].get<std::string>()));
  }
  EXPECT_THAT(output_, HasSubstr("none: falls back to the CPU, an error in strict mode"));

  // The same call, for real.
  const Tensor x = ones({1, 4096}, {f32, kVulkan}), w = ones({4096, 4096}, {f32, kVulkan});
  synchronize(kVulkan);
  const std::uint64_t before = gpu::queue_stats(kVulkan).dispatches;
  matmul(x, w);
  synchronize(kVulkan);
  EXPECT_EQ(gpu::queue_stats(kVulkan).dispatches - before,
            call_of(device, "matmul [1, 4096] by [4096, 4096]", "f32")["kernels"].size());
}

TEST_F(DoctorKernels, NamesTheLibrariesOfTheCpu) {
  const json device = on("cpu");
  EXPECT_FALSE(device["kernels"]["gemm f32"].get<std::string>().empty());
  EXPECT_THAT(output_, HasSubstr(device["kernels"]["weights in blocks"].get<std::string>()));
}

TEST_F(DoctorKernels, OptionsOfOtherKindsAreRefused) {
  EXPECT_EQ(etna("doctor --device cpu").code, 2);
  EXPECT_EQ(etna("doctor --kernels --bench").code, 2);
  EXPECT_EQ(etna("doctor --kernels --device nowhere").code, 3);
}

}  // namespace
}  // namespace etna
