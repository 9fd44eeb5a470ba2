#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include <etna/tensor/io/safetensors.h>

#include "data/temporary_folder.h"
#include "runner/run_tests.h"

// A training run that is killed again and again at random moments ends with the weights of one that was never stopped.
// ETNA_KILLS=N kills N times (default 12), ETNA_KILL_DEVICE chooses the device (default cpu).
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

/// Starts the example without output. @return its process
pid_t start(const std::string& arguments) {
  const pid_t child = fork();
  if (child != 0) return child;
  const std::string command = "exec env -u ETNA_DATA -u ETNA_STRICT ETNA_RUNS=" ETNA_BINARY_DIR "/runs " ETNA_BINARY_DIR
                              "/bin/wikitext " +
                              arguments + " > /dev/null 2>&1";
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

/// Kills the process after so many milliseconds, unless it ends before. @return the exit code, or -signal
int wait_or_kill(pid_t child, int milliseconds, int signal) {
  int status = 0;
  for (int waited = 0; waited < milliseconds; ++waited) {
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    usleep(1000);
  }
  kill(child, signal);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::map<std::string, std::string> final_state(const fs::path& run) {
  std::map<std::string, std::string> state;
  for (const auto& [name, x] : etna::load_safetensors(run / "checkpoints" / "step-000000150.safetensors")) {
    const std::size_t bytes = static_cast<std::size_t>(x.numel()) * etna::item_size(x.dtype());
    if (name != "seconds.value") state[name].assign(static_cast<const char*>(x.raw_data()), bytes);
  }
  return state;
}

TEST(Kills, EveryResumedRunEndsWithTheBitsOfOneThatWasNotStopped) {
  const int kills = std::stoi(variable("ETNA_KILLS", etna::test_all() ? "12" : "6"));
  const std::string device = variable("ETNA_KILL_DEVICE", "cpu"),
                    run =
                        "train --device " + device +
                        " --preset demo --layers 1 --dim 32 --ffn 64 --batch 64 --epochs 10 --steps 150 --dropout 0.1 "
                        "--eval-every 40 --checkpoint-seconds 0.02 --out ",
                    resume = "train --device " + device + " --resume --checkpoint-seconds 0.02 --out ";
  const TemporaryFolder folder;
  ASSERT_EQ(wait_or_kill(start(run + (folder / "through").string()), 600000, SIGKILL), 0);
  const auto through = final_state(folder / "through");
  std::mt19937 random(11);
  int killed = 0, resumed = 0, begun = 0, whole = 0;
  while (killed < kills) {
    const fs::path out = folder / "killed";
    fs::remove_all(out);
    bool held = false;
    for (;;) {
      // A run killed before its first checkpoint begins anew.
      held = held || (fs::exists(out / "checkpoints") && !fs::is_empty(out / "checkpoints") &&
                      fs::exists(out / "checkpoints" / "latest.safetensors"));
      ++(held ? resumed : begun);
      const int code = wait_or_kill(start(held ? resume + out.string() : run + out.string() + " --force"),
                                    static_cast<int>(20 + random() % 1200), random() % 8 == 0 ? SIGINT : SIGKILL);
      if (code == 0) break;
      ++killed;
      ASSERT_TRUE(code == -SIGKILL || code == 130 || code == -SIGINT) << "exit code " << code;
    }
    ++whole;
    ASSERT_EQ(final_state(out), through) << "after " << killed << " kills";
  }
  std::printf("%d kills, %d runs resumed, %d begun, %d ended with the same bits\n", killed, resumed, begun, whole);
}

}  // namespace
