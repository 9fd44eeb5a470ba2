#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <etna/models/encoder.h>
#include <etna/tensor/io/npy.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "etna_model.h"
#include "models/encoder_folder.h"
#include "models/hugging_face_folder.h"
#include "models/letter_tokenizer.h"

namespace etna {
namespace {

using testing::HasSubstr;

constexpr const char* kReranks =
    R"(, "architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"})";

/// A small encoder in a folder of Hugging Face, with a vocabulary of a few words.
class EtnaEncoder : public EtnaModel {
 protected:
  void SetUp() override {
    EtnaModel::SetUp();
    write(encoder(), models::small_encoder_config("bert"), "");
    models::EncoderConfig config = models::small_encoder_config("bert");
    config.classifier.labels = 1;
    write(reranker(), config, kReranks);
  }
  std::filesystem::path encoder() const { return folder_ / "encoder"; }
  std::filesystem::path reranker() const { return folder_ / "reranker"; }
  std::string embed(const std::string& rest) const { return "embed --device cpu " + quoted(encoder()) + " " + rest; }
  std::string rerank(const std::string& rest) const { return "rerank --device cpu " + quoted(reranker()) + " " + rest; }

  /// What etna prints, a vector a line.
  static std::vector<std::vector<double>> vectors_of(const std::string& arguments) {
    std::vector<std::vector<double>> vectors;
    std::stringstream lines(text_of(arguments));
    for (std::string line; std::getline(lines, line);)
      vectors.push_back(nlohmann::json::parse(line).get<std::vector<double>>());
    return vectors;
  }
  static double length_of(const std::vector<double>& vector) {
    double sum = 0;
    for (const double x : vector) sum += x * x;
    return std::sqrt(sum);
  }
  void expect_refused(const std::string& arguments, int code, const std::string& why) const {
    const Result run = etna(arguments);
    EXPECT_EQ(run.code, code) << arguments << "\n" << run.output;
    EXPECT_THAT(run.output, HasSubstr(why)) << arguments;
  }

 private:
  static void write(const std::filesystem::path& folder, const models::EncoderConfig& config, const std::string& more) {
    std::filesystem::create_directory(folder);
    models::EncoderFolder{*models::small_encoder(config), "bert.", false, more}.save(folder);
    std::ofstream vocabulary(folder / "vocab.txt");
    for (const char* word :
         {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "river", "runs", "##s", "what", "is", "a", "city", ".", "?"})
      vocabulary << word << "\n";
  }
};

using EtnaEmbed = EtnaEncoder;

TEST_F(EtnaEmbed, MakesAVectorOfEachText) {
  const auto two = vectors_of(embed("--text 'the river runs.' -t 'a city'"));
  ASSERT_EQ(two.size(), 2u);
  ASSERT_EQ(two[0].size(), 32u);
  const models::TextEmbedder embedder(encoder());
  const Tensor wanted = embedder.embed({"the river runs.", "a city"}).vectors;
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 32; ++j)
      EXPECT_NEAR(two[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)],
                  wanted.select(0, i).select(0, j).item<double>(), 1e-4);
  const auto file = quoted(folder_.write("texts", "the river runs.\na city\n"));
  for (const std::string& rest : {"--file " + file, "--file - < " + file, "-q -f " + file})
    EXPECT_EQ(text_of(embed(rest)), text_of(embed("--text 'the river runs.' -t 'a city'"))) << rest;
}

TEST_F(EtnaEmbed, WritesFilesOfThreeKinds) {
  const auto out = [&](const char* name) { return quoted(folder_ / name); };
  for (const char* name : {"v.npy", "v.json", "v.safetensors"}) {
    const std::string said = text_of(embed("-t river -t city --out " + out(name)));
    EXPECT_THAT(said, HasSubstr("2 embeddings of 32 numbers, mean pooling")) << name;
  }
  const Tensor npy = load_npy(folder_ / "v.npy");
  EXPECT_EQ(npy.shape(), (Shape{2, 32}));
  std::map<std::string, Tensor> tensors = load_safetensors(folder_ / "v.safetensors");
  EXPECT_EQ((tensors.at("embeddings") - npy).abs().max().item<double>(), 0);
  std::ifstream in(folder_ / "v.json");
  const nlohmann::json json = nlohmann::json::parse(in);
  EXPECT_EQ(json["dimensions"], 32);
  EXPECT_NEAR(json["embeddings"][1][3].get<double>(), npy.select(0, 1).select(0, 3).item<double>(), 1e-5);
  // The command's own JSON is replaced, other files are not.
  EXPECT_EQ(etna(embed("-t river --out " + out("v.json"))).code, 0);
  expect_refused(embed("-t river --out " + out("v.npy")), 2, "--force");
  EXPECT_EQ(etna(embed("-t river --force --out " + out("v.npy"))).code, 0);
  expect_refused(embed("-t river --out " + out("v.txt")), 2, "its ending should be .npy, .json or .safetensors");
}

TEST_F(EtnaEmbed, PoolsAndNormalizesAsAskedOrAsFilesSay) {
  const std::string text = "-t 'the river runs.' ";
  const auto mean = vectors_of(embed(text)), cls = vectors_of(embed(text + "--pooling cls")),
             last = vectors_of(embed(text + "--pooling last")), unit = vectors_of(embed(text + "--normalize"));
  EXPECT_NE(mean, cls);
  EXPECT_NE(cls, last);
  EXPECT_NEAR(length_of(unit[0]), 1, 1e-4);
  EXPECT_EQ(vectors_of(embed("-t 'river runs.' --prefix 'the '")), mean);
  std::filesystem::create_directory(encoder() / "1_Pooling");
  std::ofstream(encoder() / "modules.json")
      << R"([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},)"
         R"({"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},)"
         R"({"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";
  std::ofstream(encoder() / "1_Pooling" / "config.json") << R"({"pooling_mode_cls_token": true})";
  EXPECT_EQ(vectors_of(embed(text)), vectors_of(embed(text + "--pooling cls --normalize")));
  EXPECT_EQ(vectors_of(embed(text + "--no-normalize")), cls);
  std::ofstream(encoder() / "config_sentence_transformers.json")
      << R"({"prompts": {"query": "the "}, "default_prompt_name": "query"})";
  EXPECT_EQ(vectors_of(embed("-t 'river runs.' --no-normalize")), cls);
  std::ofstream(encoder() / "1_Pooling" / "config.json") << R"({"pooling_mode_max_tokens": true})";
  expect_refused(embed(text), 4, "pooling_mode_max_tokens");
  std::ofstream(encoder() / "modules.json") << R"([{"type": "sentence_transformers.models.WordWeights"}])";
  expect_refused(embed(text), 4, "a step 'WordWeights'");
}

TEST_F(EtnaEmbed, TakesThePromptsOfFiles) {
  std::ofstream(encoder() / "config_sentence_transformers.json") << R"({"prompts": {"query": "the ", "none": ""}})";
  EXPECT_EQ(vectors_of(embed("-t 'river runs.' --prompt query")), vectors_of(embed("-t 'the river runs.'")));
  EXPECT_EQ(vectors_of(embed("-t river --prompt none")), vectors_of(embed("-t river")));
  expect_refused(embed("-t river --prompt document"), 4, "there is no prompt 'document'; the model has none, query");
  expect_refused(embed("-t river --prompt query --prefix x"), 2, "--prompt");
}

TEST_F(EtnaEmbed, TakesDecodersAndGguf) {
  const auto of_decoder = vectors_of("embed --device cpu " + quoted(model()) + " -t 'the river'");
  ASSERT_EQ(of_decoder.size(), 1u);
  EXPECT_EQ(of_decoder[0].size(), 64u);
  EXPECT_EQ(of_decoder, vectors_of("embed --device cpu " + quoted(model()) + " -t 'the river' --pooling last"));
  const auto gguf = folder_ / "encoder.gguf";
  EXPECT_EQ(etna("convert " + quoted(encoder()) + " --out " + quoted(gguf)).code, 0);
  EXPECT_EQ(text_of("tokenize --ids --prompt " + quoted(gguf) + " 'The Rivers?'"), "2 4 5 7 13 3\n");
  const auto from_gguf = vectors_of("embed --device cpu --no-normalize " + quoted(gguf) + " -t 'the river runs.'");
  const auto from_folder = vectors_of(embed("-t 'the river runs.'"));
  for (std::size_t i = 0; i < 32; ++i) EXPECT_NEAR(from_gguf.at(0)[i], from_folder.at(0)[i], 1e-4);
  EXPECT_THAT(text_of("inspect " + quoted(gguf)), HasSubstr("runs the model"));
  expect_refused("convert " + quoted(encoder()) + " --gptq " + quoted(folder_ / "x") + " --to q4_0 --out " +
                     quoted(folder_ / "y.gguf"),
                 2, "text encoder");
}

// Decoders of both directions, as EmbeddingGemma.
TEST_F(EtnaEmbed, TakesDecodersOfBothDirections) {
  models::DecoderConfig config = models::small_config("gemma-embedding");
  config.vocabulary = 96;
  const auto model = models::small_model(config);
  const TemporaryFolder folder;
  models::FolderWriter(
      *model, {"gemma3_text", "gemma-embedding", "", R"(, "use_bidirectional_attention": true, "sliding_window": 24)"})
      .save(folder);
  data::VocabularyFields fields = letter_fields();
  fields.tokens.resize(96);
  fields.types.resize(96);
  fields.merges.clear();
  fields.eos.reset();
  data::ModelTokenizer(fields).save(folder / "tokenizer.json");
  const std::string here = quoted(folder.path()), text = " -t 'Which river is the longest of all?'";
  const auto vectors = vectors_of("embed --device cpu " + here + text);
  EXPECT_EQ(vectors, vectors_of("embed --device cpu " + here + text + " --pooling mean --no-normalize"));
  const auto gguf = quoted(folder / "model.gguf");
  EXPECT_EQ(etna("convert " + here + " --out " + gguf).code, 0);
  EXPECT_THAT(text_of("inspect " + gguf), HasSubstr("runs the model"));
  const auto again = vectors_of("embed --device cpu --no-normalize " + gguf + text);
  ASSERT_EQ(again.size(), 1u);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(again[0][i], vectors.at(0)[i], 1e-3);
  expect_refused("run --device cpu --prompt a " + here, 4, "reads texts in both directions, and writes none");
  expect_refused("perplexity --device cpu " + gguf + " --file " + quoted(folder_.write("texts", "a river")), 4,
                 "reads texts in both directions");
  expect_refused("finetune --device cpu -m " + gguf + " --data " +
                     quoted(folder_.write("rows.jsonl", R"({"text": "a river"})")) + " --out " +
                     quoted(folder_ / "run"),
                 4, "reads texts in both directions, and learns no answers");
}

TEST_F(EtnaEmbed, SaysWhatIsWrongInOneSentence) {
  std::string much;
  for (int i = 0; i < 70; ++i) much += "river ";
  const auto file = quoted(folder_.write("long", "river\n" + much + "\n"));
  const Result cut = etna(embed("-f " + file + " --out " + quoted(folder_ / "v.npy")));
  EXPECT_EQ(cut.code, 0);
  EXPECT_THAT(cut.output, HasSubstr("warning: text 2: longer than the 64 tokens"));
  expect_refused(embed("--no-truncate -f " + file), 4, "text 2: longer than the 64 tokens");
  expect_refused(embed("--no-truncate --max-tokens 3 -t 'the river runs'"), 4, "longer than the 3 tokens");
  expect_refused(embed(""), 2, "give a text with --text");
  expect_refused(embed("-t a -f " + file), 2, "--text");
  expect_refused(embed("-t a --pooling max"), 2, "--pooling");
  expect_refused(embed("-f " + quoted(folder_ / "nowhere")), 4, "nowhere");
  expect_refused(embed("-f " + quoted(folder_.write("empty", ""))), 4, "there is no text in it");
  expect_refused("embed --device cpu " + quoted(folder_ / "nowhere") + " -t a", 4, "nowhere");
  std::filesystem::remove(encoder() / "vocab.txt");
  expect_refused(embed("-t a"), 4, "has no tokenizer");
  expect_refused("run --device cpu --prompt a " + quoted(encoder()), 4,
                 "'bert' is a text encoder, which writes no text");
}

using EtnaRerank = EtnaEncoder;

TEST_F(EtnaRerank, SortsTextsByTheirScores) {
  const std::vector<std::string> texts = {"a city", "the river runs.", "what?"};
  const std::string query = "--query 'what is a river?' ";
  const std::vector<double> scores = models::Reranker(reranker()).scores("what is a river?", texts).scores;
  std::vector<std::size_t> order = {0, 1, 2};
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::string lines;
  for (const std::string& text : texts) lines += text + "\n";
  const std::string file = "--file " + quoted(folder_.write("texts", lines));
  const auto json = nlohmann::json::parse(text_of(rerank(query + file + " --json")));
  ASSERT_EQ(json["results"].size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(json["results"][i]["index"], order[i]);
    EXPECT_EQ(json["results"][i]["text"], texts[order[i]]);
    EXPECT_NEAR(json["results"][i]["score"].get<double>(), scores[order[i]], 1e-4);
  }
  const std::string best = text_of(rerank(query + file + " --top 1"));
  EXPECT_EQ(std::count(best.begin(), best.end(), '\n'), 1);
  EXPECT_THAT(best, HasSubstr("  " + std::to_string(order[0] + 1) + "  " + texts[order[0]] + "\n"));
}

TEST_F(EtnaRerank, SaysWhatIsWrongInOneSentence) {
  expect_refused(rerank("-t a"), 2, "--query");
  expect_refused(rerank("--query a"), 2, "give a text with --text");
  expect_refused("rerank --device cpu --query a -t b " + quoted(encoder()), 4, "the model has no classifier");
  expect_refused("rerank --device cpu --query a -t b " + quoted(model()), 4, "the model has no classifier, and");
  expect_refused(rerank("--query a -t b --instruction c"), 4, "the model takes no --instruction");
  std::string much = "river";
  for (int i = 0; i < 70; ++i) much += " river";
  const Result cut = etna(rerank("--query a -t '" + much + "'"));
  EXPECT_EQ(cut.code, 0);
  EXPECT_THAT(cut.output, HasSubstr("warning: text 1: longer than the 64 tokens"));
  expect_refused(rerank("--no-truncate --query a -t '" + much + "'"), 4, "text 1: longer");
}

TEST_F(EtnaRerank, AsksModelsThatSayYesOrNo) {
  models::DecoderConfig config = models::small_config("qwen3");
  config.vocabulary = 101;
  config.context = 512;
  const data::ModelTokenizer tokenizer(letter_fields());
  const auto file = folder_ / "qwen.gguf";
  models::save_gguf_model(file, *models::small_model(config), &tokenizer);
  models::Reranker wanted(file);
  const auto score = [&](const std::string& more) {
    const std::string command = "rerank --device cpu --json --query river -t Nile " + more + quoted(file);
    return nlohmann::json::parse(text_of(command))["results"][0]["score"].get<double>();
  };
  EXPECT_NEAR(score(""), wanted.scores("river", {"Nile"}).scores[0], 1e-3);
  wanted.instruction = "Find rivers";
  EXPECT_NEAR(score("--instruction 'Find rivers' "), wanted.scores("river", {"Nile"}).scores[0], 1e-3);
}

}  // namespace
}  // namespace etna
