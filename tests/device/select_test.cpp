#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/device/error.h>

namespace etna {
namespace {

using testing::HasSubstr;

/// Sets an environment variable and restores it at the end of the scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// Every test selects in an empty environment with its own config folder.
class SelectDevice : public testing::Test {
 protected:
  void configure(const std::string& text) {
    std::filesystem::create_directories(folder_ / "etna");
    std::ofstream(folder_ / "etna" / "config.json") << text;
  }
  ~SelectDevice() override { std::filesystem::remove_all(folder_); }

  static std::string error_of(std::string_view requested) {
    try {
      select_device(requested);
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("etna_select_" + std::to_string(getpid()));
  Variable device_{"ETNA_DEVICE", nullptr};
  Variable config_{"XDG_CONFIG_HOME", folder_.string().c_str()};
};

TEST_F(SelectDevice, PutsVulkanFirstAndTheCpuLast) {
  auto all = adapters();
  std::erase_if(all, [](const AdapterInfo& a) { return a.kind == "fake"; });  // those of other tests
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(all.back().device.is_cpu());
  EXPECT_GT(all.back().memory_bytes, 0u);
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    EXPECT_EQ(all[i].device, Device(DeviceType::vulkan, static_cast<int>(i)));
}

TEST_F(SelectDevice, AutoNeverTakesASoftwareRasterizer) {
  Device chosen = select_device();
  for (const AdapterInfo& a : adapters()) {
    if (a.device == chosen) {
      EXPECT_THAT(a.kind, testing::AnyOf("discrete", "integrated", "cpu"));
    }
  }
  EXPECT_EQ(select_device("auto"), chosen);
}

TEST_F(SelectDevice, GpuIsARealOneOrAnError) {
  const Device best = select_device("auto");
  if (best.is_cpu())
    EXPECT_THAT(error_of("gpu"),
                testing::AllOf(HasSubstr("a GPU was asked for, but there is none"), HasSubstr("found")));
  else
    EXPECT_EQ(select_device("gpu"), best);
}

TEST_F(SelectDevice, StrictlyASoftwareRasterizerIsNamedWithItsNumber) {
  const bool before = strict();
  const auto error_of = [](std::string_view requested) -> std::string {
    try {
      select_device_strictly(requested);
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of("cpu"), "");
  EXPECT_TRUE(strict());
  EXPECT_EQ(error_of("auto"), "") << "auto takes no software rasterizer";
  for (const AdapterInfo& a : adapters()) {
    if (a.kind != "software" || !a.rejected.empty()) continue;
    EXPECT_EQ(select_device_strictly(a.device.str()), a.device);
    Variable named("ETNA_DEVICE", a.device.str().c_str());
    EXPECT_EQ(select_device_strictly(), a.device);
    if (a.device != kVulkan) continue;
    EXPECT_EQ(select_device("vulkan"), a.device);
    EXPECT_THAT(error_of("vulkan"), testing::AllOf(HasSubstr("which computes on the CPU"), HasSubstr("vulkan:0")));
    Variable kind("ETNA_DEVICE", "vulkan");
    EXPECT_THAT(error_of({}), HasSubstr("(by ETNA_DEVICE)"));
  }
  set_strict(before);
}

TEST_F(SelectDevice, ArgumentBeatsEnvironmentBeatsConfigFile) {
  configure(R"({"device": "vulkan:63"})");
  EXPECT_THAT(error_of({}), HasSubstr("config.json"));
  Variable environment("ETNA_DEVICE", "cpu");
  EXPECT_EQ(select_device(), kCPU);
  Variable other("ETNA_DEVICE", "vulkan:62");
  EXPECT_THAT(error_of({}), HasSubstr("ETNA_DEVICE"));
  EXPECT_EQ(select_device("cpu"), kCPU);
}

TEST_F(SelectDevice, ReadsTheConfigFile) {
  configure(R"({"device": "cpu", "something": "else"})");
  EXPECT_EQ(select_device(), kCPU);
  EXPECT_THAT(device_line({}, kCPU), HasSubstr("requested=cpu"));
}

TEST_F(SelectDevice, RefusesADamagedConfigFileInOneSentence) {
  configure("{\"device\": ");
  EXPECT_THAT(error_of({}), testing::AllOf(HasSubstr("config.json"), HasSubstr("not a JSON object")));
  configure(R"({"device": 7})");
  EXPECT_THAT(error_of({}), HasSubstr("\"device\" is 7, not a string"));
  EXPECT_EQ(select_device("cpu"), kCPU) << "an explicit device needs no config file";
}

TEST_F(SelectDevice, SaysWhatWasFoundWhereADeviceIsMissing) {
  std::string error = error_of("vulkan:63");
  EXPECT_THAT(error, HasSubstr("vulkan:63"));
  EXPECT_THAT(error, HasSubstr("--device"));
  if (adapters().size() > 1) {
    EXPECT_THAT(error, HasSubstr(adapters()[0].name));
  }
}

TEST_F(SelectDevice, RefusesAWordThatIsNoDevice) {
  EXPECT_THAT(error_of("banana"), testing::StartsWith("device 'banana' is not a device's name; write cpu, "));
  EXPECT_THAT(error_of("cudagpu"), HasSubstr("is not a device's name"));
  EXPECT_THAT(error_of(":1"), HasSubstr("is not a device's name"));
}

TEST_F(SelectDevice, SaysWhatToWriteInPlaceOfTheNamesOfOtherPrograms) {
  EXPECT_EQ(error_of("cuda"), "device 'cuda': Etna reaches NVIDIA's GPUs through Vulkan; write vulkan:0, gpu or auto");
  EXPECT_THAT(error_of("CUDA:3"), HasSubstr("NVIDIA's GPUs through Vulkan; write vulkan:3,"));
  EXPECT_THAT(error_of("cuda:99"), HasSubstr("write vulkan:0,"));
  EXPECT_THAT(error_of("cuda:-1"), HasSubstr("write vulkan:0,"));
  EXPECT_THAT(error_of("cuda:x"), HasSubstr("write vulkan:0,"));
  EXPECT_THAT(error_of("hip:1"), HasSubstr("AMD's GPUs through Vulkan; write vulkan:1,"));
  EXPECT_THAT(error_of("mps"), HasSubstr("Apple's GPUs"));
  EXPECT_THAT(error_of("xpu"), HasSubstr("Intel's GPUs"));
  EXPECT_THAT(error_of("opencl"), HasSubstr("reaches GPUs through Vulkan"));
  EXPECT_THAT(error_of("gpu:2"), HasSubstr("write vulkan:2,"));
  EXPECT_EQ(error_of("npu"), "device 'npu': Etna computes on GPUs and on the CPU; write vulkan:0, cpu, gpu or auto");
  Variable environment("ETNA_DEVICE", "rocm");
  EXPECT_THAT(error_of({}), testing::EndsWith("gpu or auto (by ETNA_DEVICE)"));
}

TEST_F(SelectDevice, LineNamesRequestFindingsAndChoice) {
  std::string line = device_line("cpu", kCPU);
  EXPECT_THAT(line, testing::StartsWith("device: requested=cpu detected=["));
  EXPECT_THAT(line, testing::EndsWith("cpu] selected=cpu"));
}

TEST_F(SelectDevice, ANumberThatNoDeviceCanHaveIsSaid) {
  EXPECT_THAT([] { select_device("vulkan:77"); },
              testing::ThrowsMessage<DeviceError>(
                  testing::AllOf(HasSubstr("device 'vulkan:77' has a number outside 0 to 63; write cpu, "),
                                 HasSubstr("vulkan or vulkan:N, "), testing::EndsWith("gpu or auto"))));
}

}  // namespace
}  // namespace etna
