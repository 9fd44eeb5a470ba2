#pragma once

#include <map>
#include <memory>
#include <string>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/tensor/tensor.h>

namespace etna::data {

/// A tokenizer as an object in a checkpoint (tensor/io/checkpoint.h): word tokenizers as "text", one word per line;
/// others as "json".
struct TokenizerState {
  std::shared_ptr<const Tokenizer>& tokenizer;

  std::map<std::string, Tensor> state_dict() const;
  /// Sets the tokenizer if it is null. @throws FormatError for invalid state, and if it differs from the present one
  void load_state_dict(const std::map<std::string, Tensor>& state) const;
};

/// @param run for errors
/// @throws FormatError if the corpus was tokenized by another tokenizer than the one the run was trained with
void require_same_tokenizer(const Tokenizer& corpus, const Tokenizer& trained, const std::string& run);

}  // namespace etna::data
