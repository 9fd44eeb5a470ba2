#include <sys/wait.h>

#include <cstdio>
#include <string>

#include <gtest/gtest.h>

// The short examples run, and the claim that each checks at its end holds.
namespace {

struct Run {
  std::string name, command;
};

class Examples : public testing::TestWithParam<Run> {};

TEST_P(Examples, KeepTheirClaim) {
  const std::string command = "env -u ETNA_DATA -u ETNA_STRICT " ETNA_BINARY_DIR "/bin/" + GetParam().command + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) said.append(buffer, n);
  const int status = pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command << "\n" << said;
}

INSTANTIATE_TEST_SUITE_P(
    Short, Examples,
    testing::Values(Run{"linear", "linear"}, Run{"custom_op_cpu", "custom_op cpu"},
                    Run{"custom_op_vulkan", "custom_op vulkan:0"}, Run{"gpu_demo", "gpu_demo vulkan:0 64"},
                    Run{"diffusion", "diffusion cpu"}, Run{"dqn", "dqn cpu"}, Run{"vae", "vae cpu"},
                    Run{"char_lstm", "char_lstm cpu"}, Run{"tutorial_cnn", "tutorial_cnn cpu"},
                    Run{"tutorial_transformer", "tutorial_transformer cpu"},
                    Run{"fashion_mnist_cnn", "fashion_mnist --drawn --device cpu --epochs 6 --want 95"},
                    Run{"fashion_mnist_vit", "fashion_mnist --drawn --device cpu --epochs 6 --model vit --want 60"}),
    [](const testing::TestParamInfo<Run>& info) { return info.param.name; });

}  // namespace
