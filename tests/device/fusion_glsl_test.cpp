#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/executable/fusion/glsl.h>
#include <etna/device/internal/vulkan/executable/fusion/sources.h>

namespace etna::vulkan::fusion {
namespace {

namespace fs = std::filesystem;

const std::string kText = "#version 460\nlayout(local_size_x = 1) in;\nvoid main() {}\n";

/// With a cache folder of its own.
class FusionGlsl : public testing::Test {
 protected:
  void SetUp() override {
    if (glsl_compiler().empty()) GTEST_SKIP() << "this build has no glslang";
    if (const char* before = std::getenv("ETNA_CACHE_DIR")) before_ = before;
    folder_ = fs::path(testing::TempDir()) / ("etna_fusion_glsl_" + std::to_string(::getpid()));
    setenv("ETNA_CACHE_DIR", folder_.string().c_str(), 1);
  }
  void TearDown() override {
    if (folder_.empty()) return;
    setenv("ETNA_CACHE_DIR", before_.c_str(), 1);
    fs::remove_all(folder_);
  }

  static std::vector<std::uint32_t> spirv(std::uint32_t compiled) {
    GlslFigures figures;
    std::vector<std::uint32_t> words = spirv_of(kText, figures);
    EXPECT_EQ(figures.compiled, compiled);
    EXPECT_EQ(words.at(0), 0x07230203u);
    return words;
  }
  fs::path file() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_ / "shaders")) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return files.at(0);
  }

  fs::path folder_;
  std::string before_;
};

TEST_F(FusionGlsl, CompilesATextOnce) {
  const auto words = spirv(1);
  EXPECT_EQ(spirv(0), words);
}

TEST_F(FusionGlsl, CompilesAgainWhereTheFileIsDamagedOrCutShort) {
  const auto words = spirv(1);
  const auto size = fs::file_size(file());
  for (std::uintmax_t kept : {size - 4, size / 2, std::uintmax_t{5}, std::uintmax_t{0}}) {
    fs::resize_file(file(), kept);
    EXPECT_EQ(spirv(1), words) << kept;
  }
  for (auto at : {std::streamoff{2}, static_cast<std::streamoff>(size / 3), static_cast<std::streamoff>(size - 9)}) {
    {
      std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
      stream.seekg(at);
      const int before = stream.get();
      stream.seekp(at);
      stream.put(static_cast<char>(before ^ 64));
    }
    EXPECT_EQ(spirv(1), words) << at;
  }
  EXPECT_EQ(spirv(0), words);
}

TEST_F(FusionGlsl, AFileOfAnotherTextUnderTheSameNameIsNotUsed) {
  spirv(1);
  const fs::path mine = file();
  GlslFigures figures;
  spirv_of(kText + "// another\n", figures);
  for (const auto& entry : fs::directory_iterator(folder_ / "shaders")) {
    if (entry.path() != mine) fs::copy_file(entry.path(), mine, fs::copy_options::overwrite_existing);
  }
  spirv(1);
}

TEST_F(FusionGlsl, AFolderThatCannotBeWrittenIsNoError) {
  setenv("ETNA_CACHE_DIR", "/dev/null/etna", 1);
  spirv(1);
  spirv(1);
}

TEST_F(FusionGlsl, ATextThatIsWrongSaysWhere) {
  GlslFigures figures;
  try {
    spirv_of("#version 460\nvoid main() { nonsense; }\n", figures);
    FAIL() << "compiled";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("nonsense"), testing::HasSubstr("ETNA_FUSE=0")));
  }
}

TEST(FusionSources, IncludesEachFileOnce) {
  const std::string text =
      with_includes("#version 460\n#include \"fused.glsl\"\n#include \"math.glsl\"\nvoid main() {}\n");
  EXPECT_EQ(text.find("#include"), std::string::npos);
  const std::size_t first = text.find("float m_tanh(float a)");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("float m_tanh(float a)", first + 1), std::string::npos);
  EXPECT_THROW(with_includes("#include \"nowhere.glsl\"\n"), DeviceError);
}

}  // namespace
}  // namespace etna::vulkan::fusion
