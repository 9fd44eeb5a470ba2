#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/cpu/instruction_sets.h>

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
  std::FILE* pipe = popen("'" ETNA_FOREIGN_PROGRAM "' 2>&1", "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  for (int c; (c = std::fgetc(pipe)) != EOF;) said += static_cast<char>(c);
  int status = pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_THAT(
      said, AllOf(testing::StartsWith("etna: this build was made for another processor: it uses unknown instructions"),
                  Not(HasSubstr("initializer")), Not(HasSubstr("main"))));
}

}  // namespace
}  // namespace etna::cpu
