#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/models/encoder.h>
#include <etna/models/internal/model_source.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// Padded tokens that are read at once.
constexpr std::size_t kTokensAtOnce = 8192;

/// Texts as tokens, with the tokens' types where they are pairs.
using TokenRows = std::vector<data::TokenPair>;

/// Reads texts of similar lengths together. @param read gets an input on the device and the texts' indices
void for_each_batch(const TokenRows& rows, Device device, bool typed,
                    const std::function<void(const EncoderInput& input, std::span<const std::size_t> texts)>& read) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a].ids.size() > rows[b].ids.size(); });
  for (std::size_t at = 0; at < order.size();) {
    const std::size_t longest = rows[order[at]].ids.size();
    const std::size_t count = std::min(order.size() - at, std::max<std::size_t>(1, kTokensAtOnce / longest));
    const auto batch = static_cast<std::int64_t>(count), steps = static_cast<std::int64_t>(longest);
    std::vector<std::int32_t> ids, types;
    std::vector<std::int64_t> lengths;
    for (std::size_t i = at; i < at + count; ++i) {
      const data::TokenPair& row = rows[order[i]];
      lengths.push_back(std::ssize(row.ids));
      ids.insert(ids.end(), row.ids.begin(), row.ids.end());
      ids.resize((i - at + 1) * longest, 0);
      types.insert(types.end(), row.types.begin(), row.types.end());
      types.resize((i - at + 1) * longest, 0);
    }
    EncoderInput input{from_vector(ids, {batch, steps}, device), from_vector(lengths, {batch, 1}, device)};
    if (typed) input.types = from_vector(types, {batch, steps}, device);
    read(input, std::span(order).subspan(at, count));
    at += count;
  }
}

void require_tokenizer(const data::Tokenizer* tokenizer, const FilePath& path) {
  if (tokenizer == nullptr)
    throw FormatError(fmt::format("{}: the model has no tokenizer, so it cannot read text", path.string()));
}

/// Decoders that were trained to read texts in both directions.
void refuse_two_directions(const FilePath& path) {
  const FilePath file = path / "config.json";
  if (!is_file(file)) return;
  const nlohmann::json root = data::parse_json_object(read_text(file), file.string(), "config");
  const nlohmann::json* flag = data::json_field(root, "use_bidirectional_attention");
  if (flag == nullptr || *flag == false) return;
  throw FormatError(fmt::format(
      "{}: the model reads texts in both directions ('use_bidirectional_attention'), which decoders do not do here",
      path.string()));
}

}  // namespace

TextEmbedder::TextEmbedder(const FilePath& path, const LoadOptions& options)
    : settings(embedding_settings(path)), device_(options.device) {
  if (is_encoder(path)) {
    encoder_ = load_encoder(path, options);
  } else {
    refuse_two_directions(path);
    decoder_ = load_model(path, options);
  }
  require_tokenizer((encoder_.encoder ? encoder_.tokenizer : decoder_.tokenizer).get(), path);
}

TextEmbedder::~TextEmbedder() = default;

std::int64_t TextEmbedder::width() const {
  return encoder_.encoder ? encoder_.encoder->config.width : decoder_.decoder->config.width;
}

std::int64_t TextEmbedder::most_tokens() const {
  const std::int64_t context = encoder_.encoder ? encoder_.encoder->config.context : decoder_.decoder->config.context;
  return settings.most_tokens > 0 ? std::min(settings.most_tokens, context) : context;
}

Tensor TextEmbedder::hidden(const Tensor& tokens, const Tensor& lengths) const {
  return encoder_.encoder ? encoder_.encoder->hidden({tokens, lengths}) : decoder_.decoder->hidden(tokens);
}

TextEmbedder::Result TextEmbedder::embed(const std::vector<std::string>& texts) const {
  const NoGrad no_grad;
  const data::Tokenizer& tokenizer = encoder_.encoder ? *encoder_.tokenizer : *decoder_.tokenizer;
  const auto most = static_cast<std::size_t>(most_tokens());
  Result result;
  TokenRows rows;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = settings.prefix + texts[i];
    data::TokenPair row{tokenizer.encode_prompt(text), {}};
    result.tokens.push_back(row.ids.size());
    if (row.ids.empty()) throw FormatError(fmt::format("text {} is empty: the model reads no token of it", i + 1));
    if (row.ids.size() > most) {
      result.cut.push_back(i);
      row.ids = tokenizer.encode_prompt(text, {.most = most});
    }
    rows.push_back(std::move(row));
  }
  result.vectors = zeros({std::ssize(texts), width()});
  for_each_batch(rows, device_, false, [&](const EncoderInput& input, std::span<const std::size_t> at) {
    Tensor vectors = pool_texts(hidden(input.tokens, input.lengths), input.lengths, settings.pooling).squeeze(1);
    vectors = vectors.to(kCPU, f32);
    if (settings.normalize) vectors = vectors / clamp(sqrt(square(vectors).sum({-1}, true)), 1e-12, 1e30);
    for (std::size_t i = 0; i < at.size(); ++i) {
      result.vectors.select(0, static_cast<std::int64_t>(at[i])).copy_(vectors.select(0, static_cast<std::int64_t>(i)));
    }
  });
  return result;
}

Reranker::Reranker(const FilePath& path, const LoadOptions& options)
    : model_(load_encoder(path, options)), device_(options.device) {
  const std::int64_t labels = model_.encoder->config.classifier.labels;
  if (labels != 1) {
    throw FormatError(fmt::format(
        "{}: {}; a reranker has one score for a pair of texts", path.string(),
        labels == 0 ? "the model has no classifier" : fmt::format("the model's classifier has {} labels", labels)));
  }
  require_tokenizer(model_.tokenizer.get(), path);
}

Reranker::Result Reranker::scores(const std::string& query, const std::vector<std::string>& texts) const {
  const NoGrad no_grad;
  const EncoderConfig& config = model_.encoder->config;
  const auto most = static_cast<std::size_t>(config.context);
  Result result;
  TokenRows rows;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    rows.push_back(model_.tokenizer->encode_pair(query, texts[i]));
    if (rows.back().ids.size() <= most) continue;
    result.cut.push_back(i);
    rows.back() = model_.tokenizer->encode_pair(query, texts[i], {.most = most});
  }
  result.scores.resize(texts.size());
  // XLM-R has one type alone, whatever a template says.
  for_each_batch(
      rows, device_, config.token_types > 1, [&](const EncoderInput& input, std::span<const std::size_t> at) {
        const std::vector<double> scores = model_.encoder->classify(input).to(kCPU).flatten().to_vector<double>();
        for (std::size_t i = 0; i < at.size(); ++i) result.scores[at[i]] = scores[i];
      });
  return result;
}

}  // namespace etna::models
