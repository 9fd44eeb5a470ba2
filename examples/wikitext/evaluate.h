#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <etna/data/batches.h>
#include <etna/nn/neural_cache.h>
#include <etna/train/evaluator.h>

#include "corpus.h"
#include "text_model.h"

namespace wikitext {

struct SplitOptions {
  const char* title;                   ///< of the bar
  std::int64_t streams = 1, seq = 64;  ///< the split is read so; a short one has fewer streams
  etna::Device device;
  etna::DType precision = etna::f32;
  std::optional<etna::nn::NeuralCacheOptions> cache = {};  ///< then it is one stream
};

/// The mean loss of a split, read in contiguous streams. May be asked again while the model trains.
class Split {
 public:
  /// @param ids outlive the object, as the model does @throws FormatError for a split too short for one sequence
  Split(TextModel& model, const TokenIds& ids, SplitOptions options);
  double loss();

 private:
  etna::data::StreamBatches streams_;
  std::unique_ptr<TextModel::Memory> memory_;
  std::optional<etna::nn::NeuralCache> cache_;
  etna::training::Evaluator evaluator_;
};

/// How many streams a model's splits are read in: those of its training, unless it remembers what it read; then few, so
/// that it begins with nothing seldom.
std::int64_t streams_of_splits(const TextModel& model, const Settings& settings);

}  // namespace wikitext
