#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/device/device.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

#include "etna_program.h"
#include "runner/libraries.h"

namespace etna {
namespace {

using testing::HasSubstr;

TEST(EtnaProgram, DevicesListsEveryAdapterAndTheChoice) {
  Result run = etna("devices", "-u ETNA_DEVICE");
  EXPECT_EQ(run.code, 0);
  for (const AdapterInfo& a : adapters()) EXPECT_THAT(run.output, HasSubstr(a.name));
  EXPECT_THAT(run.output, HasSubstr("auto takes " + select_device("auto").str()));
}

TEST(EtnaProgram, DevicesAreAlsoThereAsJson) {
  const Result run = etna("devices --json", "-u ETNA_DEVICE");
  EXPECT_EQ(run.code, 0);
  const auto all = nlohmann::json::parse(run.output);
  const std::vector<AdapterInfo> there = adapters();
  ASSERT_EQ(all.size(), there.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const AdapterInfo& a = there[i];
    EXPECT_EQ(all[i]["device"], a.device.str());
    EXPECT_EQ(all[i]["name"], a.name);
    EXPECT_EQ(all[i]["memory"], a.memory_bytes);
    EXPECT_EQ(all[i]["usable"], a.rejected.empty());
    EXPECT_EQ(all[i]["chosen_by_auto"], a.device == select_device("auto"));
    EXPECT_EQ(all[i]["features"].size(), a.features.size());
  }
}

TEST(EtnaProgram, DevicesAreThoseThatAreVisible) {
  if (!kHasVulkan || adapters().size() < 2) GTEST_SKIP() << "no Vulkan device is there";
  const auto devices = [](const std::string& visible) {
    return etna("devices", "-u ETNA_DEVICE ETNA_VISIBLE_DEVICES=" + visible);
  };
  EXPECT_THAT(devices("0").output, testing::AllOf(HasSubstr("vulkan:0"), testing::Not(HasSubstr("vulkan:1"))));
  for (const char* hidden : {"none", "''"}) {
    const Result run = devices(hidden);
    EXPECT_EQ(run.code, 0);
    EXPECT_THAT(run.output, testing::Not(HasSubstr("vulkan:")));
    EXPECT_THAT(run.output, HasSubstr("which hides all; unset it"));
  }
  const Result wrong = devices("77");
  EXPECT_EQ(wrong.code, 3);
  EXPECT_THAT(wrong.output, HasSubstr("ETNA_VISIBLE_DEVICES is '77', but "));
  EXPECT_EQ(etna("doctor --bench --device cpu --quick", "ETNA_VISIBLE_DEVICES=x").code, 3);
}

TEST(EtnaProgram, DoctorTellsDriverFeaturesAndLimitsAndChecksArithmetic) {
  Result run = etna("doctor", "-u ETNA_DEVICE");
  EXPECT_EQ(run.code, 0) << run.output;
  for (const AdapterInfo& a : adapters()) {
    EXPECT_THAT(run.output, HasSubstr(a.device.str() + ": " + a.name));
    EXPECT_THAT(run.output, HasSubstr(a.driver));
    for (const std::string& limit : a.limits) EXPECT_THAT(run.output, HasSubstr(limit));
  }
  EXPECT_THAT(run.output, HasSubstr("GFLOP/s"));
}

TEST(EtnaProgram, DoctorSaysWhatMultipliesOnTheProcessor) {
  Result own = etna("doctor", "-u ETNA_BLAS");
  EXPECT_THAT(own.output, HasSubstr("products  f32  " + cpu::f32_kernels()));
  EXPECT_THAT(own.output, HasSubstr("products  bf16 " + cpu::bf16_kernels()));
  EXPECT_THAT(own.output, HasSubstr("products  f64  " + cpu::f64_kernels()));
  Result named = etna("doctor", "ETNA_BLAS=eigen");
  EXPECT_THAT(named.output, HasSubstr("products  f32  Eigen"));
  Result wrong = etna("doctor", "ETNA_BLAS=mkl");
  EXPECT_NE(wrong.code, 0);
  EXPECT_THAT(wrong.output, HasSubstr("ETNA_BLAS=mkl: must be onednn, openblas, packed or eigen, or be unset"));
}

TEST(EtnaProgram, DoctorReadsWhatMoltenVkLacks) {
  if (!kHasVulkan) GTEST_SKIP() << "this build is without Vulkan";
  Result run = etna("doctor --moltenvk");
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("nothing was run there"));
  EXPECT_THAT(run.output, HasSubstr("for lack of float64: cast_f64"));
  EXPECT_THAT(run.output, HasSubstr("verdict   should run"));
  EXPECT_EQ(etna("doctor --moltenvk --bench").code, 2);
}

TEST(EtnaProgram, TuneKeepsATableForTheDevice) {
  if (!kHasVulkan) GTEST_SKIP() << "this build is without Vulkan";
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("etna-tune-" + std::to_string(getpid()));
  const std::string there = "ETNA_CACHE_DIR='" + folder.string() + "'";
  Result run = etna("tune --quick --dtype f32 --device vulkan:0", there);
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("2 kept in " + folder.string()));
  std::size_t tables = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) tables += file.path().extension() == ".txt";
  EXPECT_EQ(tables, 1u);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(etna("tune --device cpu", there).code, 3);
  EXPECT_EQ(etna("tune --dtype i8", there).code, 2);
}

TEST(EtnaProgram, WithoutADriverThereIsStillTheCpu) {
  if (!kHasVulkan) GTEST_SKIP() << "this build is without Vulkan";
  Result run = etna("devices", "VK_DRIVER_FILES=/none VK_ICD_FILENAMES=/none ETNA_VALIDATION=0");
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.output, HasSubstr("auto takes cpu"));
  EXPECT_THAT(run.output, HasSubstr("install"));
}

TEST(EtnaProgram, ExitCodesTellUsageFromDevice) {
  EXPECT_EQ(etna("").code, 2);
  EXPECT_EQ(etna("nonsense").code, 2);
  EXPECT_EQ(etna("--help").code, 0);
  Result run = etna("devices", "ETNA_DEVICE=vulkan:63");
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.output, HasSubstr("vulkan:63"));
}

}  // namespace
}  // namespace etna
