#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/output_file.h>
#include <etna/train/internal/sha256.h>

#include "etna_model.h"

namespace etna {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void change_a_byte(const std::filesystem::path& path) {
  std::string bytes = content_of(path);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
}

class EtnaReceipt : public EtnaModel {
 protected:
  void SetUp() override {
    EtnaModel::SetUp();
    try {
      training::Sha256();
    } catch (const Error&) {
      GTEST_SKIP() << "this build has no libcrypto";
    }
  }
  std::filesystem::path receipt() const { return folder_ / "receipt.json"; }
  /// Writes a few tokens, with a receipt.
  Result run(const std::string& device) const {
    return etna("run --receipt " + quoted(receipt()) + " -m " + quoted(model()) + " --device " + device +
                " -p 'the river' -n 5 --temperature 0 --seed 7");
  }
  Result check(const std::string& more = "") const { return etna("receipt check " + quoted(receipt()) + more); }
};

TEST_F(EtnaReceipt, OfARunOnTheCpuIsVerified) {
  const Result ran = run("cpu");
  ASSERT_EQ(ran.code, 0) << ran.output;
  const auto json = nlohmann::json::parse(content_of(receipt()));
  EXPECT_EQ(json["compute_path"], "real");
  EXPECT_EQ(json["seeds"]["sampling"], 7);
  EXPECT_EQ(json["command"][1], "run");
  EXPECT_EQ(json["files"][0]["role"], "model");
  EXPECT_EQ(json["numbers"]["tokens_written"], 5);
  EXPECT_GT(json["totals"]["replays"], 0) << "tokens are written by replays";
  EXPECT_THAT(json["program"]["commit"].get<std::string>(), testing::MatchesRegex("unknown|[0-9a-f]+(-dirty)?"));

  const Result checked = check();
  EXPECT_EQ(checked.code, 0) << checked.output;
  EXPECT_THAT(checked.output, HasSubstr("verified: "));
  const Result shown = etna("receipt show " + quoted(receipt()));
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.output, HasSubstr("compute path  real"));

  // One written before is replaced; another file is not.
  EXPECT_EQ(run("cpu").code, 0);
  io::write_file(receipt(), "notes");
  EXPECT_EQ(run("cpu").code, 2);
  EXPECT_EQ(content_of(receipt()), "notes");
}

TEST_F(EtnaReceipt, CheckFindsAChangedByteInTheModelAndInTheReceipt) {
  ASSERT_EQ(run("cpu").code, 0);
  change_a_byte(model());
  Result checked = check();
  EXPECT_EQ(checked.code, 1);
  EXPECT_THAT(checked.output, HasSubstr("mismatch: model "));
  change_a_byte(model());
  EXPECT_EQ(check().code, 0);

  std::string text = content_of(receipt());
  const std::size_t at = text.find("\"compute_path\": \"real\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(at + 17, 4, "none");
  io::write_file(receipt(), text);
  checked = check();
  EXPECT_EQ(checked.code, 1);
  EXPECT_THAT(checked.output, HasSubstr("mismatch: content"));
  EXPECT_THAT(checked.output, HasSubstr("mismatch: compute_path: is 'none', the counts say 'real'"));
}

TEST_F(EtnaReceipt, CheckFindsMissingFilesUnlessTheyWereMoved) {
  ASSERT_EQ(run("cpu").code, 0);
  std::filesystem::create_directory(folder_ / "moved");
  std::filesystem::rename(model(), folder_ / "moved" / "model.gguf");
  EXPECT_EQ(check().code, 1);
  EXPECT_EQ(check(" --root " + quoted(folder_ / "moved")).code, 0);
}

TEST_F(EtnaReceipt, WhatIsNoReceiptEndsWithCode4) {
  EXPECT_EQ(etna("receipt check " + quoted(model())).code, 4);
  EXPECT_EQ(etna("receipt show " + quoted(folder_ / "none.json")).code, 4);
  EXPECT_EQ(etna("receipt check " + quoted(folder_.path())).code, 4);
  EXPECT_EQ(etna("receipt").code, 2);
  EXPECT_EQ(etna("receipt check").code, 2);
}

TEST_F(EtnaReceipt, OtherCommandsWriteOneToo) {
  const std::filesystem::path text = folder_.write("text.txt", "the river a b c. the river a b c.");
  const std::string with = " --receipt " + quoted(receipt()) + " -m " + quoted(model()) + " --device cpu ";
  ASSERT_EQ(etna("perplexity" + with + "-f " + quoted(text)).code, 0);
  auto json = nlohmann::json::parse(content_of(receipt()));
  EXPECT_EQ(json["files"][1]["role"], "text");
  EXPECT_GT(json["numbers"]["perplexity"], 1);
  EXPECT_EQ(check().code, 0);
  ASSERT_EQ(etna("bench" + with + "-p 4 -n 2 --repeat 1").code, 0);
  json = nlohmann::json::parse(content_of(receipt()));
  EXPECT_GT(json["numbers"]["cpu tokens_written_per_second"], 0);
  EXPECT_EQ(check().code, 0);
}

#ifdef ETNA_HAS_VULKAN
TEST_F(EtnaReceipt, OfARunOnVulkanNamesItsKernels) {
  const Result ran = run("vulkan:0");
  if (ran.code == 3) GTEST_SKIP() << ran.output;
  ASSERT_EQ(ran.code, 0) << ran.output;
  const auto json = nlohmann::json::parse(content_of(receipt()));
  const bool software = json["device"]["selected"]["kind"] == "software";
  EXPECT_EQ(json["compute_path"], software ? "software" : "real");
  bool replayed = false;
  for (const auto& row : json["kernels"]) replayed = replayed || (row["device"] == "vulkan:0" && row["replayed"] > 0);
  EXPECT_TRUE(replayed);
  EXPECT_EQ(check().code, 0);
}
#endif

}  // namespace
}  // namespace etna
