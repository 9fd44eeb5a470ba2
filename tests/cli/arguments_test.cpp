#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etna_model.h"

namespace etna {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(EtnaArguments, TellTheVersion) {
  const Result version = etna("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.output, testing::MatchesRegex("etna [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(EtnaArguments, NameWhatATypoMeant) {
  for (const auto& [arguments, sentence] :
       {std::pair{"isnpect x.gguf", "etna has no command 'isnpect'; did you mean inspect?"},
        {"run --temprature 1 x.gguf", "etna run has no option '--temprature'; did you mean --temperature?"},
        {"run --temprature=1", "etna run has no option '--temprature'; did you mean --temperature?"},
        {"runs comprae a b", "etna runs has no command 'comprae'; did you mean compare?"},
        {"data prepare --vocabsize 3 a --out b", "did you mean --vocab-size?"},
        {"--versoin", "etna has no option '--versoin'; did you mean --version?"},
        {"run --wholly-other x.gguf", "etna run --help lists what it takes"},
        {"devices all", "etna devices has no room for the argument 'all'"}}) {
    const Result run = etna(arguments);
    EXPECT_EQ(run.code, 2) << arguments;
    EXPECT_THAT(run.output, HasSubstr(sentence)) << arguments;
  }
}

TEST(EtnaArguments, RangesAreInWords) {
  for (const auto& [arguments, sentence] :
       {std::pair{"run x --max-tokens 0", "'0' should be an integer of 1 or more"},
        {"run x --top-k -1", "'-1' should be an integer of 0 or more"},
        {"run x --top-p 1.5", "'1.5' should be a number from 0 to 1"},
        {"run x --temperature nan", "'nan' should be a number of 0 or more"},
        {"run x --repetition-penalty 0", "'0' should be a number above 0"},
        {"perplexity x --file y --chunk 1", "'1' should be an integer from 2 to 1,048,576"},
        {"runs --last 0", "'0' should be an integer of 1 or more"},
        {"data prepare a --out b --valid 0.6", "'0.6' should be a number from 0 to 0.5"}}) {
    const Result run = etna(arguments);
    EXPECT_EQ(run.code, 2) << arguments;
    EXPECT_THAT(run.output, HasSubstr(sentence)) << arguments;
  }
  for (const char* help : {"run --help", "data prepare --help", "perplexity --help", "runs --help", "bench --help"})
    EXPECT_THAT(etna(help).output, Not(testing::ContainsRegex("[0-9]{18}|e[+]308"))) << help;
}

TEST_F(EtnaModel, IsNamedAlikeByEveryCommand) {
  folder_.write("text", "the river the river a b c .\n");
  for (const std::string& command :
       {std::string("run --device cpu -n 2 -p river"), std::string("bench --device cpu -p 2 -n 2 --repeat 1"),
        "perplexity --device cpu -f " + quoted(folder_ / "text"), std::string("inspect"),
        "quantize --force --to q4_k_m --out " + quoted(folder_ / "q.gguf"),
        "convert --force --to q8_0 --out " + quoted(folder_ / "c.gguf"),
        std::string("chat --device cpu -n 2 --format chatml")}) {
    for (const char* name : {" ", " -m ", " --model "}) {
      const Result run = etna(command + name + quoted(model()));
      EXPECT_EQ(run.code, 0) << command << name << run.output;
    }
  }
  EXPECT_EQ(etna("run --device cpu --stop a --logit-bias 29=1 -n 2 " + quoted(model())).code, 0)
      << "values of a list end before the model";
}

TEST_F(EtnaModel, QuietLeavesStandardErrorEmpty) {
  folder_.write("text", "the river the river a b c .\n");
  for (const std::string& command :
       {with_model("run") + "-n 3 --prompt river", with_model("bench") + "-p 2 -n 2 --repeat 1",
        with_model("perplexity") + "--file " + quoted(folder_ / "text")}) {
    const Result run = run_program(ETNA_PROGRAM, command + " --quiet", "", "2>&1 >/dev/null");
    EXPECT_EQ(run.code, 0) << command;
    EXPECT_EQ(run.output, "") << command;
  }
}

TEST_F(EtnaModel, PromptsComeFromStandardInputToo) {
  const std::string run = with_model("run") + "--temperature 0 -n 4 --quiet ";
  const std::string wanted = text_of(run + "--prompt 'the river'");
  for (const char* ending : {"", "\n", "\r\n"}) {
    const auto file = quoted(folder_.write("prompt", std::string("the river") + ending));
    EXPECT_EQ(text_of(run + "< " + file), wanted);
    EXPECT_EQ(text_of(run + "--prompt - < " + file), wanted);
    EXPECT_EQ(text_of(run + "--prompt-file " + file), wanted);
    EXPECT_EQ(text_of(run + "--prompt-file - < " + file), wanted);
  }
  EXPECT_EQ(text_of(run + "--prompt '' < " + quoted(folder_ / "prompt")), text_of(run + "--prompt ''"));
  const Result binary = etna(run + "< " + quoted(model()));
  EXPECT_EQ(binary.code, 4);
  EXPECT_THAT(binary.output, HasSubstr("standard input is not UTF-8 text"));
}

TEST_F(EtnaModel, ABinaryFileIsNoText) {
  const Result read = etna(with_model("perplexity") + "--file " + quoted(model()));
  EXPECT_EQ(read.code, 4) << read.output;
  EXPECT_THAT(read.output, AllOf(HasSubstr("model.gguf: is not text"), HasSubstr("NUL")));
}

TEST(EtnaArguments, CompleteInBash) {
  const auto completed = [](const std::string& words, int at) {
    const std::string script = "source <(" ETNA_PROGRAM " completion bash); COMP_WORDS=(" + words +
                               "); COMP_CWORD=" + std::to_string(at) + "; _etna; echo \"${COMPREPLY[@]}\"";
    return run_program("/bin/bash", "-c '" + script + "'").output;
  };
  EXPECT_EQ(completed("etna ins", 1), "inspect\n");
  EXPECT_EQ(completed("etna run --temp", 2), "--temperature\n");
  EXPECT_EQ(completed("etna runs comp", 2), "compare\n");
  EXPECT_EQ(completed("etna runs plot --s", 3), "--svg\n");
  for (const char* shell : {"zsh", "fish"})
    EXPECT_THAT(etna(std::string("completion ") + shell).output, HasSubstr("temperature")) << shell;
  EXPECT_EQ(etna("completion tcsh").code, 2);
}

TEST_F(EtnaModel, TheManualHasEveryCommandAndOption) {
  const Result man = etna("man");
  EXPECT_EQ(man.code, 0);
  for (const char* part : {".TH ETNA 1", ".SH \"etna run\"", ".SS \"etna runs compare\"", "\\-\\-temperature NUMBER",
                           "\\-\\-version", "\\-\\-model, \\-m"})
    EXPECT_THAT(man.output, HasSubstr(part));
  if (run_program("/bin/sh", "-c 'command -v groff'").code != 0) GTEST_SKIP() << "there is no groff";
  EXPECT_EQ(run_program("/bin/sh", "-c '" ETNA_PROGRAM " man | groff -man -Tutf8 -ww -z'").output, "");
}

}  // namespace
}  // namespace etna
