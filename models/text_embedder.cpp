#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/autograd/autograd.h>
#include <etna/models/encoder.h>
#include <etna/models/internal/text_batches.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

LoadOptions without_head(LoadOptions options) {
  options.headless = true;
  return options;
}

/// @param width of the model's vectors
void check_dense_layers(const std::vector<DenseLayer>& layers, std::int64_t width, const FilePath& path) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t in = layers[i].weight.size(1);
    if (in != width)
      throw FormatError(fmt::format("{}: dense layer {} reads vectors of {} numbers; there are {} in front of it",
                                    path.string(), i + 1, in, width));
    width = layers[i].weight.size(0);
  }
}

}  // namespace

Tensor DenseLayer::operator()(const Tensor& x) const {
  const Tensor y = linear(x, weight, bias);
  return activation ? activate(y, *activation) : tanh(y);
}

void EmbeddingSettings::choose_prompt(const std::string& name) {
  const auto found = prompts.find(name);
  if (found != prompts.end()) {
    prefix = found->second;
    return;
  }
  std::vector<std::string> names;
  for (const auto& [known, text] : prompts) names.push_back(known);
  throw FormatError(names.empty()
                        ? fmt::format("there is no prompt '{}': the model's files have none", name)
                        : fmt::format("there is no prompt '{}'; the model has {}", name, fmt::join(names, ", ")));
}

TextEmbedder::TextEmbedder(const FilePath& path, const LoadOptions& options)
    : settings(embedding_settings(path)), device_(options.device) {
  if (is_encoder(path)) {
    encoder_ = load_encoder(path, options);
  } else {
    decoder_ = load_model(path, without_head(options));
  }
  require_tokenizer((encoder_.encoder ? encoder_.tokenizer : decoder_.tokenizer).get(), path);
  check_dense_layers(settings.dense, model_width(), path);
}

TextEmbedder::~TextEmbedder() = default;

std::int64_t TextEmbedder::model_width() const {
  return encoder_.encoder ? encoder_.encoder->config.width : decoder_.decoder->config.width;
}

std::int64_t TextEmbedder::width() const {
  return settings.dense.empty() ? model_width() : settings.dense.back().weight.size(0);
}

std::int64_t TextEmbedder::most_tokens() const {
  const std::int64_t context = encoder_.encoder ? encoder_.encoder->config.context : decoder_.decoder->config.context;
  return settings.most_tokens > 0 ? std::min(settings.most_tokens, context) : context;
}

Tensor TextEmbedder::vectors_of(const EncoderInput& input) const {
  const Tensor hidden = encoder_.encoder ? encoder_.encoder->hidden(input) : hidden_of_texts(*decoder_.decoder, input);
  Tensor x = pool_texts(hidden, input.lengths, settings.pooling).squeeze(1).to(kCPU, f32);
  for (const DenseLayer& layer : settings.dense) x = layer(x);
  return settings.normalize ? x / clamp(sqrt(square(x).sum({-1}, true)), 1e-12, 1e30) : x;
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
    const Tensor vectors = vectors_of(input);
    for (std::size_t i = 0; i < at.size(); ++i) {
      result.vectors.select(0, static_cast<std::int64_t>(at[i])).copy_(vectors.select(0, static_cast<std::int64_t>(i)));
    }
  });
  return result;
}

}  // namespace etna::models
