#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wikitext_command.h"

// What was there stays: files of others, finished runs.
namespace {

namespace fs = std::filesystem;
using namespace wikitext_command;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kShortTrain = "train --device cpu --preset demo --steps 3 --no-eval --no-forecast ";

void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

TEST_F(Wikitext, AnOutputReplacesNoFileThatItDidNotWrite) {
  train_into("run");
  const std::string profiled =
      "train --device cpu --preset demo --steps 8 --no-eval --no-forecast --profile --profile-steps 1 --trace ";
  for (const std::string& command :
       {std::string(kShortTrain) + "--json ", profiled, "eval --device cpu --run " + at("run") + " --json ",
        std::string("compare --devices cpu --preset demo --steps 2 --json "),
        std::string("compare --devices cpu --preset demo --steps 2 --picture ")}) {
    for (const char* name : {"victim.svg", "victim.json"}) {
      if (std::string(name) == "victim.svg" && command != profiled) continue;
      const std::string file = at(name);
      write(file, "{\"precious\": 1}\n");
      const Outcome refused = wikitext(command + file);
      EXPECT_EQ(refused.code, 2) << command << refused.text;
      EXPECT_THAT(error_line(refused), AllOf(HasSubstr(file + ": is there already"), HasSubstr("--force")));
      EXPECT_EQ(read(file), "{\"precious\": 1}\n");
      const Outcome forced = wikitext(command + file + " --force");
      EXPECT_EQ(forced.code, 0) << command << forced.text;
      EXPECT_THAT(read(file), Not(HasSubstr("precious"))) << command;
      const Outcome again = wikitext(command + file);
      EXPECT_EQ(again.code, 0) << "its own output: " << command << again.text;
    }
  }
}

TEST_F(Wikitext, AFolderWithAFileThatARunWouldReplaceIsRefused) {
  fs::create_directories(at("mine"));
  write(at("mine/report.html"), "precious");
  const Outcome refused = wikitext(kShortTrain + ("--out " + at("mine")));
  EXPECT_EQ(refused.code, 4) << refused.text;
  EXPECT_THAT(error_line(refused), HasSubstr("report.html is there already, and a run would replace it"));
  EXPECT_EQ(read(at("mine/report.html")), "precious");
}

/// All files below but the lock, by name.
std::map<std::string, std::string> files_below(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != ".lock")
      files[entry.path().string()] = read(entry.path());
  return files;
}

TEST_F(Wikitext, ResumingAFinishedRunChangesNothing) {
  const std::string runs = "ETNA_RUNS=" + at("list"), resume = "train --device cpu --resume --out " + at("run");
  const Outcome trained = wikitext(kShortTrain + ("--out " + at("run")), runs);
  ASSERT_EQ(trained.code, 0) << trained.text;
  const auto before = files_below(folder_);
  for (const char* more : {"", " --steps 3", " --no-eval"}) {
    const Outcome again = wikitext(resume + more, runs);
    EXPECT_EQ(again.code, 0) << again.text;
    EXPECT_THAT(again.text, HasSubstr("nothing is left to do: " + at("run") + " ended at step 3"));
    EXPECT_EQ(files_below(folder_), before) << more;
  }
  EXPECT_EQ(wikitext(resume + " --steps 5 --no-eval", runs).code, 0);
  EXPECT_THAT(read(at("run/summary.json")), HasSubstr("\"steps\": 5"));
}

TEST_F(Wikitext, CheckpointsOfAnotherRunAreRefused) {
  train_into("one");
  train_into("two");
  for (const char* name : {"step-000000003.safetensors", "latest.safetensors"})
    fs::copy_file(at("two/checkpoints/") + name, at("one/checkpoints/") + name, fs::copy_options::overwrite_existing);
  const auto before = files_below(folder_);
  const Outcome refused = wikitext("train --device cpu --resume --steps 5 --no-eval --out " + at("one"));
  EXPECT_EQ(refused.code, 4) << refused.text;
  EXPECT_THAT(error_line(refused), AllOf(HasSubstr("step-000000003.safetensors: is a checkpoint of run "),
                                         HasSubstr("and the folder is that of run ")));
  EXPECT_EQ(files_below(folder_), before);
  EXPECT_EQ(wikitext("train --device cpu --resume --steps 5 --no-eval --out " + at("two")).code, 0);
}

TEST_F(Wikitext, ClosedDescriptorsDoNotBecomeFilesOfTheRun) {
  const std::string closed = command_line(kShortTrain + ("--out " + at("run"))) + " <&- >&- 2>&-";
  EXPECT_EQ(std::system(closed.c_str()), 0);
  for (const auto& [name, text] : files_below(at("run"))) {
    if (name.ends_with(".html") || name.ends_with(".svg")) continue;
    EXPECT_THAT(text, AllOf(Not(HasSubstr("train ")), Not(HasSubstr("corpus:")))) << name;
  }
  EXPECT_EQ(read(at("run/metrics.jsonl")).substr(0, 8), "{\"step\":");
}

TEST_F(Wikitext, ATypoIsNamedWithWhatWasMeant) {
  for (const auto& [arguments, sentence] :
       {std::pair{"trian", "did you mean train?"}, {"train --pateince 3", "did you mean --patience?"}}) {
    const Outcome typed = wikitext(arguments);
    EXPECT_EQ(typed.code, 2) << typed.text;
    EXPECT_THAT(error_line(typed), HasSubstr(sentence));
  }
}

}  // namespace
