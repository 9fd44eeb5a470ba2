#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/data/demo_corpus.h>
#include <etna/tensor/io/safetensors.h>

// Runs the example as a person does: its output, its files, and how it ends on errors.
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string text;  ///< standard output and error
};

/// The example's command line in an environment without settings. @param environment e.g. "ETNA_DATA=/x"
std::string command_line(const std::string& arguments, const std::string& environment = "") {
  return "env -u ETNA_DATA -u ETNA_DEVICE -u ETNA_STRICT ETNA_RUNS=" + fs::temp_directory_path().string() +
         "/etna_runs " + environment + " " ETNA_BINARY_DIR "/bin/wikitext " + arguments;
}

/// Runs a command of a shell to its end.
Outcome outcome_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Outcome outcome;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.text.append(buffer, n);
  int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return outcome;
}

/// Runs the example; no GPU is expected unless a test names one.
Outcome wikitext(const std::string& arguments, const std::string& environment = "") {
  return outcome_of(command_line(arguments, environment));
}

/// The line with the error message.
std::string error_line(const Outcome& outcome) {
  std::istringstream lines(outcome.text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("error: ", 0) == 0) found = line;
  }
  return found;
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Wikitext : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("etna_wikitext_" + std::to_string(getpid()) + "_" +
                                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  /// A short run that other commands can use.
  void train_into(const std::string& run) {
    Outcome trained = wikitext("train --device cpu --preset demo --steps 3 --no-eval --out " + at(run));
    ASSERT_EQ(trained.code, 0) << trained.text;
  }
  fs::path folder_;
};

TEST_F(Wikitext, TrainsEvaluatesAndWritesItsSummary) {
  Outcome trained = wikitext("train --device cpu --preset demo --epochs 5 --steps 120 --out " + at("run") + " --json " +
                             at("all.json"));
  ASSERT_EQ(trained.code, 0) << trained.text;
  EXPECT_THAT(trained.text, HasSubstr("device: requested=cpu"));
  EXPECT_THAT(trained.text, HasSubstr("tools/get-wikitext2"));
  auto json = nlohmann::json::parse(read(at("all.json")));
  for (const char* key : {"device", "device_name", "preset", "precision", "parameters", "steps", "tokens", "seconds",
                          "tokens_per_second", "ms_per_step_median", "epoch_seconds", "loss", "valid_perplexity",
                          "test_perplexity", "peak_bytes", "transfers"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["steps"], 120);
  EXPECT_EQ(json["tokens"], 120 * 16 * 64);
  double first = json["loss"].front()["loss"], last = json["loss"].back()["loss"];
  EXPECT_NEAR(first, std::log(1125.0), 0.3);
  EXPECT_LT(last, first / 2);
  EXPECT_EQ(json, nlohmann::json::parse(read(at("run/summary.json"))));
  EXPECT_THAT(read(at("run/metrics.csv")), HasSubstr("step,seconds,loss,lr,tokens_per_second,valid_loss\n1,"));

  Outcome evaluated = wikitext("eval --device cpu --run " + at("run") + " --json " + at("eval.json"));
  ASSERT_EQ(evaluated.code, 0) << evaluated.text;
  EXPECT_NEAR(nlohmann::json::parse(read(at("eval.json")))["test_perplexity"].get<double>(),
              json["test_perplexity"].get<double>(), 1e-3);

  Outcome first_draw = wikitext("generate --device cpu --words 12 --seed 3 --run " + at("run")),
          again = wikitext("generate --device cpu --words 12 --seed 3 --run " + at("run"));
  EXPECT_EQ(first_draw.code, 0) << first_draw.text;
  EXPECT_EQ(first_draw.text, again.text);
}

TEST_F(Wikitext, MixedPrecisionFollowsF32) {
  std::map<std::string, std::vector<double>> losses;
  for (const char* precision : {"f32", "f16", "bf16"}) {
    Outcome run = wikitext(std::string("train --device cpu --preset demo --batch 4 --steps 12 --no-eval --precision ") +
                           precision + " --json " + at("run.json"));
    ASSERT_EQ(run.code, 0) << run.text;
    auto summary = nlohmann::json::parse(read(at("run.json")));
    EXPECT_EQ(summary["precision"], precision);
    for (const auto& look : summary["loss"]) losses[precision].push_back(look["loss"]);
  }
  for (const char* precision : {"f16", "bf16"}) {
    ASSERT_EQ(losses[precision].size(), losses["f32"].size());
    EXPECT_NE(losses[precision], losses["f32"]);
    for (std::size_t i = 0; i < losses["f32"].size(); ++i) EXPECT_NEAR(losses[precision][i], losses["f32"][i], 0.02);
  }
}

TEST_F(Wikitext, ASeedGivesTheSameLosses) {
  for (const char* name : {"a.json", "b.json"}) {
    Outcome run = wikitext("train --device cpu --preset demo --steps 5 --seed 7 --no-eval --json " + at(name));
    ASSERT_EQ(run.code, 0) << run.text;
  }
  EXPECT_EQ(nlohmann::json::parse(read(at("a.json")))["loss"], nlohmann::json::parse(read(at("b.json")))["loss"]);
}

TEST_F(Wikitext, ComparesTheCpuWithTheGpu) {
  // A small model and batch, since a software rasterizer may act as the GPU here.
  constexpr int kSteps = 5, kBatch = 2;
  Outcome compared = wikitext(
      "compare --devices cpu,vulkan:0 --preset demo --batch 2 --steps 5 --json " + at("compare.json"), "ETNA_STRICT=1");
  ASSERT_EQ(compared.code, 0) << compared.text;
  auto runs = nlohmann::json::parse(read(at("compare.json")));
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[2]["mode"], "eager");
  EXPECT_EQ(runs[3]["mode"], "captured");
  EXPECT_EQ(runs[0]["loss"], runs[1]["loss"]);
  EXPECT_EQ(runs[2]["loss"], runs[3]["loss"]);
  for (int gpu : {2, 3}) {
    EXPECT_LT(runs[gpu]["loss_difference"].get<double>(), 1e-3);
    EXPECT_TRUE(runs[gpu]["epoch_extrapolated"].get<bool>());
    // Each step uploads its tokens and targets; each read of the loss downloads one number.
    EXPECT_EQ(runs[gpu]["transfers"]["h2d_bytes"], kSteps * 2 * kBatch * 64 * 4);
    EXPECT_EQ(runs[gpu]["transfers"]["d2h_bytes"], kSteps * 4);
  }
  EXPECT_THAT(runs[1]["amdahl"].get<std::string>(), HasSubstr("matrix products"));
  EXPECT_THAT(compared.text, HasSubstr("captured ms"));
  EXPECT_THAT(compared.text, HasSubstr("vulkan:0: matrix products"));
}

TEST_F(Wikitext, AResidentCorpusGivesTheSameLossesAndIsUploadedOnce) {
  auto losses = [&](const std::string& arguments) {
    Outcome run = wikitext(arguments + " --json " + at("run.json"), "ETNA_STRICT=1");
    EXPECT_EQ(run.code, 0) << arguments << "\n" << run.text;
    return nlohmann::json::parse(read(at("run.json")));
  };
  const std::string gpu = "train --device vulkan:0 --preset demo --batch 2 --steps 4 --no-eval",
                    epochs = "train --device cpu --preset demo --epochs 2 --batch 4 --no-eval --text " + at("few.txt");
  auto resident = losses(gpu + " --resident");
  EXPECT_EQ(resident["loss"], losses(gpu)["loss"]);
  const auto tokens = static_cast<std::int64_t>(etna::data::demo_corpus().train.size());
  EXPECT_EQ(resident["transfers"]["h2d_bytes"], tokens / 2 * 2 * 4);
  {
    std::ofstream few(at("few.txt"));
    for (int i = 0; i < 1200; ++i) few << "word" << i * i % 97 << (i % 20 == 19 ? "\n" : " ");
  }
  auto cut = losses(epochs + " --resident"), uploaded = losses(epochs);
  ASSERT_EQ(cut["epoch_loss"].size(), 2u);
  EXPECT_EQ(cut["epoch_loss"], uploaded["epoch_loss"]);
  EXPECT_EQ(cut["loss"], uploaded["loss"]);
  auto compared = losses("compare --devices cpu --preset demo --batch 2 --steps 3 --resident");
  ASSERT_EQ(compared.size(), 2u);
  EXPECT_EQ(compared[0]["loss"], compared[1]["loss"]);
}

TEST_F(Wikitext, ProfilesStepsOnEveryDevice) {
  // The smallest possible steps on the GPU, since a software rasterizer may act as the GPU here.
  for (const char* device : {"cpu", "vulkan:0"}) {
    SCOPED_TRACE(device);
    Outcome run =
        wikitext("train --eager --preset demo --batch 1 --steps 8 --no-eval --profile --profile-steps 2 --device " +
                     std::string(device) + " --trace " + at("trace.json"),
                 "ETNA_STRICT=1");
    ASSERT_EQ(run.code, 0) << run.text;
    EXPECT_THAT(run.text, HasSubstr("profile: 2 steps in"));
    EXPECT_THAT(run.text, HasSubstr("matrix products"));
    auto trace = nlohmann::json::parse(read(at("trace.json")));
    std::map<std::string, int> spans;
    double from = 1e30;
    for (const auto& e : trace["traceEvents"]) {
      if (e["ph"] != "X") continue;
      ++spans[e["cat"]];
      if (e["cat"] == "step") from = std::min(from, e["ts"].get<double>());
    }
    EXPECT_EQ(spans["step"], 2);
    EXPECT_EQ(spans["phase"], 2 * 2) << "backward, optimizer";
    EXPECT_GT(spans["op"], 100);
    EXPECT_EQ(spans["autograd"], 2 * 22) << "every node of the tape";
    if (device == std::string("cpu")) {
      EXPECT_EQ(spans["gpu"], 0);
      continue;
    }
    EXPECT_THAT(run.text, HasSubstr("GPU busy"));
    EXPECT_GT(spans["gpu"], 100);
    EXPECT_EQ(spans["transfer"], 2 * 2);
    for (const auto& e : trace["traceEvents"]) {
      if (e["ph"] != "X" || e["cat"] != "gpu") continue;
      EXPECT_GE(e["ts"].get<double>(), from) << e;
    }
  }
  Outcome picture = wikitext("train --device cpu --preset demo --steps 7 --no-eval --profile --trace " + at("a.svg"));
  EXPECT_EQ(picture.code, 0) << picture.text;
  EXPECT_THAT(read(at("a.svg")), HasSubstr("</svg>"));
  Outcome too_short = wikitext("train --device cpu --preset demo --steps 3 --no-eval --profile");
  EXPECT_EQ(too_short.code, 0);
  EXPECT_THAT(too_short.text, HasSubstr("try more --steps"));
}

TEST_F(Wikitext, ATraceThatCannotBeWrittenIsSaidBeforeTheTraining) {
  Outcome outcome = wikitext("train --device cpu --preset demo --steps 8 --profile --trace " + at("no/trace.json"));
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(error_line(outcome), HasSubstr("trace"));
  EXPECT_THAT(outcome.text, testing::Not(HasSubstr("loss ")));
}

TEST_F(Wikitext, UsageErrorsEndWith2) {
  for (const char* arguments :
       {"", "train --preset huge", "train --steps -1", "fly", "eval", "train --lr nonsense", "train --trace x.json",
        "train --resume", "train --force", "train --profile --profile-steps 0", "train --precision f8",
        "eval --run x --precision f64"}) {
    EXPECT_EQ(wikitext(arguments).code, 2) << arguments;
  }
  EXPECT_EQ(wikitext("--help").code, 0);
}

TEST_F(Wikitext, DeviceErrorsEndWith3) {
  Outcome unknown = wikitext("train --device teapot");
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(error_line(unknown), HasSubstr("teapot"));
  Outcome absent = wikitext("train --device vulkan:17");
  EXPECT_EQ(absent.code, 3);
  EXPECT_THAT(error_line(absent), HasSubstr("vulkan:17"));
  Outcome no_driver =
      wikitext("train --device vulkan", "VK_ICD_FILENAMES=/nonexistent.json VK_DRIVER_FILES=/nonexistent.json");
  EXPECT_EQ(no_driver.code, 3);
  EXPECT_THAT(error_line(no_driver), HasSubstr("vulkan"));
}

TEST_F(Wikitext, DataErrorsEndWith4) {
  Outcome missing = wikitext("train --device cpu --data " + at("nowhere"));
  EXPECT_EQ(missing.code, 4);
  EXPECT_THAT(error_line(missing), HasSubstr("nowhere"));
  std::ofstream(at("short.txt")) << "one line\n";
  EXPECT_EQ(wikitext("train --device cpu --text " + at("short.txt")).code, 4);
  std::ofstream(at("binary.txt"), std::ios::binary) << std::string(1000, '\0');
  EXPECT_EQ(wikitext("train --device cpu --text " + at("binary.txt")).code, 4);
}

TEST_F(Wikitext, AFolderThatCannotBeWrittenIsSaidBeforeTheTraining) {
  std::ofstream(at("file")) << "in the way";
  Outcome outcome = wikitext("train --device cpu --preset demo --steps 1 --out " + at("file") + "/run");
  EXPECT_EQ(outcome.code, 4);
  EXPECT_FALSE(error_line(outcome).empty());
  EXPECT_THAT(outcome.text, testing::Not(HasSubstr("loss ")));
}

TEST_F(Wikitext, DamagedCheckpointsEndWith4) {
  train_into("run");
  const std::string file = at("run/checkpoints/latest.safetensors"), good = read(file);
  EXPECT_EQ(wikitext("generate --device cpu --run " + at("nowhere")).code, 4);
  auto expect_refused = [&](const std::string& bytes, const char* why) {
    std::ofstream(at("damaged"), std::ios::binary) << bytes;
    Outcome outcome = wikitext("generate --device cpu --words 2 --run " + at("damaged"));
    EXPECT_EQ(outcome.code, 4) << outcome.text;
    EXPECT_THAT(error_line(outcome), HasSubstr(why));
  };
  expect_refused(good.substr(0, good.size() / 2), "damaged");
  expect_refused("", "empty");
  std::string other_heads = good;
  const std::size_t heads = other_heads.find("heads = 4");
  ASSERT_NE(heads, std::string::npos);
  other_heads[heads + 8] = '2';
  expect_refused(other_heads, "does not have the hash");
  std::string other_weight = good;
  other_weight[good.size() / 2] ^= 1;
  expect_refused(other_weight, "does not have the hash");
  EXPECT_EQ(wikitext("generate --device cpu --words 2 --run " + file).code, 0) << "a checkpoint by its own name";
}

TEST_F(Wikitext, MemoryThatDoesNotFitEndsWith5) {
  Outcome outcome = wikitext("train --device cpu --preset demo --steps 1 --batch 1000", "ETNA_MEMORY_LIMIT=50000000");
  EXPECT_EQ(outcome.code, 5) << outcome.text;
  EXPECT_THAT(error_line(outcome), HasSubstr("no room for"));
}

TEST_F(Wikitext, ANonFiniteLossEndsWith6) {
  Outcome outcome = wikitext("train --device cpu --preset demo --steps 60 --lr 1e6 --warmup 0 --clip 0 --no-eval");
  EXPECT_EQ(outcome.code, 6) << outcome.text;
  EXPECT_THAT(error_line(outcome), HasSubstr("loss"));
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
  EXPECT_THAT(error_line(again), HasSubstr("holds a run; --resume goes on with it, --force begins anew"));
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

TEST_F(Wikitext, AStoppedRunGoesOnWithTheSameBits) {
  const std::string run =
      "train --device cpu --preset demo --layers 1 --dim 32 --ffn 64 --epochs 20 --batch 64 --eval-every 60 "
      "--dropout 0.1 --steps 160 ";
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
  EXPECT_THAT(error_line(typo), HasSubstr("'layer' is no setting; there are layers"));
}

TEST_F(Wikitext, AccumulatedBatchesMakeOneStep) {
  const std::string run = "train --device cpu --preset demo --steps 6 --no-eval --json " + at("run.json");
  ASSERT_EQ(wikitext(run + " --batch 4 --accumulation 2").code, 0);
  auto two = nlohmann::json::parse(read(at("run.json")));
  EXPECT_EQ(two["tokens"], 6 * 2 * 4 * 64);
  ASSERT_EQ(wikitext(run + " --batch 4 --accumulation 2 --resident").code, 0);
  EXPECT_EQ(nlohmann::json::parse(read(at("run.json")))["loss"], two["loss"]);
}

TEST_F(Wikitext, UnknownWordsOfAPromptAreSaid) {
  train_into("run");
  Outcome outcome =
      wikitext("generate --device cpu --words 2 --prompt 'the quixotic\x1b[31m river' --run " + at("run"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.text, HasSubstr("does not know these words and reads <unk> for them: quixotic"));
  EXPECT_EQ(outcome.text.find('\x1b'), std::string::npos);
}

TEST_F(Wikitext, AFullStandardOutputIsAnError) {
  EXPECT_EQ(wikitext("train --print-config > /dev/full").code, 1);
  Outcome device =
      wikitext("train --device cpu --preset demo --steps 2 --no-eval --json /dev/stdout | grep tokens_per");
  EXPECT_THAT(device.text, HasSubstr("tokens_per_second"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
