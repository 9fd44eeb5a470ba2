#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include <etna/device/internal/vulkan/pipelines/spirv.h>
#include <etna/device/internal/vulkan/pipelines/spirv_ops.h>
#include <etna/device/internal/vulkan/pipelines/taken_branches.h>
#include <etna/shaders/shaders.h>

namespace etna::vulkan {
namespace {

using TakenBranchesWords = std::vector<std::uint32_t>;

/// Instructions of a kind; OpFunction is 54, OpLabel 248, OpSwitch 251.
int count(const TakenBranchesWords& words, std::uint32_t op) {
  int found = 0;
  for (std::size_t at = 5; at < words.size(); at += words[at] >> 16) found += (words[at] & 0xffffu) == op;
  return found;
}

TakenBranchesWords module_of(const gpu::Shader& shader) { return {shader.words.begin(), shader.words.end()}; }

std::uint32_t instruction(std::uint32_t op, std::uint32_t length) { return length << 16 | op; }

/// void main() { if (C == 5) { barrier } else { barrier; barrier } }, C being specialization constant 7, by default 5.
TakenBranchesWords two_ways() {
  enum : std::uint32_t { kMain = 1, kVoid, kType, kUint, kBool, kC, kFive, kIs, kEntry, kYes, kNo, kEnd, kBound };
  TakenBranchesWords w = {0x07230203, 0x10500, 0, kBound, 0};
  const auto add = [&](std::uint32_t op, const TakenBranchesWords& operands) {
    w.push_back(instruction(op, static_cast<std::uint32_t>(operands.size()) + 1));
    w.insert(w.end(), operands.begin(), operands.end());
  };
  add(17, {1});                        // capability Shader
  add(14, {0, 1});                     // memory model
  add(15, {5, kMain, 0x6e69616d, 0});  // entry point "main"
  add(16, {kMain, 17, 1, 1, 1});       // local size
  add(5, {kNo, 0x6f6e});               // name "no"
  add(71, {kC, 1, 7});                 // its number
  add(19, {kVoid});
  add(33, {kType, kVoid});
  add(21, {kUint, 32, 0});
  add(20, {kBool});
  add(50, {kUint, kC, 5});
  add(43, {kUint, kFive, 5});
  add(52, {kBool, kIs, 170, kC, kFive});
  add(54, {kVoid, kMain, 0, kType});
  add(248, {kEntry});
  add(247, {kEnd, 0});
  add(250, {kIs, kYes, kNo});
  add(248, {kYes});
  add(224, {kFive, kFive, kFive});
  add(249, {kEnd});
  add(248, {kNo});
  add(224, {kFive, kFive, kFive});
  add(224, {kFive, kFive, kFive});
  add(249, {kEnd});
  add(248, {kEnd});
  add(253, {});
  add(56, {});
  return w;
}
constexpr std::uint32_t kBarrier = 224, kLabel = 248, kName = 5;

TEST(TakenBranches, KeepsTheSideThatAConstantChooses) {
  const SpecializationValue other{7, 6};
  const TakenBranchesWords yes = taken_branches(two_ways(), {}), no = taken_branches(two_ways(), {&other, 1});
  EXPECT_EQ(count(yes, kBarrier), 1);
  EXPECT_EQ(count(yes, kLabel), 3);
  EXPECT_EQ(count(yes, kName), 0) << "what is gone has no name";
  EXPECT_EQ(count(no, kBarrier), 2);
  EXPECT_EQ(count(no, kName), 1);
}

TEST(TakenBranches, KeepsBothSidesOfWhatIsDecidedLater) {
  TakenBranchesWords words = two_ways();
  const auto at = std::find(words.begin(), words.end(), instruction(52, 6));
  ASSERT_NE(at, words.end());
  at[3] = 9999;  // an operation that it does not compute
  EXPECT_EQ(taken_branches(words, {}), words);
}

TEST(TakenBranches, LeavesAloneWhatIsNoModule) {
  EXPECT_EQ(taken_branches({}, {}), TakenBranchesWords());
  TakenBranchesWords words = two_ways();
  words.pop_back();  // no end of the function
  EXPECT_EQ(taken_branches(words, {}), words);
  words = two_ways();
  words[5] = 0;  // an instruction without a length
  EXPECT_EQ(taken_branches(words, {}), words);
}

TEST(TakenBranches, LeaveOneOpOfTheElementwiseKernel) {
  const TakenBranchesWords all = module_of(shaders::elementwise_float), one = taken_branches(all, {});
  EXPECT_LT(one.size(), all.size() * 2 / 3);
  EXPECT_LT(count(one, 54), count(all, 54));
  EXPECT_EQ(taken_branches(one, {}).size(), one.size()) << "the second time there is nothing left to do";
}

TEST(RolledLoops, MarksLoopsAroundOthers) {
  const TakenBranchesWords all = module_of(shaders::gemm_32), rolled = rolled_loops(all, 3),
                           every = rolled_loops(all, 0);
  const auto marked = [](const TakenBranchesWords& words) {
    int found = 0;
    for (std::size_t at = 5; at < words.size(); at += words[at] >> 16) {
      found += (words[at] & 0xffffu) == spirv::OpLoopMerge && words[at + 3] == 2;
    }
    return found;
  };
  EXPECT_EQ(marked(all), 0);
  EXPECT_EQ(marked(every), count(all, spirv::OpLoopMerge));
  EXPECT_EQ(marked(rolled), 3) << "over steps of k, over k inside a step, over passes of the epilogue";
  EXPECT_EQ(rolled.size(), all.size());
  EXPECT_EQ(rolled_loops({}, 0), TakenBranchesWords());
  EXPECT_EQ(rolled_loops(TakenBranchesWords{1, 2, 3, 4, 5, 0, 246}, 0), (TakenBranchesWords{1, 2, 3, 4, 5, 0, 246}))
      << "no length";
}

TEST(SpirvOps, ComputeWhatTheSpecificationDefines) {
  const std::uint32_t lowest = 0x80000000u, minus_one = ~0u, minus_seven = static_cast<std::uint32_t>(-7);
  EXPECT_EQ(spirv::compute(spirv::OpSDiv, minus_seven, 2, 0), static_cast<std::uint32_t>(-3));
  EXPECT_EQ(spirv::compute(spirv::OpSDiv, 5, minus_one, 0), static_cast<std::uint32_t>(-5));
  EXPECT_EQ(spirv::compute(spirv::OpSDiv, lowest, minus_one, 0), lowest) << "no trap of the host's division";
  EXPECT_EQ(spirv::compute(spirv::OpUDiv, minus_one, 2, 0), 0x7fffffffu);
  EXPECT_EQ(spirv::compute(spirv::OpSelect, 0, 1, 2), 2u);
  for (auto op : {spirv::OpUDiv, spirv::OpSDiv, spirv::OpUMod}) EXPECT_FALSE(spirv::compute(op, 1, 0, 0).has_value());
  for (auto op : {spirv::OpShiftLeftLogical, spirv::OpShiftRightLogical}) {
    EXPECT_FALSE(spirv::compute(op, 1, 32, 0).has_value());
  }
}

}  // namespace
}  // namespace etna::vulkan
