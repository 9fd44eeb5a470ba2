#pragma once

#include <cstdint>
#include <optional>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/tensor/io/gguf.h>

namespace etna::models {

/// A tokenizer as a GGUF file has it, with as many tokens as the model; nothing for null.
/// @param vocabulary of the model @throws FormatError for a tokenizer that has no place there, or too many tokens
std::optional<data::VocabularyFields> vocabulary_to_write(const data::Tokenizer* tokenizer, std::int64_t vocabulary);

/// Sets the metadata of a vocabulary, or that there is none.
void set_vocabulary(io::GgufWriter& to, const std::optional<data::VocabularyFields>& fields);

}  // namespace etna::models
