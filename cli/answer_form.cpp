#include "answer_form.h"

#include <filesystem>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/device/error.h>
#include <etna/train/progress.h>

namespace etna::cli {
namespace {

/// Every text can be spelled by it, so that a form can be checked without a model.
models::GrammarVocabulary vocabulary_of_bytes() {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  texts.emplace_back();
  return {std::move(texts), {256}};
}

/// A schema, not the name of its file.
bool is_schema(const std::string& value) {
  const std::size_t first = value.find_first_not_of(" \t\r\n");
  return first != std::string::npos && (value[first] == '{' || value == "true" || value == "false");
}

std::string form_file(const std::string& option, const std::string& file) {
  constexpr std::size_t kMost = models::GrammarLimits{}.source_bytes;
  std::error_code none;
  const std::uintmax_t bytes = std::filesystem::file_size(file, none);
  if (!none && bytes > kMost)
    throw FormatError(fmt::format("{} {}: the file has {} bytes; wanted at most {}", option, file, bytes, kMost));
  return data::read_text_file(file);
}

/// Why a text is none of its kind; empty where it is.
template <typename Compile>
std::string why_not(Compile compile, const std::string& source) {
  try {
    compile(vocabulary_of_bytes(), source, {});
    return {};
  } catch (const models::GrammarError& error) {
    return training::printable(error.what());
  }
}

}  // namespace

void add_form_options(CLI::App& app, FormOptions& options) {
  const CLI::Validator schema(
      [](const std::string& value) {
        return is_schema(value) ? why_not(models::json_schema_grammar, value) : std::string();
      },
      "");
  const CLI::Validator regex([](const std::string& value) { return why_not(models::regex_grammar, value); }, "");
  CLI::Option* json = app.add_option("--json-schema", options.json_schema,
                                     "write JSON that validates against this JSON schema: a file, or the schema itself")
                          ->check(schema);
  CLI::Option* grammar =
      app.add_option("--grammar", options.grammar, "write a text of the grammar in this file (GBNF)")->excludes(json);
  app.add_option("--regex", options.regex, "write a text that matches this regular expression as a whole")
      ->check(regex)
      ->excludes(json)
      ->excludes(grammar);
}

AnswerForm::AnswerForm(const FormOptions& options) {
  if (options.json_schema) {
    const bool text = is_schema(*options.json_schema);
    name_ = text ? "--json-schema" : fmt::format("--json-schema {}", *options.json_schema);
    if (!text) file_ = *options.json_schema;
    source_ = text ? *options.json_schema : form_file("--json-schema", *options.json_schema);
    compile_ = models::json_schema_grammar;
  } else if (options.grammar) {
    name_ = fmt::format("--grammar {}", *options.grammar);
    file_ = *options.grammar;
    source_ = form_file("--grammar", *options.grammar);
    compile_ = models::gbnf_grammar;
  } else if (options.regex) {
    name_ = "--regex";
    source_ = *options.regex;
    compile_ = models::regex_grammar;
  }
  if (compile_ == nullptr) return;
  if (const std::string why = why_not(compile_, source_); !why.empty())
    throw FormatError(fmt::format("{}: {}", name_, why));
}

std::shared_ptr<models::TokenGrammar> AnswerForm::grammar(const data::Tokenizer& tokenizer,
                                                          std::int64_t vocabulary) const {
  if (compile_ == nullptr) return nullptr;
  try {
    return compile_(models::GrammarVocabulary(tokenizer, vocabulary), source_, {});
  } catch (const models::GrammarError& error) {
    throw FormatError(fmt::format("{}: {}", name_, error.what()));
  }
}

}  // namespace etna::cli
