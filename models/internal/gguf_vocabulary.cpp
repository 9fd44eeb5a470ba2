#include <etna/models/internal/gguf_vocabulary.h>

#include <fmt/format.h>

#include <etna/models/model_file.h>

namespace etna::models {

std::optional<data::VocabularyFields> vocabulary_to_write(const data::Tokenizer* tokenizer, std::int64_t vocabulary) {
  if (tokenizer == nullptr) return std::nullopt;
  std::optional<data::VocabularyFields> fields = vocabulary_fields(*tokenizer);
  if (!fields) {
    throw FormatError(fmt::format("a GGUF file cannot hold a tokenizer of the kind '{}'; write the model without it",
                                  tokenizer->name()));
  }
  if (static_cast<std::int64_t>(fields->tokens.size()) > vocabulary)
    throw FormatError(fmt::format("the tokenizer has {} tokens, the model {}", fields->tokens.size(), vocabulary));
  // Tables are often padded; a vocabulary is not.
  while (static_cast<std::int64_t>(fields->tokens.size()) < vocabulary) {
    fields->types.resize(fields->tokens.size(), 1);
    fields->types.push_back(5);
    fields->tokens.push_back(fmt::format("[unused{}]", fields->tokens.size()));
  }
  return fields;
}

void set_vocabulary(io::GgufWriter& to, const std::optional<data::VocabularyFields>& given) {
  if (!given) return to.set("tokenizer.ggml.model", "none");
  const data::VocabularyFields& fields = *given;
  const auto key = [](const char* last) { return std::string("tokenizer.ggml.") + last; };
  const auto id = [&](const char* last, const std::optional<std::int64_t>& value) {
    if (value) to.set(key(last), static_cast<std::uint32_t>(*value));
  };
  const auto flag = [&](const char* last, const std::optional<bool>& value) {
    if (value) to.set(key(last), *value);
  };
  to.set(key("model"), fields.model);
  const bool bytes = fields.kind() == data::VocabularyKind::byte_bpe;
  if (bytes) to.set(key("pre"), fields.pre.empty() ? "gpt-2" : fields.pre);
  to.set(key("tokens"), fields.tokens);
  std::vector<std::int32_t> types(fields.types);
  types.resize(fields.tokens.size(), 1);
  const bool pieces = fields.kind() == data::VocabularyKind::wordpiece;
  if (!bytes && !pieces) {
    std::vector<float> scores(fields.scores);
    scores.resize(fields.tokens.size());
    to.set(key("scores"), scores);
  }
  to.set(key("token_type"), types);
  if (!fields.merges.empty()) to.set(key("merges"), fields.merges);
  id("bos_token_id", fields.bos);
  id("eos_token_id", fields.eos);
  if (pieces) {
    id("cls_token_id", fields.bos);
    id("seperator_token_id", fields.eos);  // as llama.cpp spells it
  }
  id("unknown_token_id", fields.unk);
  id("padding_token_id", fields.pad);
  flag("add_bos_token", fields.add_bos);
  flag("add_eos_token", fields.add_eos);
  flag("add_space_prefix", fields.add_space_prefix);
  if (!fields.end_tokens.empty()) id("eot_token_id", fields.end_tokens[0]);
  if (!fields.chat_template.empty()) to.set("tokenizer.chat_template", fields.chat_template);
}

}  // namespace etna::models
