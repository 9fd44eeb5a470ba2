#include <etna/data/corpora/prepared_corpus.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <etna/data/corpus.h>
#include <etna/data/tokenizers/bpe_tokenizer.h>
#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/device/error.h>

#include "temporary_folder.h"

namespace etna::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Ids = std::vector<std::int32_t>;

std::string bytes_of(const fs::path& file) {
  std::stringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

Ids ids_of(const PreparedSplit& split) {
  Ids ids(static_cast<std::size_t>(split.tokens.size()));
  split.tokens.ids(0, split.tokens.size(), ids.data());
  return ids;
}

std::string text_of(const PreparedCorpus& corpus, int split) {
  return corpus.tokenizer->decode(ids_of(corpus.split(split)));
}

std::string lines(int from, int to, const char* end = "\n") {
  std::string text;
  for (int i = from; i < to; ++i) text += "line " + std::to_string(i) + " of the text" + end;
  return text;
}

PreparedCorpus prepare(const std::vector<FilePath>& inputs, const fs::path& folder,
                       const PrepareOptions& options = {}) {
  return prepare_corpus(inputs, folder, options);
}

PrepareOptions words() {
  PrepareOptions options;
  options.tokenizer = "word";
  return options;
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

TEST(PrepareCorpus, OfBytePairsGivesTheTextBack) {
  const TemporaryFolder folder;
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const std::string text = lines(0, 400, end);
    PrepareOptions options;
    options.overwrite = true;
    options.vocab_size = 300;
    const PreparedCorpus corpus = prepare({folder.write("a.txt", text)}, folder / "out", options);
    EXPECT_EQ(text_of(corpus, 0) + text_of(corpus, 1) + text_of(corpus, 2), text + "<|endoftext|>");
    EXPECT_EQ(corpus.tokenizer->size(), 300u);
    EXPECT_EQ(corpus.train.text.lines + corpus.valid.text.lines + corpus.test.text.lines, 400);
    EXPECT_NEAR(static_cast<double>(corpus.valid.text.lines), 20, 1);
    EXPECT_EQ(corpus.test.text.words, 5 * corpus.test.text.lines);
    for (int split = 0; split < 3; ++split) corpus.split(split).tokens.verify();
    EXPECT_EQ(text_of(corpus, 1).substr(0, 5), "line ");
  }
}

TEST(PrepareCorpus, OfWordsHasTheIdsOfReadWikitext) {
  const TemporaryFolder folder;
  folder.write("wiki.train.tokens", " \n = A = \n \n the <unk> river \n");
  folder.write("wiki.valid.tokens", " the valley \n");
  folder.write("wiki.test.tokens", " river A \n");
  const Corpus read = read_wikitext(folder.path());
  const TemporaryFolder out;
  const PreparedCorpus corpus = prepare({folder.path()}, out.path(), words());
  EXPECT_EQ(ids_of(corpus.train), read.train);
  EXPECT_EQ(ids_of(corpus.test), read.test);
  EXPECT_EQ(corpus.tokenizer->decode(ids_of(corpus.valid)), "the <unk>\n") << "a word that training never shows";
  EXPECT_EQ(corpus.valid.text.unknown, 1);
  EXPECT_EQ(corpus.valid.text.words_and_lines(), 3);
  EXPECT_TRUE(corpus.recipe.own_splits);
  ASSERT_EQ(corpus.sources.size(), 3u);
  EXPECT_EQ(corpus.sources[1].split, "valid");
  EXPECT_EQ(corpus.sources[1].text.bytes, 13);
}

TEST(PrepareCorpus, OfWordsHasTheIdsOfReadWikitextForWikiText2) {
  const char* data = std::getenv("ETNA_TEST_DATA");
  if (!data) data = std::getenv("ETNA_DATA");
  if (!data) GTEST_SKIP() << "set ETNA_DATA to a folder with WikiText-2 (tools/get-wikitext2)";
  const TemporaryFolder out;
  const Corpus read = read_wikitext(data);
  const PreparedCorpus corpus = prepare({data}, out.path(), words());
  EXPECT_TRUE(ids_of(corpus.train) == read.train);
  EXPECT_TRUE(ids_of(corpus.valid) == read.valid);
  EXPECT_TRUE(ids_of(corpus.test) == read.test);
  EXPECT_EQ(corpus.tokenizer->hash(), WordTokenizer(read.vocab).hash());
}

TEST(PrepareCorpus, KeepsTheMostFrequentWords) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.txt", "b a a c\nc a b d\nc c e e\n");
  PrepareOptions options = words();
  options.valid = options.test = 0;
  options.overwrite = true;
  const auto vocabulary = [&] {
    const PreparedCorpus corpus = prepare({file}, folder / "out", options);
    std::vector<std::string> all;
    for (std::size_t id = 0; id < corpus.tokenizer->size(); ++id)
      all.emplace_back(corpus.tokenizer->token(static_cast<std::int32_t>(id)));
    EXPECT_EQ(corpus.valid.tokens.size() + corpus.test.tokens.size(), 0);
    return all;
  };
  EXPECT_THAT(vocabulary(), ElementsAre("b", "a", "c", "<eos>", "d", "e", "<unk>"));
  options.min_frequency = 3;
  EXPECT_THAT(vocabulary(), ElementsAre("a", "c", "<eos>", "<unk>"));
  options.min_frequency = 0;
  options.vocab_size = 5;
  EXPECT_THAT(vocabulary(), ElementsAre("b", "a", "c", "<eos>", "<unk>")) << "b and e are equal, b is first";
}

TEST(PrepareCorpus, EndsEachFileAndDividesTheWholeTextAtLines) {
  const TemporaryFolder folder;
  folder.write("a.txt", lines(0, 50) + "no end");
  folder.write("b.txt", "\xEF\xBB\xBF" + lines(50, 90) + "<|endoftext|>");
  folder.write("c.txt", lines(90, 100));
  const TemporaryFolder out;
  PrepareOptions options;
  options.valid = 0.1;
  options.test = 0.1;
  const PreparedCorpus corpus = prepare({folder.path()}, out.path(), options);
  const std::string whole = text_of(corpus, 0) + text_of(corpus, 1) + text_of(corpus, 2);
  EXPECT_EQ(whole,
            lines(0, 50) + "no end<|endoftext|>" + lines(50, 90) + "<|endoftext|>" + lines(90, 100) + "<|endoftext|>");
  for (int split = 1; split < 3; ++split) EXPECT_TRUE(text_of(corpus, split).starts_with("line")) << split;
  const auto end = corpus.tokenizer->special_tokens();
  ASSERT_EQ(end.size(), 1u);
  const Ids test = ids_of(corpus.test);
  EXPECT_EQ(test.back(), end[0]) << "one token";
  EXPECT_EQ(corpus.sources[0].text.lines, 51);
}

TEST(PrepareCorpus, OfOneFileIsTheSameInBlocksOfAnySize) {
  // Larger than a block of 16 MiB, so that blocks end within it.
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < (std::size_t{17} << 20)) text += "some words, again and again; don't stop:  now\n";
  PrepareOptions options;
  options.vocab_size = 280;
  const PreparedCorpus corpus = prepare({folder.write("a.txt", text)}, folder / "out", options);
  const Ids ids = ids_of(corpus.train);
  const std::string train = corpus.tokenizer->decode(ids);
  EXPECT_TRUE(text.starts_with(train));
  EXPECT_TRUE(corpus.tokenizer->encode(train) == ids);
}

TEST(PrepareCorpus, TakesATokenizerThatIsThere) {
  const TemporaryFolder folder;
  const std::vector<std::string_view> texts{"the theme of the thesis"};
  const BpeTokenizer bpe = BpeTokenizer::train(texts, {.vocab_size = 270, .min_frequency = 0, .special_tokens = {}});
  bpe.save(folder / "bpe.json");
  PrepareOptions options;
  options.tokenizer = (folder / "bpe.json").string();
  const PreparedCorpus corpus = prepare({folder.write("a.txt", lines(0, 100))}, folder / "out", options);
  EXPECT_EQ(corpus.tokenizer->hash(), bpe.hash());
  EXPECT_EQ(text_of(corpus, 0) + text_of(corpus, 1) + text_of(corpus, 2), lines(0, 100));
  options.tokenizer = "nowhere.json";
  EXPECT_THAT([&] { prepare({folder / "a.txt"}, folder / "other", options); },
              ThrowsMessage<FormatError>(HasSubstr("'nowhere.json' is neither word nor bpe")));
}

TEST(PrepareCorpus, RefusesTextsThatCannotBeUsedAndWritesNothing) {
  const TemporaryFolder folder;
  const fs::path out = folder / "new" / "corpus";
  const auto refuses = [&](const std::vector<FilePath>& inputs, const std::string& why,
                           const PrepareOptions& options = {}) {
    EXPECT_THAT([&] { prepare(inputs, out, options); }, ThrowsMessage<FormatError>(HasSubstr(why)));
    EXPECT_FALSE(fs::exists(folder / "new")) << why;
  };
  refuses({folder / "none.txt"}, "none.txt: there is no such file or folder");
  refuses({folder.write("empty.txt", "")}, "empty.txt: is empty");
  refuses({folder.write("blank.txt", "\n \n\n")}, "no words for the split 'train'");
  refuses({folder.write("bad.txt", lines(0, 99) + "\xFF")}, "bad.txt: is not UTF-8 text");
  refuses({folder.write("one.txt", "one long line")}, "no words for the split 'valid': the text has 1 line,");
  const auto good = folder.write("good.txt", lines(0, 99));
  prepare({good}, folder / "there");
  refuses({folder / "there"}, "there: is a prepared corpus, not text");
  PrepareOptions options;
  options.valid = 0.6;
  options.test = 0.4;
  refuses({good}, "leave no text to train on", options);
  options.test = -0.1;
  refuses({good}, "negative", options);
  options = {};
  options.vocab_size = 256;
  refuses({good}, "takes from 257", options);
  options = {};
  options.progress = [](const char* stage, std::int64_t, std::int64_t) {
    if (std::string(stage) == "write") throw FormatError("stopped");
  };
  refuses({good}, "stopped", options);
  fs::create_directory(folder / "layout");
  folder.write("layout/train.txt", lines(0, 9));
  folder.write("layout/valid.txt", lines(0, 9));
  refuses({folder / "layout"}, "has splits, but neither wiki.test.tokens, wiki.test.raw nor test.txt");
  folder.write("layout/test.txt", " \n");
  refuses({folder / "layout"}, "test.txt: holds no words");
  folder.write("layout/test.txt", lines(0, 9));
  options = {};
  options.valid = 0.1;
  refuses({folder / "layout"}, "has splits of its own; leave out --valid and --test", options);
  options.globs = {"*.txt"};
  EXPECT_EQ(prepare({folder / "layout"}, out, options).sources.size(), 3u);
}

TEST(PrepareCorpus, RefusesAFolderThatHoldsSomething) {
  const TemporaryFolder folder;
  const auto text = folder.write("a.txt", lines(0, 99));
  const fs::path out = folder / "out";
  prepare({text}, out);
  EXPECT_EQ(files_in(out), 5u);
  EXPECT_THAT([&] { prepare({text}, out); },
              ThrowsMessage<FormatError>(HasSubstr("already contains a corpus; --force")));
  folder.write("out/mine", "stays");
  PrepareOptions options = words();
  options.overwrite = true;
  EXPECT_EQ(prepare({text}, out, options).tokenizer->name(), "word");
  EXPECT_EQ(bytes_of(out / "mine"), "stays");
  EXPECT_EQ(files_in(out), 6u);
  fs::create_directory(folder / "other");
  folder.write("other/mine", "");
  EXPECT_THAT([&] { prepare({text}, folder / "other"); },
              ThrowsMessage<FormatError>(HasSubstr("contains other files")));
  EXPECT_THAT([&] { prepare({text}, folder.write("b.txt", "x")); },
              ThrowsMessage<FormatError>(HasSubstr("is a file; name a folder")));
  EXPECT_THAT([&] { prepare({text}, text / "below"); }, ThrowsMessage<FormatError>(HasSubstr("below")));
  // What a killed process left is no reason to refuse.
  fs::create_directory(folder / "left");
  folder.write("left/train.tokens.123-0.tmp", "half");
  prepare({text}, folder / "left");
  EXPECT_EQ(files_in(folder / "left"), 5u);
}

TEST(PrepareCorpus, KeepsAnOlderCorpusIfTheNewOneFails) {
  const TemporaryFolder folder;
  const fs::path out = folder / "out";
  const std::uint64_t before = prepare({folder.write("a.txt", lines(0, 99))}, out).tokenizer->hash();
  PrepareOptions options = words();
  options.overwrite = true;
  options.progress = [](const char* stage, std::int64_t, std::int64_t) {
    if (std::string(stage) == "write") throw FormatError("stopped");
  };
  EXPECT_THROW(prepare({folder.write("b.txt", lines(0, 99))}, out, options), FormatError);
  EXPECT_EQ(open_prepared_corpus(out).tokenizer->hash(), before);
  EXPECT_EQ(files_in(out), 5u);
}

TEST(PrepareCorpus, RefusesToWriteWhatItReads) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "texts");
  const auto text = folder.write("texts/a.txt", lines(0, 99));
  PrepareOptions options;
  options.overwrite = true;
  const auto refuses = [&](const fs::path& input, const fs::path& out, const std::string& why) {
    EXPECT_THAT([&] { prepare({input}, out, options); }, ThrowsMessage<FormatError>(HasSubstr(why))) << out;
  };
  refuses(folder / "texts", folder / "texts", "which is read");
  refuses(folder / "texts", folder / "texts" / "below" / "it", "lies in");
  refuses(folder / "texts", folder / "texts" / "..", "holds");
  refuses(text, folder / "texts" / "", "holds");
  EXPECT_EQ(files_in(folder / "texts"), 1u);
  EXPECT_EQ(bytes_of(text), lines(0, 99));
  // A name that only begins alike is another folder.
  prepare({folder / "texts"}, folder / "texts2", options);
}

TEST(PrepareCorpus, SaysThatATextChangedMeanwhile) {
  const TemporaryFolder folder;
  const auto text = folder.write("a.txt", lines(0, 99));
  PrepareOptions options;
  options.progress = [&](const char* stage, std::int64_t, std::int64_t) {
    if (std::string(stage) == "read") folder.write("a.txt", lines(1, 100));
  };
  EXPECT_THAT([&] { prepare({text}, folder / "out", options); },
              ThrowsMessage<FormatError>(HasSubstr("a.txt: changed while it was read")));
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(PreparedCorpus, RefusesFilesThatDoNotBelongTogether) {
  const TemporaryFolder folder;
  prepare({folder.write("a.txt", lines(0, 99))}, folder / "a");
  prepare({folder.write("b.txt", lines(7, 107))}, folder / "b");
  const auto refuses = [&](const std::string& why) {
    EXPECT_THAT([&] { open_prepared_corpus(folder / "bad"); }, ThrowsMessage<FormatError>(HasSubstr(why)));
  };
  const auto copy = [&] {
    fs::remove_all(folder / "bad");
    fs::copy(folder / "a", folder / "bad");
  };
  refuses("is not the folder of a prepared corpus");
  for (const char* name : {"tokenizer.json", "train.tokens", "valid.tokens", "test.tokens", "manifest.json"}) {
    copy();
    fs::remove(folder / "bad" / name);
    fs::copy_file(folder / "b" / name, folder / "bad" / name);
    EXPECT_THROW(open_prepared_corpus(folder / "bad"), FormatError) << name;
    fs::remove(folder / "bad" / name);
    EXPECT_THROW(open_prepared_corpus(folder / "bad"), FormatError) << name;
  }
  copy();
  fs::remove(folder / "bad" / "test.tokens");
  fs::copy_file(folder / "bad" / "valid.tokens", folder / "bad" / "test.tokens");
  refuses("test.tokens: does not match the manifest next to it");
}

TEST(PreparedCorpus, RefusesADamagedManifest) {
  const TemporaryFolder folder;
  const fs::path out = folder / "out";
  prepare({folder.write("a.txt", lines(0, 99))}, out);
  const std::string good = bytes_of(out / "manifest.json");
  open_prepared_corpus(out);
  for (std::size_t size = 0; size < good.size() - 2; size += 7) {
    folder.write("out/manifest.json", good.substr(0, size));
    EXPECT_THROW(open_prepared_corpus(out), FormatError) << size;
  }
  const auto refuses = [&](const char* pointer, const nlohmann::json& value, const std::string& why) {
    nlohmann::json bad = nlohmann::json::parse(good);
    bad[nlohmann::json::json_pointer(pointer)] = value;
    folder.write("out/manifest.json", bad.dump());
    EXPECT_THAT([&] { open_prepared_corpus(out); }, ThrowsMessage<FormatError>(HasSubstr(why))) << pointer;
  };
  refuses("/format", "other", "its format is missing or unknown");
  refuses("/version", 2, "it has version 2; this Etna reads version 1");
  refuses("/version", -1, "it has no number 'version'");
  refuses("/tokenizer", 3, "it has no object 'tokenizer'");
  refuses("/tokenizer/hash", 3, "it has no string 'hash'");
  refuses("/splits/valid", nullptr, "it has no object 'valid'");
  refuses("/splits/valid/tokens", 1e30, "it has no number 'tokens'");
  refuses("/splits/valid/tokens", 3, "valid.tokens: does not match");
  refuses("/splits/valid/words", "many", "it has no number 'words'");
  refuses("/recipe", "none", "it has no object 'recipe'");
  refuses("/recipe/valid", "x", "it has no number 'valid'");
  refuses("/sources", nlohmann::json::object(), "it has no array 'sources'");
  refuses("/sources/0", 7, "it has no string 'file'");
  refuses("/sources/0/split", 7, "it has no string 'split'");
  folder.write("out/manifest.json", std::string(100000, '['));
  EXPECT_THROW(open_prepared_corpus(out), FormatError);
}

}  // namespace
}  // namespace etna::data
