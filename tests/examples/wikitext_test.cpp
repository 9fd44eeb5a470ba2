
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/data/corpus.h>
#include <etna/train/receipt.h>

#include "wikitext_command.h"

namespace {

namespace fs = std::filesystem;
using namespace wikitext_command;
using testing::HasSubstr;

TEST_F(Wikitext, WritesReceiptsOfItsTrainingAndItsEvaluation) {
  const Outcome trained = wikitext("train --device cpu --preset demo --steps 6 --no-eval --no-forecast --out " +
                                   at("run") + " --receipt " + at("train.json"));
  ASSERT_EQ(trained.code, 0) << trained.text;
  const std::string text = read(at("train.json"));
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["compute_path"], "real");
  EXPECT_EQ(json["numbers"]["steps"], 6);
  EXPECT_EQ(json["totals"]["replays"], 4) << "the first step runs eagerly, the second while it is captured";
  EXPECT_EQ(json["files"][0]["role"], "checkpoint");
  EXPECT_THAT(etna::training::check_receipt(text).mismatches, testing::IsEmpty());

  const Outcome evaluated = wikitext("eval --device cpu --run " + at("run") + " --receipt " + at("eval.json"));
  ASSERT_EQ(evaluated.code, 0) << evaluated.text;
  EXPECT_THAT(etna::training::check_receipt(read(at("eval.json"))).mismatches, testing::IsEmpty());
  EXPECT_EQ(nlohmann::json::parse(read(at("eval.json")))["files"][0]["sha256"], json["files"][0]["sha256"]);
}

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

TEST_F(Wikitext, LstmsLearnAndAreMeasuredWithACache) {
  Outcome trained = wikitext("train --device cpu --preset best_cpu --epochs 1 --warmup 20 --out " + at("run"));
  ASSERT_EQ(trained.code, 0) << trained.text;
  const auto evaluated = [&](const std::string& cache) {
    Outcome outcome = wikitext("eval --device cpu --run " + at("run") + " --json " + at("eval.json") + cache);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    return nlohmann::json::parse(read(at("eval.json")));
  };
  const auto plain = evaluated(" --cache --cache-lambda 0"), cached = evaluated(" --cache --cache-window 300");
  const double test = plain["test_perplexity"];
  EXPECT_LT(test, 100);
  EXPECT_NEAR(test, nlohmann::json::parse(read(at("run/summary.json")))["test_perplexity"].get<double>(), 1e-3 * test);
  EXPECT_NEAR(test, plain["cache"]["test_perplexity"].get<double>(), 0.05 * test) << "one stream, not eight";
  EXPECT_NE(plain["cache"]["test_perplexity"], cached["cache"]["test_perplexity"]);
  EXPECT_EQ(wikitext("generate --device cpu --words 5 --prompt 'the river' --run " + at("run")).code, 0);
  EXPECT_EQ(wikitext("train --device cpu --preset best_cpu --resident --steps 1").code, 2);
  EXPECT_EQ(wikitext("train --device cpu --recipe best --preset tiny").code, 2);
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
  EXPECT_THAT(compared.text, HasSubstr("vulkan:0 f32: matrix products"));
  EXPECT_THAT(compared.text, HasSubstr("loss at           cpu f32     vulkan:0 f32\n1 "));
  EXPECT_THAT(compared.text, HasSubstr("\nconclusion: "));
}

TEST_F(Wikitext, ComparesPrecisionsOverAWholeEpoch) {
  Outcome compared =
      wikitext("compare --devices cpu --precision f32,bf16 --preset demo --batch 64 --steps 4 --epoch --json " +
               at("compare.json") + " --picture " + at("compare.svg"));
  ASSERT_EQ(compared.code, 0) << compared.text;
  auto runs = nlohmann::json::parse(read(at("compare.json")));
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[0]["steps"], 4);
  EXPECT_EQ(runs[1]["steps"], 29) << "all of the text";
  EXPECT_FALSE(runs[1]["epoch_extrapolated"].get<bool>());
  EXPECT_EQ(runs[3]["precision"], "bf16");
  EXPECT_LT(runs[3]["loss_difference"].get<double>(), 2e-2);
  EXPECT_THAT(compared.text, HasSubstr("conclusion: cpu in "));
  EXPECT_THAT(compared.text, testing::Not(HasSubstr("extrapolated")));
  EXPECT_THAT(read(at("compare.svg")),
              testing::AllOf(HasSubstr("<svg "), HasSubstr("cpu bf16"), HasSubstr("op by op")));
  EXPECT_EQ(wikitext("compare --devices cpu --precision f31").code, 2);
}

TEST_F(Wikitext, AResidentCorpusGivesTheSameLossesAndIsUploadedOnce) {
  auto losses = [&](const std::string& arguments) {
    Outcome run = wikitext(arguments + " --force --json " + at("run.json"), "ETNA_STRICT=1");
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
        "train --resume", "train --force --resume --out x", "train --profile --profile-steps 0", "train --precision f8",
        "eval --run x --precision f64"}) {
    EXPECT_EQ(wikitext(arguments).code, 2) << arguments;
  }
  EXPECT_EQ(wikitext("--help").code, 0);
  EXPECT_THAT(wikitext("--version").text, testing::HasSubstr("wikitext, of Etna "));
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
  expect_refused(other_heads, "does not match its hash");
  std::string other_weight = good;
  other_weight[good.size() / 2] ^= 1;
  expect_refused(other_weight, "does not match its hash");
  EXPECT_EQ(wikitext("generate --device cpu --words 2 --run " + file).code, 0) << "a checkpoint by its own name";
}

TEST_F(Wikitext, MemoryThatDoesNotFitEndsWith5) {
  Outcome outcome = wikitext("train --device cpu --preset demo --steps 1 --batch 1000", "ETNA_MEMORY_LIMIT=50000000");
  EXPECT_EQ(outcome.code, 5) << outcome.text;
  EXPECT_THAT(error_line(outcome),
              testing::AllOf(HasSubstr("no room for"), HasSubstr(" MiB weights"), HasSubstr("try a smaller batch")));
}

TEST_F(Wikitext, ANonFiniteLossEndsWith6) {
  Outcome outcome = wikitext("train --device cpu --preset demo --steps 60 --lr 1e6 --warmup 0 --clip 0 --no-eval");
  EXPECT_EQ(outcome.code, 6) << outcome.text;
  EXPECT_THAT(error_line(outcome), HasSubstr("loss"));
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
