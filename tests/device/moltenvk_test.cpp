#include <etna/device/internal/moltenvk.h>

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/internal/vulkan/pipelines/spirv.h>
#include <etna/shaders/all.h>

namespace etna::vulkan {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const MoltenVkReport::LeftOut* lacking(const MoltenVkReport& report, const std::string& what) {
  for (const auto& group : report.left_out)
    if (group.lacks == what) return &group;
  return nullptr;
}

/// A module of nothing but declarations.
std::vector<std::uint32_t> declaring(std::uint32_t capability) {
  return {0x07230203, 0x10500, 0, 1, 0, 2u << 16 | 17, 1, 2u << 16 | 17, capability, 3u << 16 | 10, 0x5f565053, 0x58};
}

TEST(MoltenVk, OffersWhatEveryAdapterMustHave) { EXPECT_EQ(moltenvk_report(shaders::all()).missing, ""); }

TEST(MoltenVk, EveryDeclarationOfAShaderIsOnTheList) {
  for (const auto& group : moltenvk_report(shaders::all()).left_out)
    EXPECT_THAT(group.lacks, testing::Not(HasSubstr("not on the list")))
        << testing::PrintToString(group.kernels) << ": add the capability to moltenvk.cpp";
}

TEST(MoltenVk, LacksFloat64AndMatrixUnitsAndNothingElse) {
  const MoltenVkReport report = moltenvk_report(shaders::all());
  std::size_t lost = 0;
  for (const auto& group : report.left_out) {
    EXPECT_THAT((std::vector<std::string>{"float64", "cooperative matrices", "bfloat16"}), Contains(group.lacks));
    lost += group.kernels.size();
  }
  EXPECT_GT(report.kernels - lost, 100u);
  const auto* doubles = lacking(report, "float64");
  ASSERT_NE(doubles, nullptr);
  EXPECT_THAT(doubles->kernels, Contains("cast_f64"));
}

TEST(MoltenVk, AnUnknownCapabilityIsReportedByItsNumber) {
  const std::vector<std::uint32_t> words = declaring(31234);
  const gpu::Shader shader{"strange", words};
  const gpu::Shader* list[] = {&shader};
  const MoltenVkReport report = moltenvk_report(list);
  ASSERT_EQ(report.left_out.size(), 1u);
  EXPECT_THAT(report.left_out[0].lacks, HasSubstr("31234"));
  EXPECT_THAT(report.left_out[0].kernels, Contains("strange"));
}

TEST(MoltenVk, AKernelThatThisBuildLeftOutIsUnknown) {
  const gpu::Shader shader{"absent", {}};
  const gpu::Shader* list[] = {&shader};
  const MoltenVkReport report = moltenvk_report(list);
  EXPECT_EQ(report.unbuilt, 1u);
  EXPECT_EQ(report.kernels, 0u);
  EXPECT_THAT(report.left_out, IsEmpty());
}

TEST(ShaderDeclarations, AreReadFromTheModule) {
  const ShaderDeclarations found = shader_declarations(declaring(11));
  EXPECT_EQ(found.capabilities, (std::vector<std::uint32_t>{1, 11}));
  EXPECT_EQ(found.extensions, std::vector<std::string>{"SPV_X"});
}

}  // namespace
}  // namespace etna::vulkan
