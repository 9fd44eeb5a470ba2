#pragma once

#include <cstdint>
#include <span>

#include <etna/data/batches.h>
#include <etna/nn/language_model.h>
#include <etna/train/evaluator.h>

namespace wikitext {

/// The mean loss of a split, read in contiguous streams. May be asked again while the model trains.
class Split {
 public:
  /// @param title of the bar @param ids outlive the object @param batch streams at most: a short split has fewer
  /// @throws FormatError for a split too short for one sequence
  Split(const char* title, etna::nn::LanguageModel& model, std::span<const std::int32_t> ids, std::int64_t batch,
        etna::Device device, etna::DType precision);
  double loss();

 private:
  etna::data::StreamBatches streams_;
  etna::training::Evaluator evaluator_;
};

}  // namespace wikitext
