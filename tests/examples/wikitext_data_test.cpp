#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/tensor/io/safetensors.h>

#include "data/temporary_folder.h"
#include "wikitext_command.h"

// The example on prepared corpora, and on folders of texts.
namespace {

namespace fs = std::filesystem;
using namespace wikitext_command;
using etna::data::PrepareOptions;
using testing::HasSubstr;
using testing::Not;

std::string lines(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += "the river " + std::to_string(i * i % 97) + " flows past the old town\n";
  return text;
}

void prepare(const fs::path& input, const fs::path& folder, const std::string& kind) {
  const std::vector<etna::FilePath> inputs{input};
  PrepareOptions options;
  options.tokenizer = kind;
  if (kind == "bpe") options.vocab_size = 300;
  etna::data::prepare_corpus(inputs, folder, options);
}

constexpr const char* kTrain = "train --device cpu --preset demo --layers 1 --dim 32 --ffn 64 --batch 4 --seq 16 ";

TEST(WikitextData, TrainsEvaluatesAndWritesWithBytePairs) {
  const TemporaryFolder folder;
  prepare(folder.write("a.txt", lines(0, 900)), folder / "bpe", "bpe");
  const std::string data = " --data " + (folder / "bpe").string(), run = (folder / "run").string(),
                    json = (folder / "run.json").string();
  Outcome trained = wikitext(kTrain + std::string("--steps 6 --out ") + run + data + " --json " + json);
  ASSERT_EQ(trained.code, 0) << trained.text;
  EXPECT_THAT(trained.text, HasSubstr("300 tokens in the vocabulary"));
  EXPECT_THAT(trained.text, HasSubstr(" a token; validation "));
  const auto summary = nlohmann::json::parse(read(json)),
             manifest = nlohmann::json::parse(read(folder / "bpe" / "manifest.json"));
  for (const std::string split : {"valid", "test"}) {
    const auto& text = manifest["splits"][split];
    const double tokens = text["tokens"], words = text["words"].get<double>() + text["lines"].get<double>();
    EXPECT_NEAR(std::log(summary[split + "_word_perplexity"].get<double>()),
                std::log(summary[split + "_perplexity"].get<double>()) * tokens / words, 1e-6);
  }
  const std::string eval_json = (folder / "eval.json").string();
  Outcome evaluated = wikitext("eval --device cpu --run " + run + data + " --json " + eval_json);
  ASSERT_EQ(evaluated.code, 0) << evaluated.text;
  EXPECT_NEAR(nlohmann::json::parse(read(eval_json))["test_word_perplexity"].get<double>() /
                  summary["test_word_perplexity"].get<double>(),
              1, 1e-4);
  Outcome written = wikitext("generate --device cpu --words 4 --prompt 'the \xE6\xB0\xB4 quixotic' --run " + run);
  ASSERT_EQ(written.code, 0) << written.text;
  EXPECT_THAT(written.text, HasSubstr("the \xE6\xB0\xB4 quixotic"));
  EXPECT_THAT(written.text, Not(HasSubstr("does not know")));
  EXPECT_EQ(wikitext("generate --device cpu --words 4 --run " + run).code, 0);
  Outcome resident = wikitext(kTrain + std::string("--steps 6 --no-eval --resident") + data + " --json " + json);
  ASSERT_EQ(resident.code, 0) << resident.text;
  EXPECT_EQ(nlohmann::json::parse(read(json))["loss"], summary["loss"]);
}

TEST(WikitextData, ResumesWithTheTokenizerOfTheRunOnly) {
  const TemporaryFolder folder;
  prepare(folder.write("a.txt", lines(0, 900)), folder / "bpe", "bpe");
  prepare(folder.write("b.txt", lines(50, 900) + "other words\n"), folder / "other", "bpe");
  prepare(folder / "a.txt", folder / "word", "word");
  const std::string run = (folder / "run").string(),
                    resume = "train --device cpu --resume --no-eval --steps 4 --out " + run;
  ASSERT_EQ(
      wikitext(kTrain + std::string("--steps 2 --no-eval --out ") + run + " --data " + (folder / "bpe").string()).code,
      0);
  for (const char* name : {"other", "word"}) {
    for (const std::string& command : {resume, "eval --device cpu --run " + run}) {
      Outcome refused = wikitext(command + " --data " + (folder / name).string());
      EXPECT_EQ(refused.code, 4) << refused.text;
      EXPECT_THAT(error_line(refused), HasSubstr("was trained on 300 other tokens of bpe"));
      EXPECT_THAT(error_line(refused), HasSubstr("use the same text, or the folder it was prepared into"));
    }
  }
  Outcome resumed = wikitext(resume + " --data " + (folder / "bpe").string());
  EXPECT_EQ(resumed.code, 0) << resumed.text;
}

TEST(WikitextData, PreparedWordsAreThoseOfTheText) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "text");
  folder.write("text/train.txt", lines(0, 400));
  folder.write("text/valid.txt", lines(0, 40));
  folder.write("text/test.txt", lines(40, 80));
  prepare(folder / "text", folder / "word", "word");
  const std::string json = (folder / "run.json").string();
  std::vector<nlohmann::json> runs;
  for (const char* name : {"text", "word"}) {
    Outcome run = wikitext(kTrain + std::string("--steps 4 --data ") + (folder / name).string() + " --json " + json +
                           " --out " + (folder / name).string() + "-run");
    ASSERT_EQ(run.code, 0) << run.text;
    EXPECT_THAT(run.text, Not(HasSubstr(" a token")));
    runs.push_back(nlohmann::json::parse(read(json)));
    EXPECT_FALSE(runs.back().contains("valid_word_perplexity"));
    const auto saved =
        etna::load_safetensors(folder / (name + std::string("-run")) / "checkpoints" / "latest.safetensors");
    EXPECT_TRUE(saved.count("vocabulary.text")) << "as checkpoints always had it";
  }
  // `<unk>`, which the prepared corpus has and the text lacks, changes the weights.
  EXPECT_NEAR(runs[0]["loss"].front()["loss"].get<double>(), runs[1]["loss"].front()["loss"].get<double>(), 0.1);
}

TEST(WikitextData, TrainsOnAFolderOfTexts) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "texts");
  folder.write("texts/a.txt", lines(0, 300));
  folder.write("texts/b.md", lines(300, 600));
  Outcome run = wikitext(kTrain + std::string("--steps 2 --no-eval --text ") + (folder / "texts").string());
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_THAT(run.text, HasSubstr("corpus: " + (folder / "texts").string()));
}

TEST(WikitextData, NeedsNoSplitsWhereNothingIsEvaluated) {
  const TemporaryFolder folder;
  const std::vector<etna::FilePath> inputs{folder.write("a.txt", lines(0, 900))};
  etna::data::PrepareOptions options;
  options.valid = options.test = 0;
  etna::data::prepare_corpus(inputs, folder / "all", options);
  const std::string run = kTrain + std::string("--steps 2 --data ") + (folder / "all").string();
  Outcome refused = wikitext(run);
  EXPECT_EQ(refused.code, 4) << refused.text;
  EXPECT_THAT(error_line(refused), HasSubstr("the corpus has an empty split"));
  EXPECT_EQ(wikitext(run + " --no-eval").code, 0);
}

TEST(WikitextData, RefusesADamagedCorpus) {
  const TemporaryFolder folder;
  prepare(folder.write("a.txt", lines(0, 900)), folder / "bpe", "bpe");
  Outcome as_text = wikitext(kTrain + std::string("--steps 2 --text ") + (folder / "bpe").string());
  EXPECT_EQ(as_text.code, 4) << as_text.text;
  EXPECT_THAT(error_line(as_text), HasSubstr("holds a prepared corpus; name it by --data"));
  fs::resize_file(folder / "bpe" / "train.tokens", 100);
  Outcome run = wikitext(kTrain + std::string("--steps 2 --data ") + (folder / "bpe").string());
  EXPECT_EQ(run.code, 4) << run.text;
  EXPECT_THAT(error_line(run), HasSubstr("train.tokens: is cut off or damaged"));
}

}  // namespace
