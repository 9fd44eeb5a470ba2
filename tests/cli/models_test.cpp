#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "etna_program.h"

namespace etna {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A model of random weights, of which one may be replaced.
fs::path model(const TemporaryFolder& folder, double damaged = 0) {
  manual_seed(5);
  const fs::path path = folder / "model.gguf";
  Tensor norm = ones({256});
  norm.mutable_data<float>()[7] = static_cast<float>(damaged == 0 ? 1 : damaged);
  save_gguf(path,
            {{"token_embd.weight", randn({64, 256})},
             {"blk.0.attn_q.weight", randn({256, 256})},
             {"blk.0.odd.weight", randn({8, 48})},
             {"output_norm.weight", norm}},
            {.metadata = {{"general.architecture", "llama"}, {"name\x1b[31m", "red\x1b[0m"}}});
  return path;
}

TEST(EtnaInspect, ShowsWhatAFileHolds) {
  const TemporaryFolder folder;
  const Result shown = etna("inspect --check --json " + quoted(folder / "all.json") + " " + quoted(model(folder)));
  ASSERT_EQ(shown.code, 0) << shown.output;
  EXPECT_THAT(shown.output,
              AllOf(HasSubstr("GGUF version 3, 4 tensors, 82,560 weights"), HasSubstr("general.architecture"),
                    HasSubstr("'llama'"), HasSubstr("[256, 256]"), HasSubstr("256.0 KiB"),
                    HasSubstr("this build reads all of its tensors"), HasSubstr("nothing suspicious")));
  EXPECT_THAT(shown.output, Not(HasSubstr("\x1b")));
  const auto json = nlohmann::json::parse(std::ifstream(folder / "all.json"));
  EXPECT_EQ(json["tensors"][1]["shape"], nlohmann::json({256, 256}));
  EXPECT_EQ(json["tensors"][1]["format"], "F32");
}

TEST(EtnaInspect, ReadsSafetensors) {
  const TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors", NamedTensors{{"w", ones({3, 4}).to(bf16)}, {"ids", arange(5)}});
  for (const fs::path& path : {folder / "model.safetensors", folder.path()}) {
    const Result shown = etna("inspect --check " + quoted(path));
    EXPECT_EQ(shown.code, 0) << shown.output;
    EXPECT_THAT(shown.output, AllOf(HasSubstr("safetensors, 2 tensors"), HasSubstr("BF16"), HasSubstr("[3, 4]")));
  }
}

TEST(EtnaInspect, SuspiciousWeightsEndWith8) {
  const TemporaryFolder folder;
  const fs::path path = model(folder, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(etna("inspect " + quoted(path)).code, 0);
  const Result shown = etna("inspect --check " + quoted(path));
  EXPECT_EQ(shown.code, 8) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("output_norm.weight: 1 value is NaN or infinite"));
  const Result refused = etna("quantize --to q8_0 --out " + quoted(folder / "q.gguf") + " " + quoted(path));
  EXPECT_EQ(refused.code, 8) << refused.output;
  EXPECT_FALSE(fs::exists(folder / "q.gguf"));
}

TEST(EtnaInspect, RefusesWhatItCannotRead) {
  const TemporaryFolder folder;
  const fs::path good = model(folder);
  std::ifstream in(good, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  for (const auto& [name, content] : {std::pair<const char*, std::string>{"empty", ""},
                                      {"text", "no model at all\n"},
                                      {"half.gguf", bytes.substr(0, bytes.size() / 2)},
                                      {"header.gguf", bytes.substr(0, 40)}}) {
    const Result shown = etna("inspect " + quoted(folder.write(name, content)));
    EXPECT_EQ(shown.code, 4) << shown.output;
    EXPECT_THAT(shown.output, AllOf(HasSubstr("etna: "), HasSubstr(name)));
    EXPECT_EQ(etna("quantize --to q8_0 --out " + quoted(folder / "q.gguf") + " " + quoted(folder / name)).code, 4);
    EXPECT_FALSE(fs::exists(folder / "q.gguf"));
  }
  EXPECT_EQ(etna("inspect " + quoted(folder / "nowhere")).code, 4);
}

TEST(EtnaQuantize, WritesMatricesInFewerBits) {
  const TemporaryFolder folder;
  const fs::path from = model(folder), to = folder / "q4.gguf";
  const Result run = etna("quantize --to q4_k --out " + quoted(to) + " " + quoted(from));
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("bits a weight"), HasSubstr("signal to noise ")));
  const io::GgufFile file(to);
  EXPECT_EQ(file.tensor("blk.0.attn_q.weight").format->name, "Q4_K");
  EXPECT_EQ(file.tensor("token_embd.weight").format->name, "Q6_K");
  EXPECT_EQ(file.tensor("blk.0.odd.weight").format->name, "F16") << "rows of 48 are no whole blocks";
  EXPECT_EQ(file.tensor("output_norm.weight").format->name, "F32");
  EXPECT_EQ(file.integer("general.file_type"), 15);
  EXPECT_EQ(file.string("general.architecture"), "llama");
  const Tensor exact = load_gguf(from).at("blk.0.attn_q.weight"), again = file.load("blk.0.attn_q.weight");
  EXPECT_LT((exact - again).square().mean().item<double>(), 0.01);

  const Result pure = etna("quantize --pure --force --to Q4_K --out " + quoted(to) + " " + quoted(from));
  ASSERT_EQ(pure.code, 0) << pure.output;
  EXPECT_EQ(io::GgufFile(to).tensor("token_embd.weight").format->name, "Q4_K");
}

/// I2_S has one scale for a tensor, behind its blocks.
TEST(EtnaQuantize, WritesTernaryWeights) {
  const TemporaryFolder folder;
  manual_seed(5);
  const Tensor signs = (rand({256, 256}) * 3).floor() - 1.0;
  save_gguf(folder / "model.gguf",
            {{"token_embd.weight", randn({64, 256})},
             {"blk.0.attn_q.weight", signs * 0.37},
             {"blk.0.odd.weight", randn({8, 48})},
             {"output_norm.weight", ones({256})}},
            {.metadata = {{"general.architecture", "llama"}}});
  const fs::path to = folder / "i2_s.gguf";
  const Result run = etna("quantize --to i2_s --out " + quoted(to) + " " + quoted(folder / "model.gguf"));
  ASSERT_EQ(run.code, 0) << run.output;
  const io::GgufFile file(to);
  EXPECT_EQ(file.tensor("blk.0.attn_q.weight").format->name, "I2_S");
  EXPECT_EQ(file.tensor("blk.0.attn_q.weight").bytes, 256u * 256 / 4 + 32);
  EXPECT_EQ(file.tensor("token_embd.weight").format->name, "Q6_K");
  EXPECT_EQ(file.tensor("blk.0.odd.weight").format->name, "F16");
  EXPECT_LT((file.load("blk.0.attn_q.weight") - signs * 0.37).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(etna("inspect --check " + quoted(to)).code, 0);

  // Written again, the bytes are the same.
  const Result again = etna("quantize --to i2_s --out " + quoted(folder / "again.gguf") + " " + quoted(to));
  ASSERT_EQ(again.code, 0) << again.output;
  const io::MappedBytes one = file.bytes("blk.0.attn_q.weight"),
                        two = io::GgufFile(folder / "again.gguf").bytes("blk.0.attn_q.weight");
  EXPECT_TRUE(std::ranges::equal(one.span(), two.span()));
  const Result back = etna("quantize --to f32 --out " + quoted(folder / "f32.gguf") + " " + quoted(to));
  ASSERT_EQ(back.code, 0) << back.output;
  EXPECT_LT((load_gguf(folder / "f32.gguf").at("blk.0.attn_q.weight") - signs * 0.37).abs().max().item<double>(), 1e-6);
}

TEST(EtnaQuantize, RefusesWrongUsage) {
  const TemporaryFolder folder;
  const std::string from = quoted(model(folder));
  const Result format = etna("quantize --to q7 --out " + quoted(folder / "x") + " " + from);
  EXPECT_EQ(format.code, 2);
  EXPECT_THAT(format.output, AllOf(HasSubstr("--to is 'q7'"), HasSubstr("Q4_K")));
  EXPECT_EQ(etna("quantize --to q8_0 --force --out " + from + " " + from).code, 2) << "the file itself";
  folder.write("there", "kept");
  const Result there = etna("quantize --to q8_0 --out " + quoted(folder / "there") + " " + from);
  EXPECT_EQ(there.code, 2);
  EXPECT_THAT(there.output, HasSubstr("--force"));
  EXPECT_EQ(etna("quantize --to q8_0 --out " + quoted(folder / "no" / "folder") + " " + from).code, 4);
}

}  // namespace
}  // namespace etna
