#pragma once

#include <string>

#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>
#include <etna/device/file_path.h>

namespace etna::data {

/// Merges the files next to a tokenizer.json into it: from tokenizer_config.json the BOS and EOS tokens and the chat
/// template, which may also be a file chat_template.jinja; from generation_config.json the BOS and EOS ids. They become
/// the field "tokenizer_config", so that this one file suffices from then on. JSON that already has this field is
/// returned unchanged. @throws FormatError if one of these files is damaged
std::string with_tokenizer_config(std::string json, const FilePath& file);

/// Applies that field. @param config its JSON @throws FormatError for tokens that are not in the vocabulary
void apply_tokenizer_config(const std::string& config, const std::string& name, TokenizerPlan& plan);

/// The same for a SentencePiece model. Tokens that are not in its vocabulary are ignored. @throws FormatError
void apply_tokenizer_config(const FilePath& file, VocabularyFields& vocabulary);

}  // namespace etna::data
