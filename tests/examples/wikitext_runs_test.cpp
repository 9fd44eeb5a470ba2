#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/tensor/io/checkpoint.h>
#include <etna/tensor/io/safetensors.h>

#include "wikitext_command.h"

namespace {

namespace fs = std::filesystem;
using namespace wikitext_command;
using testing::HasSubstr;

TEST_F(Wikitext, AFolderThatCannotBeWrittenIsSaidBeforeTheTraining) {
  std::ofstream(at("file")) << "in the way";
  Outcome outcome = wikitext("train --device cpu --preset demo --steps 1 --out " + at("file") + "/run");
  EXPECT_EQ(outcome.code, 4);
  EXPECT_FALSE(error_line(outcome).empty());
  EXPECT_THAT(outcome.text, testing::Not(HasSubstr("loss ")));
}

TEST_F(Wikitext, AFullDiskKeepsTheOldCheckpoint) {
  train_into("run");
  const std::string file = at("run/checkpoints/latest.safetensors"), before = read(file);
  // A limit on file sizes simulates a full disk: writes past 64 KiB fail.
  Outcome outcome =
      outcome_of("bash -c \"trap '' XFSZ; ulimit -f 64; exec " +
                 command_line("train --device cpu --resume --steps 5 --no-eval --out " + at("run")) + "\"");
  EXPECT_EQ(outcome.code, 4) << outcome.text;
  EXPECT_THAT(error_line(outcome), HasSubstr("File too large"));
  EXPECT_EQ(read(file), before);
  for (const auto& entry : fs::recursive_directory_iterator(at("run")))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
}

TEST_F(Wikitext, AFolderThatHoldsARunIsRefused) {
  train_into("run");
  Outcome again = wikitext("train --device cpu --preset demo --steps 3 --no-eval --out " + at("run"));
  EXPECT_EQ(again.code, 4);
  EXPECT_THAT(error_line(again),
              testing::AllOf(HasSubstr("holds a run"), HasSubstr("--resume goes on with a run, --force begins anew")));
  Outcome forced = wikitext("train --device cpu --preset demo --steps 2 --no-eval --force --out " + at("run"));
  EXPECT_EQ(forced.code, 0) << forced.text;
  EXPECT_FALSE(fs::exists(at("run/checkpoints/step-000000003.safetensors")));
  EXPECT_EQ(wikitext("train --device cpu --resume --out " + at("nowhere")).code, 4);
  Outcome other = wikitext("train --device cpu --resume --layers 3 --out " + at("run"));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(error_line(other), HasSubstr("layers is another one"));
  std::ofstream text(at("other.txt"));
  for (int i = 0; i < 5000; ++i) text << "word" << i % 50 << (i % 10 == 9 ? '\n' : ' ');
  text.close();
  Outcome corpus = wikitext("train --device cpu --resume --text " + at("other.txt") + " --out " + at("run"));
  EXPECT_EQ(corpus.code, 4) << corpus.text;
  EXPECT_THAT(error_line(corpus), HasSubstr("the run was trained on"));
}

/// Gives the weights of a run's checkpoints the names that GPT-2's had in older versions.
void name_as_older_versions(const fs::path& checkpoints) {
  const std::pair<std::string, std::string> names[] = {
      {"token_embedding.", "wte."}, {"position_embedding.", "wpe."},  {".attention_norm.", ".norm1."},
      {".attention.qkv.", ".qkv."}, {".attention.output.", ".proj."}, {".ffn_norm.", ".norm2."},
      {".ffn.up.", ".up."},         {".ffn.down.", ".down."}};
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    etna::CheckpointState state = etna::read_checkpoint(entry.path());
    for (auto& [name, tensor] : state.tensors) {
      if (!name.starts_with("model.")) continue;
      for (const auto& [now, then] : names)
        if (const std::size_t at = name.find(now); at != name.npos) name.replace(at, now.size(), then);
    }
    etna::write_checkpoint(entry.path(), std::move(state));
  }
}

TEST_F(Wikitext, AnOlderVersionsRunIsReadAndNotResumed) {
  train_into("run");
  name_as_older_versions(at("run/checkpoints"));
  const Outcome resumed = wikitext("train --device cpu --resume --steps 5 --no-eval --out " + at("run"));
  EXPECT_EQ(resumed.code, 4);
  EXPECT_THAT(error_line(resumed), HasSubstr("an older version wrote this run's GPT-2, whose weights had other names "
                                             "('wte.weight' is 'token_embedding.weight' now); eval and generate read "
                                             "it, but it cannot be resumed: train anew in another folder"));
  EXPECT_EQ(resumed.text.find("blocks.0"), std::string::npos) << resumed.text;
  EXPECT_EQ(wikitext("generate --device cpu --words 3 --run " + at("run")).code, 0);
}

/// Runs the example, sends it a signal once its output has `text`, and waits for its end.
Outcome stopped_at(const std::string& arguments, const std::string& text, int signal) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    const std::string command = "exec " + command_line(arguments);
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  Outcome outcome;
  char buffer[4096];
  bool sent = false;
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    outcome.text.append(buffer, static_cast<std::size_t>(n));
    if (!sent && outcome.text.find(text) != std::string::npos) {
      kill(child, signal);
      sent = true;
    }
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return outcome;
}

class WikitextResume : public Wikitext {
 protected:
  void expect_exact_resume(const std::string& run);
};

/// Stops a run by Ctrl-C and by a kill, goes on, and compares with one that was not stopped.
void WikitextResume::expect_exact_resume(const std::string& run) {
  ASSERT_EQ(wikitext(run + "--out " + at("through")).code, 0);
  for (const int signal : {SIGINT, SIGKILL}) {
    const std::string folder = at(signal == SIGINT ? "stopped" : "killed");
    Outcome stopped = stopped_at(run + "--checkpoint-seconds 0 --out " + folder, "train  30/160", signal);
    EXPECT_EQ(stopped.code, signal == SIGINT ? 130 : -SIGKILL) << stopped.text;
    if (signal == SIGINT) {
      EXPECT_THAT(stopped.text, HasSubstr("wikitext train --resume --out " + folder));
    }
    Outcome resumed = wikitext("train --device cpu --resume --out " + folder);
    ASSERT_EQ(resumed.code, 0) << resumed.text;
    EXPECT_THAT(resumed.text, HasSubstr("resumed: "));
    const auto weights = [](const std::string& path) {
      return etna::load_safetensors(path + "/checkpoints/step-000000160.safetensors");
    };
    const auto whole = weights(at("through")), parts = weights(folder);
    ASSERT_EQ(whole.size(), parts.size());
    for (const auto& [name, tensor] : whole) {
      if (name == "seconds.value") continue;
      const std::size_t bytes = static_cast<std::size_t>(tensor.numel()) * etna::item_size(tensor.dtype());
      EXPECT_EQ(std::memcmp(tensor.raw_data(), parts.at(name).raw_data(), bytes), 0) << name;
    }
    const auto column = [](const std::string& folder) {
      std::istringstream lines(read(folder + "/metrics.jsonl"));
      std::vector<std::string> losses;
      for (std::string line; std::getline(lines, line);) {
        const auto row = nlohmann::json::parse(line);
        if (row.contains("loss")) losses.push_back(row["step"].dump() + " " + row["loss"].dump());
      }
      return losses;
    };
    EXPECT_EQ(column(folder), column(at("through")));
  }
}

TEST_F(WikitextResume, AStoppedRunGoesOnWithTheSameBits) {
  expect_exact_resume(
      "train --device cpu --preset demo --layers 1 --dim 32 --ffn 64 --epochs 20 --batch 64 --eval-every 60 "
      "--dropout 0.1 --steps 160 ");
}

TEST_F(WikitextResume, AStoppedRunOfLstmsGoesOnWithTheSameBits) {
  expect_exact_resume(
      "train --device cpu --preset best_cpu --layers 2 --dim 16 --hidden 24 --epochs 40 --batch 32 --seq 24 "
      "--seq-spread 16 --eval-every 60 --steps 160 ");
}

TEST_F(Wikitext, SettingsComeFromTheCommandLineThenTheEnvironmentThenAFile) {
  std::ofstream(at("my.toml")) << "lr = 3e-3  # mine\nbatch = 8\nwarmup = 7\n";
  Outcome shown = wikitext("train --print-config --preset small --lr 0.5 --config " + at("my.toml"),
                           "ETNA_WIKITEXT_BATCH=4 ETNA_WIKITEXT_LR=9");
  EXPECT_EQ(shown.code, 0);
  for (const char* line :
       {"lr = 0.5                      # --lr\n", "batch = 4                     # ETNA_WIKITEXT_BATCH\n",
        "layers = 6                    # preset small\n", "seed = 1                      # default\n"})
    EXPECT_THAT(shown.text, HasSubstr(line));
  EXPECT_THAT(shown.text, HasSubstr("warmup = 7                    # " + at("my.toml")));
  std::ofstream(at("printed.toml")) << shown.text;
  Outcome again = wikitext("train --print-config --config " + at("printed.toml"));
  EXPECT_THAT(again.text, HasSubstr("lr = 0.5                      # " + at("printed.toml")));
}

TEST_F(Wikitext, NumbersOutOfRangeAreRefusedBeforeAnythingIsBuilt) {
  for (const char* wrong :
       {"--layers 1.9", "--layers 0", "--layers 16000000", "--dim 1e20", "--lr nan", "--lr -1", "--dropout 1",
        "--batch 99999999999999999999", "--heads 3", "--schedule steep", "--seed -1", "--clip inf"}) {
    Outcome outcome = wikitext(std::string("train --device cpu --steps 1 ") + wrong);
    EXPECT_EQ(outcome.code, 2) << wrong << ": " << outcome.text;
    EXPECT_THAT(outcome.text, testing::Not(HasSubstr("model:"))) << wrong;
  }
  std::ofstream(at("typo.toml")) << "layer = 3\n";
  Outcome typo = wikitext("train --config " + at("typo.toml"));
  EXPECT_EQ(typo.code, 2);
  EXPECT_THAT(error_line(typo), HasSubstr("'layer' is no setting; there are model, layers"));
}

TEST_F(Wikitext, AccumulatedBatchesMakeOneStep) {
  const std::string run = "train --device cpu --preset demo --steps 6 --no-eval --json " + at("run.json");
  ASSERT_EQ(wikitext(run + " --batch 4 --accumulation 2").code, 0);
  auto two = nlohmann::json::parse(read(at("run.json")));
  EXPECT_EQ(two["tokens"], 6 * 2 * 4 * 64);
  ASSERT_EQ(wikitext(run + " --batch 4 --accumulation 2 --resident").code, 0);
  EXPECT_EQ(nlohmann::json::parse(read(at("run.json")))["loss"], two["loss"]);
}

}  // namespace
