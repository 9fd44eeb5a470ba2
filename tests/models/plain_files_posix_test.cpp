#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/models/internal/peft_config.h>
#include <etna/models/model_file.h>

#include "data/temporary_folder.h"

namespace etna::models {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(PlainFiles, PipesAndDevicesAreRefusedAtOnce) {
  const TemporaryFolder folder;
  for (const char* name : {"pipe.gguf", "pipe.safetensors", "pipe.bin", "adapter_config.json"})
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
  for (const char* name : {"pipe.gguf", "pipe.safetensors", "pipe.bin"})
    EXPECT_THAT([&] { load_model(folder / name); }, ThrowsMessage<FormatError>(HasSubstr("is a pipe or a device")));
  EXPECT_THAT([&] { load_model("/dev/zero"); }, ThrowsMessage<FormatError>(HasSubstr("is a pipe or a device")));
  EXPECT_THROW(read_peft_config(folder / "adapter_config.json", false), FormatError);
  EXPECT_THROW(read_peft_config("/dev/zero", false), FormatError);
}

}  // namespace
}  // namespace etna::models
