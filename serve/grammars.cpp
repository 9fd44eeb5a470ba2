#include <etna/serve/grammars.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/models/decoder.h>
#include <etna/models/grammar/grammar.h>
#include <etna/serve/api_error.h>
#include <etna/serve/engine.h>

namespace etna::serve {
namespace {

/// Forms with the markup of calls, which is spelled by special tokens.
bool of_calls(OutputForm form) { return form == OutputForm::parts || form == OutputForm::marked; }

/// Equal for equal forms.
std::string key_of(const ServedModel& model, const OutputFormat& format) {
  std::string key = fmt::format("{} {} {}", model.name, static_cast<int>(format.form), format.source);
  const auto add = [&](const std::string& text) { key += fmt::format(" {} {}", text.size(), text); };
  const auto add_words = [&](const std::vector<std::string>& words) {
    key += '[';
    for (const std::string& word : words) add(word);
    key += ']';
  };
  const auto add_texts = [&](const std::vector<models::GrammarText>& texts) {
    key += '[';
    for (const models::GrammarText& text : texts) {
      key += ';';
      for (const models::GrammarGroup& group : text) {
        key += group.optional ? '?' : '.';
        for (const models::GrammarPart& part : group.parts) {
          key += fmt::format(" {}", static_cast<int>(part.kind));
          add_words(part.texts);
        }
      }
    }
    key += ']';
  };
  const models::MarkedText& marked = format.marked;
  add_texts(format.texts);
  add_texts(marked.texts);
  add_texts(marked.objects);
  add_words(marked.markers);
  add_words(marked.closers);
  add_words({marked.hidden_open, marked.hidden_close, marked.hidden ? "hidden" : ""});
  return key;
}

const char* field_of(OutputForm form) {
  if (form == OutputForm::regex) return "regex";
  if (of_calls(form)) return "tools";
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
    case OutputForm::parts:
      return models::parts_grammar(vocabulary, format.texts);
    case OutputForm::marked:
      return models::marked_grammar(vocabulary, format.marked);
    case OutputForm::text:
      break;
  }
  return nullptr;
}

}  // namespace

Grammars::Grammars(std::size_t kept) : most_(kept) {}
Grammars::~Grammars() = default;

std::shared_ptr<const models::GrammarVocabulary> Grammars::vocabulary(const ServedModel& model, bool special) {
  const std::lock_guard lock(mutex_);
  auto& known = vocabularies_[{model.tokenizer, special}];
  const std::int64_t size = model.decoder->config.vocabulary;
  if (known == nullptr)
    known = std::make_shared<const models::GrammarVocabulary>(
        special ? models::GrammarVocabulary::with_special_tokens(*model.tokenizer, size)
                : models::GrammarVocabulary(*model.tokenizer, size));
  return known;
}

std::shared_ptr<models::TokenGrammar> Grammars::compile(const ServedModel& model, const OutputFormat& format) {
  if (format.form == OutputForm::text) return nullptr;
  const char* field = field_of(format.form);
  if (model.tokenizer == nullptr)
    throw bad_request(field, fmt::format("the model '{}' has no tokenizer, so its answers have no form", model.name));
  const std::string key = key_of(model, format);
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
    grammar = compiled(*vocabulary(model, of_calls(format.form)), format);
  } catch (const models::GrammarError& error) {
    throw bad_request(field, error.what(), "invalid_format");
  }
  const std::lock_guard lock(mutex_);
  kept_.push_front({key, grammar});
  if (kept_.size() > most_) kept_.pop_back();
  return grammar;
}

}  // namespace etna::serve
