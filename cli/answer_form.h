#pragma once

#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include <etna/models/grammar/grammar.h>

/// The form that an answer must have: --json-schema, --grammar and --regex (docs/structured-output.md).
namespace etna::cli {

struct FormOptions {
  std::optional<std::string> json_schema, grammar, regex;  ///< one of them at most
};

/// Adds the options. What they say themselves is checked when they are read.
void add_form_options(CLI::App& app, FormOptions& options);

class AnswerForm {
 public:
  /// Reads and checks what the options name, before a model is loaded. @throws FormatError
  explicit AnswerForm(const FormOptions& options);
  /// For a model; null where any text will do. @throws FormatError for a tokenizer whose tokens no grammar can follow
  std::shared_ptr<models::TokenGrammar> grammar(const data::Tokenizer& tokenizer, std::int64_t vocabulary) const;

  /// The file that the form was read from; empty: none.
  const std::string& file() const { return file_; }

 private:
  std::string name_, source_, file_;
  std::shared_ptr<models::TokenGrammar> (*compile_)(const models::GrammarVocabulary&, std::string_view,
                                                    const models::GrammarLimits&) = nullptr;
};

}  // namespace etna::cli
