#ifdef ETNA_WIKITEXT

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>

#include <unistd.h>

#include <etna/tensor/io/safetensors.h>

#include "world.h"

// The example in several processes, as a person starts it.
namespace etna {
namespace {

namespace fs = std::filesystem;

class WikitextWorld : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("etna_world_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path at(const std::string& run) const { return folder_ / run; }
  std::string environment() const {
    return "-u ETNA_DATA -u ETNA_DEVICE -u ETNA_MEET -u ETNA_DIST ETNA_RUNS='" + at("runs").string() + "'";
  }
  /// A small model on the embedded corpus: `steps` steps, and no evaluation.
  std::string training(const std::string& run, int steps, const std::string& more) const {
    return "train --preset demo --device cpu --layers 1 --dim 32 --ffn 64 --seq 32 --batch 8 --no-forecast --no-eval "
           "--steps " +
           std::to_string(steps) + " --out '" + at(run).string() + "' " + more;
  }
  Result alone(const std::string& run, int steps) const {
    return run_program(ETNA_WIKITEXT, training(run, steps, ""), environment());
  }
  static std::string launched(int ranks, const std::string& arguments) {
    return "launch -n " + std::to_string(ranks) + " -- '" ETNA_WIKITEXT "' " + arguments;
  }
  Result together(int ranks, const std::string& arguments) const {
    return run_program(ETNA_PROGRAM, launched(ranks, arguments), environment());
  }
  /// Of metrics.csv.
  std::map<int, double> losses(const std::string& run) const {
    std::ifstream in(at(run) / "metrics.csv");
    std::map<int, double> found;
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream fields(line);
      std::string step, seconds, loss;
      std::getline(fields, step, ','), std::getline(fields, seconds, ','), std::getline(fields, loss, ',');
      if (!loss.empty()) found[std::stoi(step)] = std::stod(loss);
    }
    return found;
  }
  std::map<std::string, std::vector<float>> weights(const std::string& run) const {
    std::map<std::string, std::vector<float>> found;
    for (const auto& [name, x] : load_safetensors((at(run) / "checkpoints" / "latest.safetensors").string()))
      if (name.starts_with("model.")) found[name] = x.to_vector<float>();
    return found;
  }
  /// Of the newest checkpoint.
  int step_of(const std::string& run) const {
    int newest = 0;
    for (const auto& entry : fs::directory_iterator(at(run) / "checkpoints")) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-") && name.ends_with(".safetensors"))
        newest = std::max(newest, std::stoi(name.substr(5)));
    }
    return newest;
  }
  /// The process that is this rank of a run that was started; 0: there is none (yet).
  int process_of(const std::string& run, int rank) const {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code ignored;
      if (fs::read_symlink(entry.path() / "exe", ignored) != fs::path(ETNA_WIKITEXT)) continue;
      const auto text = [&](const char* file) {
        std::ifstream in(entry.path() / file);
        return std::string(std::istreambuf_iterator<char>(in), {});
      };
      const std::string wanted = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
      if (text("cmdline").find(at(run).string()) != std::string::npos &&
          text("environ").find(std::string(1, '\0') + wanted + '\0') != std::string::npos)
        return std::stoi(entry.path().filename());
    }
    return 0;
  }
  /// Starts a long run, waits for a checkpoint, and does that to rank 1.
  Result struck(const std::string& run, int signal, const std::string& more) {
    Result result;
    std::thread thread([&] { result = together(2, training(run, 100'000, more)); });
    const fs::path checkpoint = at(run) / "checkpoints" / "latest.safetensors";
    int victim = 0;
    for (int tries = 0; tries < 600 && victim == 0; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (fs::exists(checkpoint)) victim = process_of(run, 1);
    }
    EXPECT_NE(victim, 0);
    if (victim != 0) ::kill(victim, signal);
    thread.join();
    return result;
  }

  fs::path folder_;
};

TEST_F(WikitextWorld, LossesAreThoseOfOneProcess) {
  ASSERT_EQ(alone("one", 30).code, 0);
  const std::map<int, double> expected = losses("one");
  ASSERT_GE(expected.size(), 4u);
  for (const int ranks : {2, 4}) {
    const std::string run = "of" + std::to_string(ranks);
    const Result result = together(ranks, training(run, 30, "--distributed"));
    ASSERT_EQ(result.code, 0) << result.output;
    EXPECT_THAT(result.output, testing::HasSubstr("distributed: " + std::to_string(ranks) + " processes, Open MPI"));
    const std::map<int, double> found = losses(run);
    ASSERT_EQ(found.size(), expected.size());
    // Sums in another order: f32 near 7 has steps of 4.8e-7.
    for (const auto& [step, loss] : expected)
      EXPECT_NEAR(found.at(step), loss, 2e-6) << ranks << " ranks, step " << step;
  }
}

TEST_F(WikitextWorld, AKilledRankIsNamedAndTheRunGoesOnBitForBit) {
  const std::string options = "--epochs 1000 --dropout 0.1 --distributed";
  const Result result = struck("killed", SIGKILL, options + " --checkpoint-seconds 0.2");
  EXPECT_EQ(result.code, 128 + SIGKILL);
  EXPECT_THAT(result.output, testing::ContainsRegex("launch: rank 1 .*, process [0-9]+. was killed by signal 9"));
  EXPECT_THAT(result.output, testing::Not(testing::HasSubstr("error:"))) << "one sentence is enough";
  const int total = step_of("killed") + 20;
  const auto resume = [&](int ranks, int steps) {
    return together(ranks, "train --resume --out '" + at("killed").string() +
                               "' --no-forecast --no-eval --device cpu " + "--distributed --epochs 1000 --steps " +
                               std::to_string(steps));
  };
  const Result resumed = resume(2, total);
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, testing::HasSubstr("resumed: "));
  ASSERT_EQ(together(2, training("whole", total, options)).code, 0);
  const auto whole = weights("whole");
  ASSERT_FALSE(whole.empty());
  EXPECT_TRUE(whole == weights("killed"));
  // With another number of ranks it goes on, too.
  const Result more = resume(4, total + 5);
  ASSERT_EQ(more.code, 0) << more.output;
  EXPECT_THAT(more.output, testing::HasSubstr("step " + std::to_string(total) + " of " + std::to_string(total + 5)));
}

TEST_F(WikitextWorld, DividedStateGoesOnWithAnotherNumberOfRanks) {
  ASSERT_EQ(together(2, training("whole", 20, "--epochs 1000 --distributed")).code, 0);
  const auto whole = weights("whole");
  ASSERT_FALSE(whole.empty());
  for (const int stage : {1, 2, 3}) {
    const std::string run = "zero" + std::to_string(stage), zero = " --zero " + std::to_string(stage);
    Result result = together(2, training(run, 10, "--epochs 1000 --distributed" + zero));
    ASSERT_EQ(result.code, 0) << result.output;
    const auto resume = [&](int steps, const std::string& more) {
      return "train --resume --out '" + at(run).string() + "' --no-forecast --no-eval --device cpu --epochs 1000 " +
             "--steps " + std::to_string(steps) + more;
    };
    result = together(2, resume(20, " --distributed" + zero));
    ASSERT_EQ(result.code, 0) << result.output;
    const auto divided = weights(run);
    ASSERT_EQ(divided.size(), whole.size());
    // From stage 2 on, the norm that gradients are clipped by is taken in another order of sums.
    for (const auto& [name, values] : whole) {
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(divided.at(name)[i], values[i], stage == 1 ? 0 : 1e-5) << name << ", stage " << stage;
    }
    result = together(4, resume(25, " --distributed" + zero));
    EXPECT_EQ(result.code, 0) << result.output;
    result = run_program(ETNA_WIKITEXT, resume(30, ""), environment());
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_THAT(result.output, testing::HasSubstr("step 25 of 30"));
  }
}

TEST_F(WikitextWorld, FullyShardedModelsAreValidatedAndEvaluated) {
  for (const char* kind : {"transformer", "llama --recompute blocks"}) {
    const std::string run = std::string("fsdp_") + kind[0];
    const auto arguments = [&](const std::string& out, const std::string& more) {
      return "train --preset demo --device cpu --arch " + std::string(kind) +
             " --layers 2 --dim 32 --ffn 64 --seq 32 --batch 8 --steps 6 --eval-every 3 --out '" + at(out).string() +
             "' " + more;
    };
    const Result one = run_program(ETNA_WIKITEXT, arguments(run + "_one", ""), environment());
    ASSERT_EQ(one.code, 0) << one.output;
    const Result result = together(2, arguments(run, "--distributed --fsdp"));
    ASSERT_EQ(result.code, 0) << result.output;
    for (const auto& [step, loss] : losses(run + "_one")) EXPECT_NEAR(losses(run).at(step), loss, 1e-5) << kind;
    const auto perplexity = [](const std::string& text) {
      const std::size_t from = text.find("perplexity: ");
      return from == std::string::npos ? text : text.substr(from, text.find('(', from) - from);
    };
    EXPECT_EQ(perplexity(result.output), perplexity(one.output)) << kind;
  }
}

TEST_F(WikitextWorld, AnLstmRemembersOnEachRank) {
  const std::string options = "--arch lstm --hidden 24 --epochs 1000 ";
  ASSERT_EQ(run_program(ETNA_WIKITEXT, training("one", 24, options), environment()).code, 0);
  ASSERT_EQ(together(2, training("two", 24, options + "--distributed --zero 2")).code, 0);
  const std::map<int, double> expected = losses("one"), found = losses("two");
  ASSERT_GE(expected.size(), 3u);
  for (const auto& [step, loss] : expected) EXPECT_NEAR(found.at(step), loss, 1e-5) << step;
  // It goes on from what it remembered, also on another number of ranks.
  ASSERT_EQ(together(4, training("parts", 12, options + "--distributed")).code, 0);
  for (const int steps : {16, 24}) {
    const Result result = together(steps == 16 ? 2 : 1, "train --resume --out '" + at("parts").string() +
                                                            "' --no-forecast --no-eval --device cpu --distributed " +
                                                            "--epochs 1000 --steps " + std::to_string(steps));
    ASSERT_EQ(result.code, 0) << result.output;
  }
  const auto whole = weights("one"), parts = weights("parts");
  ASSERT_FALSE(whole.empty());
  for (const auto& [name, values] : whole) {
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(parts.at(name)[i], values[i], 2e-4) << name;
  }
}

TEST_F(WikitextWorld, AFullDiskNamesTheRankAndKeepsTheLastCheckpoint) {
  ASSERT_EQ(together(2, training("full", 10, "--epochs 1000 --distributed --zero 1")).code, 0);
  const fs::path last = at("full") / "checkpoints" / "step-000000010.safetensors";
  ASSERT_TRUE(fs::exists(last));
  // Files of at most 64 KiB; a checkpoint has more. The signal that says so is ignored, so the write fails.
  const std::string resume = "train --resume --out '" + at("full").string() +
                             "' --no-forecast --no-eval --device cpu --distributed --epochs 1000 --steps ";
  const Result result = run_program(ETNA_PROGRAM,
                                    "launch -n 2 -- sh -c \"trap '' XFSZ; ulimit -f 128; exec " ETNA_WIKITEXT " " +
                                        resume + "20 --checkpoint-seconds 0.001\"",
                                    environment());
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output, testing::HasSubstr("no checkpoint: ")) << "a warning while it runs";
  EXPECT_THAT(result.output, testing::ContainsRegex("error: .*step-000000020.* File too large"));
  EXPECT_THAT(result.output, testing::ContainsRegex("launch: rank 0 .* ended with exit code 4; the other ranks end"));
  EXPECT_TRUE(fs::exists(last));
  EXPECT_EQ(step_of("full"), 10);
  const Result again = together(2, resume + "12");
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, testing::HasSubstr("step 10 of 12"));
}

TEST_F(WikitextWorld, RanksMeetWhereTheOptionSays) {
  const fs::path file = at("meet");
  const Result result =
      together(2, training("met", 2, "--distributed --late-seconds 50 --meet '" + file.string() + "'"));
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_FALSE(fs::exists(file)) << "rank 0 removes it";
  std::ofstream(file) << "somebody else's text\n";
  const Result taken = run_program(
      ETNA_PROGRAM,
      "launch -n 2 --meet '" + file.string() + "' -- '" ETNA_WIKITEXT "' " + training("met2", 2, "--distributed"),
      environment());
  EXPECT_NE(taken.code, 0);
  EXPECT_THAT(taken.output, testing::HasSubstr("is there and holds something else"));
  const Result late = run_program(ETNA_PROGRAM, launched(2, training("late", 2, "--distributed")),
                                  environment() + " ETNA_LATE_SECONDS=soon");
  EXPECT_NE(late.code, 0);
  EXPECT_THAT(late.output, testing::HasSubstr("ETNA_LATE_SECONDS is 'soon'; wanted are seconds above 0"));
  EXPECT_EQ(run_program(ETNA_WIKITEXT, training("none", 2, "--meet :1"), environment()).code, 2) << "without a group";
}

TEST_F(WikitextWorld, BatchesThatCannotBeSharedAreRefused) {
  const Result result = together(3, training("three", 4, "--distributed"));
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output,
              testing::HasSubstr("a batch has 8 sequences, which 3 processes cannot share equally; try --batch 9"));
}

TEST_F(WikitextWorld, RanksWithOtherSettingsAreNamed) {
  const Result result = run_program(ETNA_PROGRAM,
                                    "launch -n 2 -- sh -c 'exec " ETNA_WIKITEXT
                                    " train --preset demo --device cpu --no-forecast "
                                    "--distributed --seed $OMPI_COMM_WORLD_RANK'",
                                    environment());
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output,
              testing::ContainsRegex("rank 1 has another setting than rank 0: seed = 1.*rank 0 has seed = 0"));
}

TEST(Launch, SaysWhatIsWrong) {
  const std::string clean = "-u ETNA_MEET -u ETNA_DIST";
  const Result missing = run_program(ETNA_PROGRAM, "launch -n 2 -- /no/such/program", clean);
  EXPECT_NE(missing.code, 0);
  EXPECT_THAT(missing.output, testing::HasSubstr("launch: /no/such/program cannot be started on "));
  const Result code = run_program(ETNA_PROGRAM, "launch -n 2 -- sh -c 'exit $((OMPI_COMM_WORLD_RANK * 5))'", clean);
  EXPECT_EQ(code.code, 5);
  EXPECT_THAT(code.output,
              testing::ContainsRegex("launch: rank 1 .* ended with exit code 5; the other ranks end, too"));
  EXPECT_EQ(run_program(ETNA_PROGRAM, "launch -n 0 -- true", clean).code, 2);
  EXPECT_EQ(run_program(ETNA_PROGRAM, "launch -n 2", clean).code, 2);
  EXPECT_EQ(run_program(ETNA_PROGRAM, "launch -n 2 --hosts /no/such/file -- true", clean).code, 4);
  const Result both =
      run_program(ETNA_PROGRAM, "launch -n 3 -- sh -c 'echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE'", clean);
  EXPECT_EQ(both.code, 0);
  for (const char* line : {"0 of 3", "1 of 3", "2 of 3"}) EXPECT_THAT(both.output, testing::HasSubstr(line));
}

}  // namespace
}  // namespace etna

#endif
