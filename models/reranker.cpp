#include <array>
#include <filesystem>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/models/encoder.h>
#include <etna/models/internal/architecture.h>
#include <etna/models/internal/model_source.h>
#include <etna/models/internal/text_batches.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

// Qwen3-Reranker's question, in three parts: the second one is the user's.
constexpr const char* kBeforeQuestion =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
constexpr const char* kQuestion = "<Instruct>: {}\n<Query>: {}\n<Document>: {}";
constexpr const char* kBehindQuestion = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/// The only token of a text, or -1.
std::int64_t token_of(const data::Tokenizer& tokenizer, const char* text) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  return ids.size() == 1 ? ids[0] : -1;
}

/// Whether a tokenizer knows the marks of Qwen's turns.
bool knows_turns(const data::Tokenizer& tokenizer) {
  return token_of(tokenizer, "<|im_start|>") >= 0 && token_of(tokenizer, "<|im_end|>") >= 0;
}

/// The classifier of a decoder in a file, [labels, width], or undefined.
Tensor classifier_in(const FilePath& path) {
  if (path.string().ends_with(".gguf")) {
    const io::GgufFile file(path);
    return file.find_tensor(kGgufScoreHead) == nullptr ? Tensor() : file.load(kGgufScoreHead).to(f32);
  }
  if (!is_file(path / "config.json")) return {};
  const io::ShardedSafetensors file(path);
  return file.contains(kScoreHead) ? file.load(kScoreHead).to(f32) : Tensor();
}

/// The rows' difference where a GGUF file has those of two tokens of the head, "yes" and "no".
Tensor of_one_label(const Tensor& classifier, const FilePath& path, std::int64_t width) {
  const std::string name = path.string();
  if (classifier.dim() != 2 || classifier.size(1) != width)
    throw FormatError(fmt::format("{}: the classifier is {}; wanted [1, {}]", name, str(classifier.shape()), width));
  const std::int64_t labels = classifier.size(0);
  if (labels == 1) return classifier;
  std::vector<std::string> names;
  if (name.ends_with(".gguf")) {
    const io::GgufFile file(path);
    const std::string key = file.string("general.architecture", "") + ".classifier.output_labels";
    if (file.find(key) != nullptr) names = file.strings(key);
  }
  if (labels == 2 && names == std::vector<std::string>{"yes", "no"})
    return classifier.slice(0, 0, 1) - classifier.slice(0, 1, 2);
  throw FormatError(fmt::format(
      "{}: the model's classifier has {} labels; a reranker has one score for a pair of texts", name, labels));
}

}  // namespace

Reranker::Reranker(const FilePath& path, const LoadOptions& options) : device_(options.device) {
  if (!is_encoder(path)) {
    load_decoder(path, options);
    return;
  }
  encoder_ = load_encoder(path, options);
  const std::int64_t labels = encoder_.encoder->config.classifier.labels;
  if (labels != 1) {
    throw FormatError(fmt::format(
        "{}: {}; a reranker has one score for a pair of texts", path.string(),
        labels == 0 ? "the model has no classifier" : fmt::format("the model's classifier has {} labels", labels)));
  }
  require_tokenizer(encoder_.tokenizer.get(), path);
}

Reranker::~Reranker() = default;

void Reranker::load_decoder(const FilePath& path, const LoadOptions& given) {
  const Tensor classifier = classifier_in(path);
  LoadOptions options = given;
  options.headless = classifier.defined();
  decoder_ = load_model(path, options);
  require_tokenizer(decoder_.tokenizer.get(), path);
  const DecoderConfig& config = decoder_.decoder->config;
  const data::Tokenizer& tokenizer = *decoder_.tokenizer;
  if (classifier.defined()) {
    head_ = of_one_label(classifier, path, config.width);
    asks_ = architecture_of(config).asks_classifiers && knows_turns(tokenizer);
    return;
  }
  yes_ = token_of(tokenizer, "yes");
  no_ = token_of(tokenizer, "no");
  asks_ = true;
  if (yes_ < 0 || no_ < 0 || !knows_turns(tokenizer) || config.bidirectional)
    throw FormatError(fmt::format(
        "{}: the model has no classifier, and does not know the words of Qwen3-Reranker; a reranker is a model for "
        "sequence classification with one label, or Qwen3-Reranker",
        path.string()));
}

std::int64_t Reranker::most_tokens() const {
  return encoder_.encoder ? encoder_.encoder->config.context : decoder_.decoder->config.context;
}

/// @param cut whether the text's end is left out
data::TokenPair Reranker::question(const std::string& query, const std::string& text, bool& cut) const {
  const data::Tokenizer& tokenizer = *decoder_.tokenizer;
  std::vector<std::int32_t> ids = tokenizer.encode(kBeforeQuestion);
  const std::vector<std::int32_t> behind = tokenizer.encode(kBehindQuestion);
  std::vector<std::int32_t> own =
      tokenizer.encode(fmt::format(kQuestion, instruction, query, text), data::SpecialTokens::as_text);
  const std::size_t most = static_cast<std::size_t>(most_tokens()), around = ids.size() + behind.size();
  if (around >= most)
    throw FormatError(fmt::format("the model reads {} tokens at most; the question alone has {}", most, around));
  cut = own.size() > most - around;
  if (cut) own.resize(most - around);
  ids.insert(ids.end(), own.begin(), own.end());
  ids.insert(ids.end(), behind.begin(), behind.end());
  return {std::move(ids), {}};
}

data::TokenPair Reranker::pair(const std::string& query, const std::string& text, bool& cut) const {
  const data::Tokenizer& tokenizer = encoder_.encoder ? *encoder_.tokenizer : *decoder_.tokenizer;
  const auto most = static_cast<std::size_t>(most_tokens());
  data::TokenPair row = tokenizer.encode_pair(query, text);
  cut = row.ids.size() > most;
  if (cut) row = tokenizer.encode_pair(query, text, {.most = most});
  if (row.ids.empty()) throw FormatError("the query and a text are empty: the model reads no token of them");
  return row;
}

std::vector<double> Reranker::scores_of(const EncoderInput& input) const {
  if (encoder_.encoder) return encoder_.encoder->classify(input).to(kCPU).flatten().to_vector<double>();
  const Tensor last = pool_texts(hidden_of_texts(*decoder_.decoder, input), input.lengths, Pooling::last);
  if (head_.defined()) return linear(last.to(kCPU, f32), head_).flatten().to_vector<double>();
  const Tensor logits = decoder_.decoder->logits_of(last).to(kCPU, f32);
  return (logits.select(-1, yes_) - logits.select(-1, no_)).flatten().to_vector<double>();
}

Reranker::Result Reranker::scores(const std::string& query, const std::vector<std::string>& texts) const {
  const NoGrad no_grad;
  Result result;
  TokenRows rows;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    bool cut = false;
    rows.push_back(asks_ ? question(query, texts[i], cut) : pair(query, texts[i], cut));
    if (cut) result.cut.push_back(i);
  }
  result.scores.resize(texts.size());
  // XLM-R has one type alone, whatever a template says.
  const bool typed = encoder_.encoder && encoder_.encoder->config.token_types > 1;
  for_each_batch(rows, device_, typed, [&](const EncoderInput& input, std::span<const std::size_t> at) {
    const std::vector<double> scores = scores_of(input);
    for (std::size_t i = 0; i < at.size(); ++i) result.scores[at[i]] = scores[i];
  });
  return result;
}

}  // namespace etna::models
