#include <etna/models/encoder.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <etna/models/internal/table_rows.h>
#include <etna/models/internal/text_masks.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::models {
namespace {

/// Distances from this one on share a bucket (Raffel et al. 2020).
constexpr std::int64_t kFarthest = 128;

const EncoderConfig& encoder_checked(const EncoderConfig& config) {
  config.check();
  return config;
}

FreshWeights fresh_encoder_weights(const EncoderConfig& config) {
  DecoderConfig sizes;
  sizes.layers = config.layers;
  sizes.scaled_start = false;
  return FreshWeights(sizes);
}

/// The bucket of a distance from a query to a key: one for each of the near ones, the others by their logarithm, and
/// half of all for keys behind the query.
std::int64_t bucket_of(std::int64_t distance, std::int64_t buckets) {
  const std::int64_t half = buckets / 2, exact = half / 2, steps = std::abs(distance);
  const std::int64_t side = distance > 0 ? half : 0;
  if (steps < exact) return side + steps;
  const float part = std::log(static_cast<float>(steps) / static_cast<float>(exact)) /
                     static_cast<float>(std::log(static_cast<double>(kFarthest) / static_cast<double>(exact)));
  const auto far = exact + static_cast<std::int64_t>(part * static_cast<float>(half - exact));
  return side + std::min(far, half - 1);
}

Tensor relative_buckets(std::int64_t buckets) {
  if (buckets == 0) return {};
  std::vector<std::int64_t> list;
  for (std::int64_t distance = -kFarthest; distance <= kFarthest; ++distance)
    list.push_back(bucket_of(distance, buckets));
  return from_vector(list);
}

Owned<Projection> table_if(bool there, Weights& weights, const char* name, std::int64_t width, std::int64_t rows) {
  return there ? std::make_unique<Projection>(weights, name, width, rows, false) : nullptr;
}

}  // namespace

Encoder::Encoder(const EncoderConfig& given, Weights& weights)
    : config(encoder_checked(given)),
      token_embedding(weights, "token_embedding", config.embedding_width, config.vocabulary, false),
      position_embedding(table_if(config.positions == PositionKind::learned, weights, "position_embedding",
                                  config.embedding_width, config.context + config.position_offset)),
      type_embedding(
          table_if(config.token_types > 0, weights, "type_embedding", config.embedding_width, config.token_types)),
      embedding_norm(weights, "embedding_norm", NormKind::layer, config.embedding_width, config.norm_eps,
                     config.norm_bias),
      embedding_projection(config.embedding_width != config.width
                               ? std::make_unique<Projection>(weights, "embedding_projection", config.embedding_width,
                                                              config.width, true)
                               : nullptr),
      relative_bias(
          table_if(config.relative_buckets > 0, weights, "relative_bias", config.heads, config.relative_buckets)),
      dropout(config.dropout),
      buckets_(relative_buckets(config.relative_buckets)) {
  register_module("token_embedding", token_embedding);
  if (position_embedding) register_module("position_embedding", *position_embedding);
  if (type_embedding) register_module("type_embedding", *type_embedding);
  register_module("embedding_norm", embedding_norm);
  if (embedding_projection) register_module("embedding_projection", *embedding_projection);
  if (relative_bias) register_module("relative_bias", *relative_bias);
  register_module("dropout", dropout);
  register_module("blocks", blocks);
  for (std::int64_t i = 0; i < config.layers; ++i) blocks.emplace_back(weights, fmt::format("blocks.{}", i), config, i);
  if (config.pre_norm) {
    norm = std::make_unique<Norm>(weights, "norm", NormKind::layer, config.width, config.norm_eps, config.norm_bias);
    register_module("norm", *norm);
  }
  if (config.classifier.labels > 0) {
    classifier = std::make_unique<EncoderClassifier>(weights, "classifier", config);
    register_module("classifier", *classifier);
  }
}

Encoder::Encoder(const EncoderConfig& config)
    : Encoder(config, *std::make_unique<FreshWeights>(fresh_encoder_weights(config))) {}

std::unique_ptr<nn::Module> Encoder::another() const {
  if (frozen()) throw Error("clone: an encoder with weights in block formats cannot be copied; load its file again");
  return std::make_unique<Encoder>(config);
}

/// @param bounds of the texts in each row; undefined: each row is one text
Tensor Encoder::embedded(const EncoderInput& input, const Tensor& bounds) const {
  const Device device = input.tokens.device();
  const std::int64_t steps = input.tokens.size(1);
  Tensor x = table_rows(token_embedding, input.tokens);
  if (type_embedding) {
    const Tensor types = input.types.defined() ? input.types : zeros({1}, {i64, device});
    x = x + table_rows(*type_embedding, types);
  }
  if (position_embedding) {
    Tensor positions = arange(0, steps, 1, {i64, device});
    if (bounds.defined()) {
      const Tensor begin = bounds.select(-1, 0).to(i64);
      // What is behind the last text may be longer than the table.
      const Tensor behind = begin.eq(input.lengths.to(i64).sum({-1}, true));
      positions = masked_fill(positions - begin, behind, 0);
    }
    x = x + table_rows(*position_embedding, positions + static_cast<double>(config.position_offset));
  }
  x = dropout(embedding_norm(x));
  return embedding_projection ? (*embedding_projection)(x) : x;
}

EncoderSight Encoder::sight(const EncoderInput& input, const Tensor& bounds) const {
  const std::int64_t steps = input.tokens.size(1);
  EncoderSight sight{.documents = bounds};
  const bool windows = steps > config.window + 1 && std::any_of(config.windowed.begin(), config.windowed.end(),
                                                                [](bool windowed) { return windowed; });
  if (!windows && !relative_bias) return sight;
  const Tensor distances = position_distances(input.tokens.device(), steps);
  if (windows) sight.window = near_positions(bounds, distances, config.window);
  if (relative_bias) {
    const Tensor rows = table_rows(*relative_bias, buckets_.on(distances.device()));
    const Tensor places = clamp(distances, -static_cast<double>(kFarthest), static_cast<double>(kFarthest)) +
                          static_cast<double>(kFarthest);
    const Tensor bias = embedding(rows, places).permute({2, 0, 1}).unsqueeze(0);
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    sight.mask = bounds.defined() ? masked_fill(bias, logical_not(same_text(bounds)), kHidden) : bias;
  }
  return sight;
}

Tensor Encoder::hidden(const EncoderInput& input) const {
  const Tensor& tokens = input.tokens;
  if (!tokens.defined() || tokens.dim() != 2 || tokens.size(1) < 1) {
    throw ShapeError(fmt::format("Encoder: tokens are {}; wanted [B, T], T at least 1",
                                 tokens.defined() ? str(tokens.shape()) : "undefined"));
  }
  if (input.types.defined() && input.types.shape() != tokens.shape())
    throw ShapeError(
        fmt::format("Encoder: tokens are {}, their types {}", str(tokens.shape()), str(input.types.shape())));
  if (input.lengths.defined() && (input.lengths.dim() != 2 || input.lengths.size(0) != tokens.size(0)))
    throw ShapeError(fmt::format("Encoder: tokens are {}, lengths {}; wanted [B, N]", str(tokens.shape()),
                                 str(input.lengths.shape())));
  if (!input.lengths.defined() && tokens.size(1) > config.context) {
    throw ShapeError(fmt::format("Encoder: tokens {} are longer than the {} positions the model has",
                                 str(tokens.shape()), config.context));
  }
  const Tensor bounds = input.lengths.defined() ? document_bounds(input.lengths, tokens.size(1)) : Tensor();
  Tensor x = embedded(input, bounds);
  const EncoderSight seen = sight(input, bounds);
  for (const EncoderBlock& block : blocks) x = block.forward(x, seen);
  return norm ? (*norm)(x) : x;
}

Tensor Encoder::classify(const EncoderInput& input) const {
  if (!classifier) throw Error("classify: the model has no classifier, which its file would have to hold");
  return (*classifier)(pool_texts(hidden(input), input.lengths, config.classifier.pooling));
}

Tensor pool_texts(const Tensor& hidden, const Tensor& lengths, Pooling pooling) {
  if (hidden.dim() != 3) throw ShapeError(fmt::format("pool_texts: got {}; wanted [B, T, W]", str(hidden.shape())));
  const std::int64_t steps = hidden.size(1);
  if (!lengths.defined()) {
    if (pooling == Pooling::mean) return mean(hidden, {1}, true);
    return pooling == Pooling::cls ? hidden.slice(1, 0, 1) : hidden.slice(1, steps - 1, steps);
  }
  const Tensor sizes = lengths.to(i64), end = cumsum(sizes, -1), begin = end - sizes;
  const Tensor at = arange(0, steps, 1, {i64, hidden.device()});
  const auto in_all = [](const Tensor& x) { return x.unsqueeze(-1); };
  const Tensor one = pooling == Pooling::mean  ? (in_all(begin) <= at) & (at < in_all(end))
                     : pooling == Pooling::cls ? in_all(begin).eq(at) & (at < in_all(end))
                                               : in_all(end - 1.0).eq(at) & (in_all(begin) <= at);
  Tensor weights = one.to(hidden.dtype());
  if (pooling == Pooling::mean) weights = weights / in_all(clamp(sizes, 1.0, 1e18).to(hidden.dtype()));
  return matmul(weights, hidden);
}

const char* name(Pooling pooling) {
  return pooling == Pooling::mean ? "mean" : pooling == Pooling::cls ? "cls" : "last";
}

Pooling pooling_named(std::string_view given) {
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last})
    if (given == name(pooling)) return pooling;
  throw FormatError(fmt::format("the pooling '{}' is not known; there are mean, cls and last", given));
}

}  // namespace etna::models
