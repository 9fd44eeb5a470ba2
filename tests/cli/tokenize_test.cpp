#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <etna/data/corpus.h>
#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/ops.h>

#include "etna_model.h"

namespace etna {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class EtnaTokenize : public EtnaModel {
 protected:
  std::string of_model(const std::string& rest) const { return "tokenize " + quoted(model()) + " " + rest; }
  static std::string ids_of(const std::string& text, data::SpecialTokens special = data::SpecialTokens::recognize) {
    std::string line;
    for (const std::int32_t id : some_tokenizer().encode(text, special))
      line += (line.empty() ? "" : " ") + std::to_string(id);
    return line + "\n";
  }
};

TEST_F(EtnaTokenize, PrintsTheIdsThatTheModelReads) {
  for (const char* text : {"a b.", "the river", "caf\xC3\xA9", "a</s>b"}) {
    const std::string argument = "'" + std::string(text) + "' ";
    EXPECT_EQ(text_of(of_model(argument + "--ids")), ids_of(text));
    EXPECT_EQ(text_of(of_model(argument + "--count")), std::to_string(some_tokenizer().encode(text).size()) + "\n");
  }
  EXPECT_EQ(text_of(of_model("--ids --no-special 'a</s>b'")), ids_of("a</s>b", data::SpecialTokens::as_text));
  EXPECT_NE(text_of(of_model("--ids --no-special 'a</s>b'")), ids_of("a</s>b"));
  EXPECT_EQ(text_of(of_model("--ids --prompt 'ab'")), "1 " + ids_of("ab"));
}

TEST_F(EtnaTokenize, ShowsWhereEachTokenLies) {
  EXPECT_EQ(text_of(of_model("'ab c</s>.'")),
            " id  bytes  token\n"
            "259  0..0   ' '\n"
            "264  0..1   'a'\n"
            "265  1..2   'b'\n"
            "259  2..3   ' '\n"
            "266  3..4   'c'\n"
            "  2  4..8   '</s>'\n"
            "259  8..8   ' '\n"
            "267  8..9   '.'\n"
            "8 tokens, 9 bytes\n");
  EXPECT_THAT(text_of(of_model("--prompt a")), HasSubstr("  1  -      '<s>'\n259  0..0"));
  const auto json = nlohmann::json::parse(text_of(of_model("--json '\xC3\xA9.'")));
  EXPECT_EQ(json["count"], 4);
  EXPECT_EQ(json["vocabulary"], some_tokenizer().size());
  EXPECT_EQ(json["tokens"][1]["id"], 3 + 0xC3);
  EXPECT_EQ(json["tokens"][2]["begin"], 1);
  EXPECT_EQ(json["tokens"][2]["end"], 2);
  EXPECT_EQ(json["tokens"][3]["token"], ".");
}

TEST_F(EtnaTokenize, ReadsFilesAndStandardInputToTheLastByte) {
  const auto file = quoted(folder_.write("text", "a b\n"));
  for (const std::string& rest : {"--file " + file, "-f " + file, "< " + file, "- < " + file, "--file - < " + file})
    EXPECT_EQ(text_of(of_model("--ids " + rest)), ids_of("a b\n")) << rest;
  EXPECT_EQ(text_of(of_model("--count ''")), "0\n");
}

TEST_F(EtnaTokenize, ReadsTokenizersAlone) {
  some_tokenizer().save(folder_ / "tokenizer.json");
  EXPECT_EQ(text_of("tokenize " + quoted(folder_ / "tokenizer.json") + " --ids 'a b'"), ids_of("a b"));
  // Words lose their white space, so no place in the text is certain.
  data::Vocabulary words;
  for (const char* word : {"<unk>", "<eos>", "river", "the"}) words.add(word);
  data::WordTokenizer(words).save(folder_ / "words.json");
  const std::string shown = text_of("tokenize " + quoted(folder_ / "words.json") + " 'the  river'");
  EXPECT_EQ(shown, "id  token\n 3  'the'\n 2  'river'\n2 tokens, 10 bytes\n");
  const auto json =
      nlohmann::json::parse(text_of("tokenize --json " + quoted(folder_ / "words.json") + " 'the  river'"));
  EXPECT_FALSE(json["tokens"][0].contains("begin"));
}

// The weights may be of a model that this build does not run.
TEST_F(EtnaTokenize, ReadsTheVocabularyOfAnyGguf) {
  std::vector<std::pair<std::string, io::GgufValue>> metadata;
  const io::GgufFile file(model());
  for (const io::GgufEntry& entry : file.metadata()) {
    if (entry.key == "general.architecture")
      metadata.emplace_back(entry.key, io::GgufValue("unheard"));
    else if (entry.key != "general.alignment")
      metadata.emplace_back(entry.key, entry.value);
  }
  save_gguf(folder_ / "unheard.gguf", {{"weight", ones({4})}}, {.metadata = metadata});
  EXPECT_EQ(etna("run --device cpu --prompt a " + quoted(folder_ / "unheard.gguf")).code, 4);
  EXPECT_EQ(text_of("tokenize " + quoted(folder_ / "unheard.gguf") + " --ids 'a b'"), ids_of("a b"));
  EXPECT_EQ(etna(with_model("run") + "-n 1 --prompt a --tokenizer " + quoted(folder_ / "unheard.gguf")).code, 0);
}

// A checkpoint of llama2.c has its tokenizer in a file beside it.
TEST_F(EtnaTokenize, FindsTheTokenizerBesideACheckpoint) {
  const auto word = [](std::uint32_t value) {
    std::string bytes;
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
    return bytes;
  };
  std::string file = word(5);
  for (const std::string piece : {"<unk>", "\n<s>\n", "\n</s>", " ", "a"})
    file += word(0) + word(static_cast<std::uint32_t>(piece.size())) + piece;
  folder_.write("tokenizer.bin", file);
  folder_.write("stories.bin", "weights");
  for (const char* name : {"tokenizer.bin", "stories.bin"})
    EXPECT_EQ(text_of("tokenize --ids " + quoted(folder_ / name) + " a"), "3 4\n") << name;
}

TEST_F(EtnaTokenize, RefusesWhatItCannotReadInOneSentence) {
  for (const std::filesystem::path& file :
       {folder_ / "mute.gguf", folder_ / "nowhere.gguf", folder_.write("text", "no model at all\n"),
        folder_.write("half.json", "{\"model\": ")}) {
    const Result run = etna("tokenize " + quoted(file) + " a");
    EXPECT_EQ(run.code, 4) << run.output;
    EXPECT_THAT(run.output, AllOf(HasSubstr("etna: "), HasSubstr(file.string())));
    EXPECT_EQ(std::count(run.output.begin(), run.output.end(), '\n'), 1) << run.output;
  }
  EXPECT_EQ(etna(of_model("--file " + quoted(folder_ / "nowhere"))).code, 4);
  EXPECT_EQ(etna(of_model("--file " + quoted(model()))).code, 4) << "a binary file is no text";
  EXPECT_EQ(etna(of_model("--ids --count a")).code, 2);
  EXPECT_EQ(etna(of_model("--json --count a")).code, 2);
  EXPECT_EQ(etna(of_model("a --file " + quoted(folder_ / "text"))).code, 2);
  EXPECT_THAT(etna("man").output, AllOf(HasSubstr("etna tokenize"), HasSubstr("no\\-special")));
}

}  // namespace
}  // namespace etna
