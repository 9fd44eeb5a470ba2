#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etna_model.h"

namespace etna {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string bytes_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class EtnaOutput : public EtnaModel {
 protected:
  /// Every command with an option that names an output file, which follows.
  std::vector<std::string> commands() const {
    const std::string file = quoted(model());
    return {"inspect " + file + " --json ",
            with_model("bench") + "-p 2 -n 2 --repeat 1 --json ",
            "doctor --bench --quick --device cpu --json ",
            "data prepare --force --vocab-size 258 --out " + quoted(folder_ / "corpus") + " " +
                quoted(folder_ / "text.txt") + " --json ",
            "quantize --to q8_0 " + file + " --out ",
            "convert " + file + " --out ",
            "runs plot " + quoted(folder_ / "run") + " --svg "};
  }
};

TEST_F(EtnaOutput, ReplacesNoFileThatItDidNotWrite) {
  fs::create_directories(folder_ / "run");
  folder_.write("run/metrics.jsonl", "{\"step\":1,\"seconds\":1,\"loss\":2}\n{\"step\":2,\"seconds\":2,\"loss\":1}\n");
  std::string text;
  for (int line = 0; line < 200; ++line) text += "the river a b c\n";
  folder_.write("text.txt", text);
  const fs::path victim = folder_ / "victim";
  for (const std::string& command : commands()) {
    const bool prepare = command.starts_with("data"), keeps_none = command.ends_with("--out ");
    // --force of prepare is for the folder, too.
    const std::string plain = prepare ? command.substr(0, 13) + command.substr(21) : command;
    for (const char* content : {"GGUF precious", "{\"kind\": \"precious\"}", "<svg>precious</svg>"}) {
      folder_.write("victim", content);
      const Result refused = etna(plain + quoted(victim));
      EXPECT_EQ(refused.code, 2) << plain << refused.output;
      EXPECT_THAT(refused.output, AllOf(HasSubstr("victim: is there already"), HasSubstr("--force"))) << plain;
      EXPECT_EQ(bytes_in(victim), content) << plain;
    }
    const Result forced = etna(command + quoted(victim) + (prepare ? "" : " --force"));
    EXPECT_EQ(forced.code, 0) << command << forced.output;
    EXPECT_THAT(bytes_in(victim), testing::Not(HasSubstr("precious"))) << command;
    fs::remove_all(folder_ / "corpus");
    const Result again = etna(plain + quoted(victim));
    EXPECT_EQ(again.code, keeps_none ? 2 : 0) << "its own output: " << plain << again.output;
  }
}

TEST_F(EtnaOutput, IsNeverTheModelThatIsRead) {
  const std::string before = bytes_in(model());
  for (const std::string& command : commands()) {
    if (!command.starts_with("inspect") && !command.starts_with("bench") && !command.ends_with("--out ")) continue;
    const Result refused = etna(command + quoted(model()) + " --force");
    EXPECT_EQ(refused.code, 2) << command << refused.output;
    EXPECT_THAT(refused.output, HasSubstr("is a file that is read")) << command;
    EXPECT_EQ(bytes_in(model()), before) << command;
  }
}

TEST_F(EtnaOutput, OfAChatReplacesOnlyAnEarlierConversation) {
  const fs::path victim = folder_.write("victim.md", "precious\n");
  std::ofstream(folder_ / "lines") << "/save " << victim.string() << "\n/save " << (folder_ / "talk.md").string()
                                   << "\n/save " << (folder_ / "talk.md").string() << "\n/save " << model().string()
                                   << "\n/exit\n";
  const std::string before = bytes_in(model());
  const Result chat = etna(with_model("chat") + "--format chatml < " + quoted(folder_ / "lines"));
  EXPECT_THAT(chat.output, AllOf(HasSubstr("victim.md already exists"), HasSubstr("messages are in")));
  EXPECT_EQ(bytes_in(victim), "precious\n");
  EXPECT_EQ(bytes_in(model()), before);
}

}  // namespace
}  // namespace etna
