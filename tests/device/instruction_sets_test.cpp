#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/internal/cpu/instruction_sets.h>
#include <runner/run_program.h>

namespace etna::cpu {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::string explained(InstructionSets needed, InstructionSets present) {
  std::array<char, 2048> text;
  return {text.data(), explain_missing(needed, present, text.data(), text.size())};
}

TEST(InstructionSets, SayNothingWhereNoneIsMissing) {
  EXPECT_EQ(explained(0, 0), "");
  EXPECT_EQ(explained(0, ~InstructionSets{0}), "");
  EXPECT_EQ(explained(0b1011, 0b1011), "");
  EXPECT_EQ(explained(0b1011, 0b1111), "");
}

TEST(InstructionSets, NameThoseThatAreMissingAndWhatToDo) {
  EXPECT_THAT(explained(0b1, 0), AllOf(HasSubstr("uses SSE3, which"), HasSubstr("made for another processor"),
                                       HasSubstr("-DETNA_NATIVE=OFF"), HasSubstr("fresh folder"), EndsWith("\n")));
  EXPECT_THAT(explained(0b1101, 0b0101), AllOf(HasSubstr("uses SSE4.2, which"), Not(HasSubstr("SSSE3"))));
  EXPECT_THAT(explained(0b0110, 0b1001), HasSubstr("uses SSSE3, SSE4.1, which"));
  EXPECT_THAT(explained(InstructionSets{1} << 63, 0), HasSubstr("uses unknown instructions, which"));
  EXPECT_THAT(explained(1 | InstructionSets{1} << 63, 0), HasSubstr("uses SSE3 and unknown instructions, which"));
}

TEST(InstructionSets, FitTheTextThatIsThere) {
  char text[9] = "????????";
  EXPECT_EQ(explain_missing(~InstructionSets{0}, 0, text, 4), 4u);
  EXPECT_EQ(std::string(text), "etna????");
  EXPECT_EQ(explain_missing(1, 0, text, 0), 0u);
  std::array<char, 2048> all;
  EXPECT_LT(explain_missing(~InstructionSets{0}, 0, all.data(), all.size()), all.size())
      << "of all, the sentence is whole";
}

TEST(InstructionSets, OfThisBuildAreThoseOfThisProcessor) {
  EXPECT_EQ(explained(kBuiltFor, instruction_sets()), "");
#if defined(__AVX2__)
  EXPECT_THAT(explained(kBuiltFor, 0), AllOf(HasSubstr("AVX2"), HasSubstr("FMA")));
#endif
#if defined(__AVX512F__)
  EXPECT_THAT(explained(kBuiltFor, 0), HasSubstr("AVX512F"));
#else
  EXPECT_THAT(explained(kBuiltFor, 0), Not(HasSubstr("AVX512F")));
#endif
}

TEST(InstructionSets, EndAProgramBeforeItsInitializers) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "only x86-64 programs look at the processor";
#endif
  const Result run = run_program(ETNA_FOREIGN_PROGRAM, "");
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(
      run.output,
      AllOf(testing::StartsWith("etna: this build was made for another processor: it uses unknown instructions"),
            Not(HasSubstr("initializer")), Not(HasSubstr("main"))));
}

}  // namespace
}  // namespace etna::cpu
