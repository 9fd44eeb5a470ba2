#pragma once

#include <optional>
#include <string>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/file_path.h>
#include <etna/models/decoder.h>

namespace etna::models {

/// Writes a decoder as a GGUF file, as llama.cpp names and orders things.
/// @param format of matrices whose rows are whole blocks of it; null: as they are. Others become F16, vectors F32
/// @param tokenizer null: the file gets none
/// @throws FormatError for what a GGUF file cannot say: a tokenizer whose rule for words has no name there
void save_gguf_model(const FilePath& path, const Decoder& decoder, const data::Tokenizer* tokenizer,
                     const quant::BlockFormat* format = nullptr);

/// A tokenizer as a vocabulary of a GGUF file; nothing for one whose rules have no name there.
std::optional<data::VocabularyFields> vocabulary_fields(const data::Tokenizer& tokenizer);

}  // namespace etna::models
