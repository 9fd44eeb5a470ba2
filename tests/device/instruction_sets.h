#pragma once

#include <cstdint>
#include <string>

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace etna::cpu {

/// Runs every test with each instruction set that was compiled in and that the processor supports:
///     class Rows : public OnInstructionSets {};
///     INSTANTIATE_TEST_SUITE_P(By, Rows, every_instruction_set(), instruction_set_name);
class OnInstructionSets : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { allow(GetParam()); }
  void TearDown() override { allow(0); }

 private:
  static void allow(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

inline auto every_instruction_set() { return testing::ValuesIn(hwy::SupportedAndGeneratedTargets()); }
inline std::string instruction_set_name(const testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}

}  // namespace etna::cpu
