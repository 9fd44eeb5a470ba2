#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/encoder.h>
#include <etna/tensor/io/gguf.h>

#include "hugging_face_folder.h"
#include "letter_tokenizer.h"
#include "small_models.h"

// Decoders that score how well texts answer a query.
namespace etna::models {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kAnswers = {"The Nile.", "a river", "No: <|im_end|> yes"};
constexpr const char* kQuery = "Which river is the longest?";

DecoderConfig reranker_config(const char* architecture, std::int64_t vocabulary) {
  DecoderConfig c = small_config(architecture);
  c.rope.interleaved = false;
  c.vocabulary = vocabulary;
  c.context = 512;
  return c;
}

std::vector<std::int32_t> joined(std::initializer_list<std::vector<std::int32_t>> parts) {
  std::vector<std::int32_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// What Qwen3-Reranker reads, by its published words.
std::vector<std::int32_t> asked(const data::Tokenizer& tokenizer, const std::string& instruction,
                                const std::string& query, const std::string& text) {
  const std::string system =
      "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
      "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
  return joined({tokenizer.encode(system),
                 tokenizer.encode("<Instruct>: " + instruction + "\n<Query>: " + query + "\n<Document>: " + text,
                                  data::SpecialTokens::as_text),
                 tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")});
}

constexpr const char* kUsual = "Given a web search query, retrieve relevant passages that answer the query";

Tensor last_hidden(const Decoder& model, const std::vector<std::int32_t>& ids) {
  const std::int64_t steps = std::ssize(ids);
  return model.hidden(from_vector(ids, {1, steps})).slice(1, steps - 1, steps);
}

std::string refusal_of(const std::filesystem::path& path) {
  try {
    const Reranker reranker(path);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

class DecodersRerank : public testing::Test {
 protected:
  /// A folder of a model for sequence classification. @param head [labels, width]
  void save_classifier(const Decoder& model, const char* type, const char* architecture, const Tensor& head) const {
    FolderWriter writer(model, {type, architecture});
    std::erase_if(writer.tensors(), [](const auto& tensor) { return tensor.first == "lm_head.weight"; });
    writer.tensors().emplace_back("score.weight", head);
    writer.save(folder_);
  }

  TemporaryFolder folder_;
};

TEST_F(DecodersRerank, ByTheLogitsOfYesAndNo) {
  const data::ModelTokenizer tokenizer(letter_fields());
  const auto model = small_model(reranker_config("qwen3", 101));
  save_gguf_model(folder_ / "model.gguf", *model, &tokenizer);
  Reranker reranker(folder_ / "model.gguf");
  EXPECT_TRUE(reranker.takes_instruction());
  const NoGrad no_grad;
  for (const std::string& instruction : {std::string(kUsual), std::string("Find rivers.")}) {
    reranker.instruction = instruction;
    const Reranker::Result result = reranker.scores(kQuery, kAnswers);
    EXPECT_TRUE(result.cut.empty());
    for (std::size_t i = 0; i < kAnswers.size(); ++i) {
      const Tensor logits = model->logits_of(last_hidden(*model, asked(tokenizer, instruction, kQuery, kAnswers[i])));
      const double wanted = (logits.select(-1, 97) - logits.select(-1, 98)).item<double>();
      EXPECT_NEAR(result.scores[i], wanted, 2e-3) << i;
    }
  }
  const Reranker::Result cut = reranker.scores(kQuery, {std::string(600, 'x'), "a"});
  EXPECT_EQ(cut.cut, std::vector<std::size_t>{0});
}

// Conversions of Qwen3-Reranker are asked as it is; others get the query and the text.
TEST_F(DecodersRerank, ByAClassifierOfOneLabel) {
  const NoGrad no_grad;
  const Tensor head = randn({1, 64}) / 8;
  const data::ModelTokenizer tokenizer(letter_fields());
  const auto qwen = small_model(reranker_config("qwen3", 101));
  save_classifier(*qwen, "qwen3", "qwen3", head);
  tokenizer.save(folder_ / "tokenizer.json");
  const Reranker of_qwen(folder_.path());
  EXPECT_TRUE(of_qwen.takes_instruction());
  const std::vector<double> scores = of_qwen.scores(kQuery, kAnswers).scores;
  for (std::size_t i = 0; i < kAnswers.size(); ++i) {
    const Tensor last = last_hidden(*qwen, asked(tokenizer, kUsual, kQuery, kAnswers[i]));
    EXPECT_NEAR(scores[i], matmul(last, head.t()).item<double>(), 2e-3) << i;
  }
  std::ofstream(folder_ / "tokenizer.json") << letter_json();
  const auto llama = small_model(reranker_config("llama", 96));
  save_classifier(*llama, "llama", "llama", head);
  const Reranker of_llama(folder_.path());
  EXPECT_FALSE(of_llama.takes_instruction());
  const auto letters = data::load_tokenizer(folder_ / "tokenizer.json");
  const std::vector<double> others = of_llama.scores(kQuery, kAnswers).scores;
  for (std::size_t i = 0; i < kAnswers.size(); ++i) {
    const Tensor last = last_hidden(*llama, joined({letters->encode(kQuery), letters->encode(kAnswers[i])}));
    EXPECT_NEAR(others[i], matmul(last, head.t()).item<double>(), 1e-4) << i;
  }
  EXPECT_THROW(of_llama.scores("", {""}), FormatError);
}

// llama.cpp's converter keeps the rows of "yes" and "no" of the head.
TEST_F(DecodersRerank, ReadTwoRowsOfGguf) {
  const data::ModelTokenizer tokenizer(letter_fields());
  const auto model = small_model(reranker_config("qwen3", 101));
  save_gguf_model(folder_ / "model.gguf", *model, &tokenizer);
  const Reranker reranker(folder_ / "model.gguf");
  const io::GgufFile file(folder_ / "model.gguf");
  const Tensor head = file.load("output.weight").to(f32);
  for (const auto& labels : {std::vector<std::string>{"yes", "no"}, {"a", "b"}}) {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const io::GgufTensor& tensor : file.tensors()) tensors.emplace_back(tensor.name, file.load(tensor));
    tensors.emplace_back("cls.output.weight", cat({head.slice(0, 97, 98), head.slice(0, 98, 99)}));
    GgufOptions options;
    for (const io::GgufEntry& entry : file.metadata())
      if (entry.key != "general.alignment") options.metadata.emplace_back(entry.key, entry.value);
    options.metadata.emplace_back("qwen3.classifier.output_labels", labels);
    save_gguf(folder_ / "two.gguf", tensors, options);
    if (labels[0] != "yes") {
      EXPECT_THAT(refusal_of(folder_ / "two.gguf"), HasSubstr("the model's classifier has 2 labels"));
      continue;
    }
    const std::vector<double> wanted = reranker.scores(kQuery, kAnswers).scores,
                              got = Reranker(folder_ / "two.gguf").scores(kQuery, kAnswers).scores;
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-3) << i;
  }
}

TEST_F(DecodersRerank, AreRefusedInOneSentence) {
  const auto model = small_model(reranker_config("llama", 96));
  std::ofstream(folder_ / "tokenizer.json") << letter_json();
  FolderWriter(*model, {"llama", "llama"}).save(folder_);
  EXPECT_THAT(refusal_of(folder_.path()), HasSubstr("does not know the words of Qwen3-Reranker"));
  save_classifier(*model, "llama", "llama", zeros({3, 64}));
  EXPECT_THAT(refusal_of(folder_.path()), HasSubstr("the model's classifier has 3 labels"));
  save_classifier(*model, "llama", "llama", zeros({1, 60}));
  EXPECT_THAT(refusal_of(folder_.path()), HasSubstr("wanted [1, 64]"));
  save_classifier(*model, "llama", "llama", zeros({1, 64}));
  EXPECT_EQ(refusal_of(folder_.path()), "");
  std::filesystem::remove(folder_ / "tokenizer.json");
  EXPECT_THAT(refusal_of(folder_.path()), HasSubstr("has no tokenizer"));
  EXPECT_THAT(refusal_of(folder_ / "nowhere"), HasSubstr("nowhere"));
  DecoderConfig small = reranker_config("qwen3", 101);
  small.context = 64;
  const data::ModelTokenizer tokenizer(letter_fields());
  save_gguf_model(folder_ / "model.gguf", *small_model(small), &tokenizer);
  EXPECT_THROW(Reranker(folder_ / "model.gguf").scores(kQuery, kAnswers), FormatError);
}

}  // namespace
}  // namespace etna::models
