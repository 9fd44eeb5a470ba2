#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/temporary_folder.h"
#include "data_program.h"

namespace etna {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

TEST(EtnaData, PreparesATextAndShowsIt) {
  const TemporaryFolder folder;
  const std::string text = quoted(folder.write("a.txt", lines(200))), out = quoted(folder / "out");
  Result run = prepare(text + " --vocab-size 270 --json " + quoted(folder / "all.json") + " --out " + out);
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("1 file, 3,890 bytes, in "));
  EXPECT_THAT(run.output, HasSubstr("tokenizer: bpe, 270 tokens, hash "));
  EXPECT_THAT(run.output, HasSubstr("wikitext train --data " + (folder / "out").string()));
  const json manifest = json::parse(read(folder / "all.json"));
  EXPECT_EQ(manifest, json::parse(read(folder / "out" / "manifest.json")));
  EXPECT_EQ(manifest["splits"]["train"]["lines"].get<int>() + manifest["splits"]["valid"]["lines"].get<int>() +
                manifest["splits"]["test"]["lines"].get<int>(),
            200);
  EXPECT_EQ(manifest["sources"][0]["bytes"], 3890);
  EXPECT_EQ(manifest["tokenizer"]["vocab_size"], 270);

  Result shown = etna("data inspect --verify --tokens 12 " + out);
  ASSERT_EQ(shown.code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("train begins: the river 0 flows\\nthe river"));
  EXPECT_THAT(shown.output, HasSubstr("all ids have the hashes that they were written with"));
  EXPECT_THAT(shown.output, HasSubstr((folder / "a.txt").string()));
  Result file = etna("data inspect " + quoted(folder / "out" / "valid.tokens"));
  ASSERT_EQ(file.code, 0) << file.output;
  EXPECT_THAT(file.output, HasSubstr("vocabulary         270\n"));
  EXPECT_THAT(file.output, HasSubstr("begins             the river "));
  fs::remove(folder / "out" / "tokenizer.json");
  EXPECT_THAT(etna("data inspect --tokens 3 " + quoted(folder / "out" / "valid.tokens")).output,
              HasSubstr("there is no tokenizer.json beside it"));
}

TEST(EtnaData, PreparesWords) {
  const TemporaryFolder folder;
  Result run = prepare(quoted(folder.write("a.txt", lines(200))) + " --tokenizer word --min-frequency 2 --out " +
                       quoted(folder / "out"));
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("tokenizer: word, 5 tokens"));
  EXPECT_THAT(run.output, HasSubstr("20.00 %")) << "a fifth of the tokens are numbers, each of which occurs once";
}

TEST(EtnaData, EndsWith2ForWrongUsage) {
  const TemporaryFolder folder;
  const std::string text = quoted(folder.write("a.txt", lines(200))), out = " --out " + quoted(folder / "out");
  for (const std::string& arguments :
       {std::string("data"), std::string("data fly"), std::string("data prepare"), "data prepare " + text,
        "data prepare" + out, "data prepare " + text + out + " --valid 0.6", "data prepare " + text + out + " --test x",
        "data prepare " + text + out + " --vocab-size 100", "data prepare " + text + out + " --vocab-size -1",
        "data prepare " + text + out + " --min-frequency 0", std::string("data inspect"),
        "data inspect " + text + " --tokens -1",
        "data prepare " + text + out + " --tokenizer x.json --vocab-size 300"}) {
    Result run = etna(arguments);
    EXPECT_EQ(run.code, 2) << arguments << "\n" << run.output;
  }
  EXPECT_EQ(etna("data prepare --help").code, 0);
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(EtnaData, EndsWith4ForTextsThatCannotBeUsed) {
  const TemporaryFolder folder;
  const fs::path text = folder.write("a.txt", lines(200));
  const std::string out = " --out " + quoted(folder / "out");
  const auto refuses = [&](const std::string& arguments, const std::string& why) {
    Result run = etna(arguments);
    EXPECT_EQ(run.code, 4) << arguments << "\n" << run.output;
    EXPECT_THAT(run.output, HasSubstr(why));
    EXPECT_FALSE(fs::exists(folder / "out")) << arguments;
  };
  refuses("data prepare " + quoted(folder / "none") + out, "none: there is no such file or folder");
  refuses("data prepare " + quoted(folder.write("bad.txt", "\xFF\n")) + out, "bad.txt: is not UTF-8 text");
  refuses("data prepare " + quoted(text) + out + " --tokenizer gpt2", "'gpt2' is neither word nor bpe");
  refuses("data prepare " + quoted(text) + out + " --json " + quoted(text), "which is read");
  refuses("data prepare " + quoted(text) + out + " --json " + quoted(folder / "out" / "x.json"), "lies in --out");
  refuses("data prepare " + quoted(text) + out + " --json /nowhere/x.json", "cannot be written");
  refuses("data prepare " + quoted(folder.path()) + out, "which is read");
  refuses("data inspect " + quoted(text), "is not an Etna token file");
  refuses("data inspect " + quoted(folder.path()), "has no manifest.json");
  refuses("data inspect " + quoted(folder / "none"), "there is no such file");
  EXPECT_EQ(read(text), lines(200));
}

TEST(EtnaData, SaysWhichFilesOfAFolderAreLeftOut) {
  const TemporaryFolder folder, out;
  folder.write("a.txt", lines(200));
  folder.write("empty.txt", "");
  Result run = prepare(quoted(folder.path()) + " --out " + quoted(out.path()));
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("left out: " + (folder / "empty.txt").string() + " is empty"));
  Result again = prepare(quoted(folder.path()) + " --out " + quoted(out.path()));
  EXPECT_EQ(again.code, 4);
  EXPECT_THAT(again.output, HasSubstr("already contains a corpus; --force replaces it"));
  EXPECT_EQ(prepare(quoted(folder.path()) + " --force --out " + quoted(out.path())).code, 0);
}

TEST(EtnaData, FindsDamagedIds) {
  const TemporaryFolder folder;
  ASSERT_EQ(prepare(quoted(folder.write("a.txt", lines(200))) + " --out " + quoted(folder / "out")).code, 0);
  std::string ids = read(folder / "out" / "train.tokens");
  ids[100] ^= 1;
  folder.write("out/train.tokens", ids);
  EXPECT_EQ(etna("data inspect " + quoted(folder / "out")).code, 0) << "they are not read";
  Result run = etna("data inspect --verify " + quoted(folder / "out"));
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.output, HasSubstr("train.tokens: its ids do not match their hash"));
}

}  // namespace
}  // namespace etna
