#pragma once

#include <map>
#include <memory>
#include <string>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/tensor/tensor.h>

namespace etna::data {

/// A tokenizer as an object of a checkpoint (tensor/io/checkpoint.h): words as "text", one a line; others as "json".
struct TokenizerState {
  std::shared_ptr<const Tokenizer>& tokenizer;

  std::map<std::string, Tensor> state_dict() const;
  /// Sets a tokenizer that is null. @throws FormatError for what is no tokenizer, and for another one than there is
  void load_state_dict(const std::map<std::string, Tensor>& state) const;
};

/// @throws FormatError where a corpus was made by another tokenizer than a run was trained with. @param run for the
/// message
void require_same_tokenizer(const Tokenizer& corpus, const Tokenizer& trained, const std::string& run);

}  // namespace etna::data
