#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/io/checkpoint.h>

#include "wikitext_command.h"

// A model of Llama's design from nothing: trained, evaluated, and writing by both programs.
namespace {

namespace fs = std::filesystem;
using namespace wikitext_command;
using testing::HasSubstr;

Outcome etna_program(const std::string& arguments) {
  return outcome_of("env -u ETNA_DEVICE -u ETNA_STRICT " ETNA_BINARY_DIR "/bin/etna " + arguments);
}

/// What stands behind a word in a text, as a number.
double number_behind(const std::string& text, const std::string& words) {
  std::smatch found;
  const bool there = std::regex_search(text, found, std::regex(words + " ([0-9.]+)"));
  EXPECT_TRUE(there) << words << " is not in: " << text;
  return there ? std::stod(found[1]) : -1;
}

class WikitextLlama : public Wikitext {
 protected:
  void SetUp() override {
    Wikitext::SetUp();
    const Outcome trained = wikitext(
        "train --device cpu --preset demo --arch llama --layers 2 --dim 32 --ffn 64 --heads 2 --seq 32 --batch 8 "
        "--steps 30 --no-eval --out " +
        at("run"));
    ASSERT_EQ(trained.code, 0) << trained.text;
  }
  std::string run() const { return "--device cpu --run " + at("run") + " "; }
};

TEST_F(WikitextLlama, IsEvaluatedAndWrites) {
  const Outcome eval = wikitext("eval " + run());
  ASSERT_EQ(eval.code, 0) << eval.text;
  EXPECT_GT(number_behind(eval.text, "perplexity: validation"), 1);

  const Outcome words = wikitext("generate " + run() + "--words 20 --temperature 0 --prompt 'the river'");
  ASSERT_EQ(words.code, 0) << words.text;
  EXPECT_THAT(words.text, HasSubstr("the river"));
  EXPECT_EQ(wikitext("generate " + run() + "--words 20 --temperature 0 --prompt 'the river'").text, words.text);

  if (!fs::exists(ETNA_BINARY_DIR "/bin/etna")) GTEST_SKIP() << "this build is without etna";
  const Outcome text = etna_program("run --device cpu --temperature 0 --max-tokens 20 --cache f32 --quiet --model " +
                                    at("run") + " --prompt 'the river'");
  ASSERT_EQ(text.code, 0) << text.text;
  EXPECT_THAT(text.text, HasSubstr("the river"));
  const Outcome shown = etna_program("inspect " + at("run/checkpoints/step-000000030.safetensors"));
  EXPECT_EQ(shown.code, 0) << shown.text;
  EXPECT_THAT(shown.text, HasSubstr("; the model runs without them\n"));
}

TEST_F(WikitextLlama, ChatsLineByLine) {
  std::ofstream(at("lines")) << "the river\nand the town\n\nnot read\n";
  const Outcome chat = wikitext("chat " + run() + "--words 5 --temperature 0 < " + at("lines"));
  ASSERT_EQ(chat.code, 0) << chat.text;
  EXPECT_THAT(chat.text, HasSubstr("llama, "));
  EXPECT_THAT(chat.text, HasSubstr("an empty line or Ctrl-D ends"));
  EXPECT_THAT(chat.text, testing::Not(HasSubstr("not read")));
  // An answer to each of both lines.
  EXPECT_GE(std::count(chat.text.begin(), chat.text.end(), '\n'), 3) << chat.text;
  EXPECT_EQ(wikitext("chat " + run() + "< /dev/null").code, 0);
  EXPECT_EQ(wikitext("chat --device cpu --run " + at("nowhere") + " < /dev/null").code, 4);
}

TEST_F(WikitextLlama, DamagedWeightsWriteNothing) {
  for (const auto& entry : fs::directory_iterator(at("run/checkpoints"))) {
    if (entry.path().extension() != ".safetensors") continue;
    etna::CheckpointState state = etna::read_checkpoint(entry.path());
    const auto norm = std::find_if(state.tensors.begin(), state.tensors.end(),
                                   [](const auto& tensor) { return tensor.first == "model.norm.weight"; });
    ASSERT_NE(norm, state.tensors.end());
    norm->second.fill_(std::numeric_limits<double>::quiet_NaN());
    etna::write_checkpoint(entry.path(), state);
  }
  const Outcome generated = wikitext("generate " + run() + "--words 20 --prompt 'the river'");
  EXPECT_EQ(generated.code, 8) << generated.text;
  EXPECT_THAT(error_line(generated), HasSubstr("is NaN or infinite, so its weights are damaged"));
  const Outcome eval = wikitext("eval " + run());
  EXPECT_EQ(eval.code, 6) << eval.text;
  EXPECT_THAT(error_line(eval), HasSubstr("the loss is nan on validation"));
}

}  // namespace
