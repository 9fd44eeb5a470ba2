#include <etna/serve/grammars.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/models/decoder.h>
#include <etna/models/grammar/grammar.h>
#include <etna/serve/api_error.h>
#include <etna/serve/engine.h>

namespace etna::serve {
namespace {

const char* field_of(OutputForm form) {
  if (form == OutputForm::regex) return "regex";
  return form == OutputForm::gbnf ? "grammar" : "response_format";
}

std::shared_ptr<models::TokenGrammar> compiled(const models::GrammarVocabulary& vocabulary,
                                               const OutputFormat& format) {
  switch (format.form) {
    case OutputForm::json_object:
      return models::json_object_grammar(vocabulary);
    case OutputForm::json_schema:
      return models::json_schema_grammar(vocabulary, format.source);
    case OutputForm::regex:
      return models::regex_grammar(vocabulary, format.source);
    case OutputForm::gbnf:
      return models::gbnf_grammar(vocabulary, format.source);
    case OutputForm::text:
      break;
  }
  return nullptr;
}

}  // namespace

Grammars::Grammars(std::size_t kept) : most_(kept) {}
Grammars::~Grammars() = default;

std::shared_ptr<const models::GrammarVocabulary> Grammars::vocabulary(const ServedModel& model) {
  const std::lock_guard lock(mutex_);
  auto& known = vocabularies_[model.tokenizer];
  if (known == nullptr)
    known = std::make_shared<const models::GrammarVocabulary>(*model.tokenizer, model.decoder->config.vocabulary);
  return known;
}

std::shared_ptr<models::TokenGrammar> Grammars::compile(const ServedModel& model, const OutputFormat& format) {
  if (format.form == OutputForm::text) return nullptr;
  const char* field = field_of(format.form);
  if (model.tokenizer == nullptr)
    throw bad_request(field, fmt::format("the model '{}' has no tokenizer, so its answers have no form", model.name));
  const std::string key = fmt::format("{} {} {}", model.name, static_cast<int>(format.form), format.source);
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.key == key; });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return kept_.front().grammar;
    }
  }
  std::shared_ptr<models::TokenGrammar> grammar;
  try {
    grammar = compiled(*vocabulary(model), format);
  } catch (const models::GrammarError& error) {
    throw bad_request(field, error.what(), "invalid_format");
  }
  const std::lock_guard lock(mutex_);
  kept_.push_front({key, grammar});
  if (kept_.size() > most_) kept_.pop_back();
  return grammar;
}

}  // namespace etna::serve
