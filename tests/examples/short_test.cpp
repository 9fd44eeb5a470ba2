#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include <etna/train/receipt.h>

#include "runner/run_tests.h"
#include "wikitext_command.h"

// The short examples run, and the claim that each checks at its end holds.
namespace {

using wikitext_command::Outcome;

struct Run {
  std::string name, command;
};

Outcome run(const std::string& command) {
  return wikitext_command::outcome_of("env -u ETNA_DATA -u ETNA_STRICT " ETNA_BINARY_DIR "/bin/" + command);
}

class Examples : public testing::TestWithParam<Run> {};

TEST_P(Examples, KeepTheirClaim) {
  const std::string& name = GetParam().name;
  if ((name == "fashion_mnist_vit" || name == "char_lstm") && !etna::test_all()) GTEST_SKIP() << "in ./run test --all";
  const Outcome ended = run(GetParam().command);
  EXPECT_EQ(ended.code, 0) << ended.text;
}

INSTANTIATE_TEST_SUITE_P(
    Short, Examples,
    testing::Values(Run{"linear", "linear"}, Run{"custom_op_cpu", "custom_op cpu"},
                    Run{"custom_op_vulkan", "custom_op vulkan:0"}, Run{"gpu_demo", "gpu_demo vulkan:0 64"},
                    Run{"diffusion", "diffusion cpu"}, Run{"dqn", "dqn cpu"}, Run{"vae", "vae cpu"},
                    Run{"char_lstm", "char_lstm cpu"}, Run{"tutorial_cnn", "tutorial_cnn cpu"},
                    Run{"tutorial_transformer", "tutorial_transformer cpu"},
                    Run{"mlp", "mlp cpu " ETNA_BINARY_DIR "/runs/example_mlp"}, Run{"encoder", "encoder cpu"},
                    Run{"gan", "gan cpu"}, Run{"bpe_lstm", "bpe_lstm cpu"},
                    Run{"fashion_mnist_cnn", "fashion_mnist --drawn --device cpu --epochs 6 --want 95"},
                    Run{"fashion_mnist_vit", "fashion_mnist --drawn --device cpu --epochs 6 --model vit --want 60"}),
    [](const testing::TestParamInfo<Run>& info) { return info.param.name; });

std::filesystem::path stories260k() {
  if (const char* folder = std::getenv("ETNA_STORIES")) return folder;
  const char* data = std::getenv("ETNA_DATA");
  return data == nullptr ? std::filesystem::path() : std::filesystem::path(data).parent_path() / "stories260K";
}

TEST(Lora, FineTunesStories260K) {
  const std::filesystem::path model = stories260k() / "checkpoint_legacy.bin";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << "stories260K is not there";
  const Outcome ended = run("lora cpu " + model.string() + " " ETNA_BINARY_DIR "/example_lora.gguf");
  EXPECT_EQ(ended.code, 0) << ended.text;
}

TEST(Lora, WritesAReceipt) {
  const std::filesystem::path model = stories260k() / "checkpoint_legacy.bin", file = ETNA_BINARY_DIR "/lora.json";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << "stories260K is not there";
  std::filesystem::remove(file);
  const std::string command = "lora cpu " + model.string() + " " ETNA_BINARY_DIR "/example_lora.gguf --receipt ";
  const Outcome ended = run(command + file.string());
  if (ended.text.find("libcrypto") != std::string::npos) GTEST_SKIP() << "this build has no libcrypto";
  ASSERT_EQ(ended.code, 0) << ended.text;
  std::ifstream written(file);
  const std::string text{std::istreambuf_iterator<char>(written), {}};
  const etna::training::ReceiptCheck check = etna::training::check_receipt(text);
  EXPECT_TRUE(check.mismatches.empty()) << check.mismatches.front();
  EXPECT_EQ(check.files, 2u) << "the model and the adapter";
  EXPECT_NE(text.find("\"final_loss\""), std::string::npos);
  EXPECT_NE(run(command + model.string()).code, 0) << "the model is no receipt, and is not replaced";
}

TEST(Starters, SayWhatIsWrongWithTheirArguments) {
  for (const char* program : {"mlp", "encoder", "gan", "bpe_lstm"}) {
    const Outcome ended = run(std::string(program) + " vulkan:77");
    EXPECT_EQ(ended.code, 3) << ended.text;
    EXPECT_NE(ended.text.find("vulkan:77"), std::string::npos) << ended.text;
  }
  const Outcome file = run("bpe_lstm cpu " ETNA_BINARY_DIR "/none.txt");
  EXPECT_EQ(file.code, 3) << file.text;
  EXPECT_NE(file.text.find("none.txt"), std::string::npos) << file.text;
  const Outcome model = run("lora cpu " ETNA_BINARY_DIR "/none.bin " ETNA_BINARY_DIR "/example_lora_none.gguf");
  EXPECT_EQ(model.code, 3) << model.text;
  EXPECT_NE(model.text.find("none.bin"), std::string::npos) << model.text;
}

}  // namespace
