#pragma once

#include <string>

#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>
#include <etna/device/file_path.h>

namespace etna::data {

/// A tokenizer.json with what lies beside it: of tokenizer_config.json the tokens that begin and end a text and the
/// chat template, which may also be a file chat_template.jinja; of generation_config.json the ids that begin and end
/// one. They become its field "tokenizer_config", so that one file is enough from then on. A text that has this field
/// stays as it is. @throws FormatError for a file beside it that is damaged
std::string with_tokenizer_config(std::string json, const FilePath& file);

/// Reads that field. @param config its text @throws FormatError for tokens that are not in the vocabulary
void apply_tokenizer_config(const std::string& config, const std::string& name, TokenizerPlan& plan);

/// The same for a SentencePiece model. Tokens that it does not have are left out. @throws FormatError
void apply_tokenizer_config(const FilePath& file, VocabularyFields& vocabulary);

}  // namespace etna::data
