#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

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
using testing::Not;

/// A temporary folder for this process, removed afterwards.
class DoctorBench : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Result bench(const std::string& arguments, const std::string& environment = "") const {
    return etna(fmt::format("doctor --bench --quick --json '{}' {}", path("figures.json"), arguments), environment);
  }
  json figures() const { return json::parse(std::ifstream(path("figures.json"))); }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / fmt::format("etna_doctor_{}", getpid());
};

bool bench_gpu_there() {
  try {
    select_device("vulkan:0");
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

/// The line of the output that begins with a label.
std::string line_of(const std::string& output, const std::string& label) {
  const std::size_t at = output.find("\n  " + label + "  ");
  return at == std::string::npos ? "" : output.substr(at + 1, output.find('\n', at + 1) - at - 1);
}

void expect_keys(const json& device, const std::set<std::string>& wanted) {
  std::set<std::string> keys;
  for (const auto& [key, figure] : device["figures"].items()) keys.insert(key);
  EXPECT_EQ(keys, wanted);
}

/// Checks that every figure in the file is in the table with its unit, and above zero in both.
void expect_told(const json& device, const std::string& output) {
  EXPECT_THAT(output, HasSubstr(device["device"].get<std::string>() + ": " + device["device_name"].get<std::string>()));
  for (const auto& [key, figure] : device["figures"].items()) {
    const std::string line = line_of(output, figure["label"]);
    ASSERT_FALSE(line.empty()) << key << " is not in\n" << output;
    ASSERT_TRUE(figure["value"].is_number()) << line;
    EXPECT_GT(figure["value"].get<double>(), 0) << line;
    EXPECT_GT(std::stod(line.substr(2 + figure["label"].get<std::string>().size())), 0) << line;
    EXPECT_THAT(line, HasSubstr(figure["unit"].get<std::string>()));
  }
}

TEST_F(DoctorBench, MeasuresAGpu) {
  if (!bench_gpu_there()) GTEST_SKIP() << "no usable Vulkan device";
  Result run = bench("--device vulkan:0");
  ASSERT_EQ(run.code, 0) << run.output;
  json device = figures()["devices"].at(0);
  EXPECT_EQ(device["device"], "vulkan:0");
  EXPECT_EQ(device["driver"], adapters()[0].driver);
  expect_keys(device, {"queue_dispatch_us", "dispatch_us", "dispatch_barrier_us", "submit_us", "round_trip_us",
                       "replay_host_us", "replay_dispatch_us", "copy_gbs", "copy_command_gbs", "upload_gbs",
                       "download_gbs", "read_us", "allocate_ms", "gemm_f32_64_tflops", "gemm_f32_96_tflops",
                       "gemm_f16_64_tflops", "gemm_f16_96_tflops", "gemm_bf16_64_tflops", "gemm_bf16_96_tflops"});
  expect_told(device, run.output);
  // This distinguishes the two dispatch figures, whatever their values on this device.
  EXPECT_THAT(line_of(run.output, "dispatch, no barrier"), HasSubstr("behind 1 barrier"));
  EXPECT_THAT(line_of(run.output, "dispatch behind a barrier"), HasSubstr("behind 100 barriers"));
}

TEST_F(DoctorBench, MeasuresTheProcessor) {
  Result run = bench("--device cpu");
  ASSERT_EQ(run.code, 0) << run.output;
  ASSERT_EQ(figures()["devices"].size(), 1u);
  json device = figures()["devices"].at(0);
  expect_keys(device, {"eager_op_us", "copy_gbs", "threads", "gemm_f32_64_gflops", "gemm_f32_96_gflops"});
  expect_told(device, run.output);
}

TEST_F(DoctorBench, LeavesSoftwareRasterizersOutUnlessNamed) {
  Result run = bench("");
  ASSERT_EQ(run.code, 0) << run.output;
  for (const json& device : figures()["devices"]) EXPECT_NE(device["kind"], "software");
  for (const AdapterInfo& a : adapters()) {
    if (a.kind == "software") {
      EXPECT_THAT(run.output, HasSubstr("--device " + a.device.str()));
    } else if (a.rejected.empty()) {
      EXPECT_THAT(run.output, HasSubstr(a.device.str() + ": " + a.name));
    }
  }
}

TEST_F(DoctorBench, SaysWhatDidNotFitInMemory) {
  if (!bench_gpu_there()) GTEST_SKIP() << "no usable Vulkan device";
  Result run = bench("--device vulkan:0", "ETNA_MEMORY_LIMIT=134217728");
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(line_of(run.output, "allocate from the system"), HasSubstr("ETNA_MEMORY_LIMIT is 128.0 MiB"));
  json all = figures()["devices"].at(0)["figures"];
  EXPECT_TRUE(all["allocate_ms"]["value"].is_null());
  EXPECT_GT(all["gemm_f32_96_tflops"]["value"].get<double>(), 0);
}

TEST_F(DoctorBench, SaysThatCaptureIsOff) {
  if (!bench_gpu_there()) GTEST_SKIP() << "no usable Vulkan device";
  Result run = bench("--device vulkan:0", "ETNA_CAPTURE=0");
  EXPECT_EQ(run.code, 0) << run.output;
  for (const char* label : {"dispatch behind a barrier", "replay a captured step"}) {
    EXPECT_THAT(line_of(run.output, label), HasSubstr("ETNA_CAPTURE=0"));
  }
}

TEST_F(DoctorBench, RefusesADeviceThatIsNotThere) {
  Result run = bench("--device cpu,vulkan:63");
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.output, HasSubstr("vulkan:63"));
  EXPECT_THAT(run.output, Not(HasSubstr("GEMM")));
  EXPECT_FALSE(std::filesystem::exists(path("figures.json")));
}

TEST_F(DoctorBench, RefusesAFileItCannotWriteBeforeItMeasures) {
  for (const std::string& file : {path("none/figures.json"), folder_.string()}) {
    Result run = etna("doctor --bench --quick --device cpu --json '" + file + "'");
    EXPECT_EQ(run.code, 1);
    EXPECT_THAT(run.output, HasSubstr("cannot be written"));
    EXPECT_THAT(run.output, Not(HasSubstr("GEMM")));
  }
}

TEST_F(DoctorBench, OptionsNeedBench) {
  for (const char* option : {"--quick", "--device cpu", "--json x.json"}) {
    Result run = etna(std::string("doctor ") + option);
    EXPECT_EQ(run.code, 2);
    EXPECT_THAT(run.output, HasSubstr("--bench"));
  }
}

}  // namespace
}  // namespace etna
