#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/error.h>
#include <etna/device/internal/os/terminal.h>
#include <etna/train/progress.h>

#include "commands.h"
#include "generation.h"
#include "line_reader.h"
#include "output.h"

namespace etna::cli {
namespace {

using training::printable;

struct TokenizeOptions {
  std::string model, text, file;
  bool given = false, no_special = false, prompt = false, ids = false, count = false, json = false;
};

/// Where a token lies in the text: bytes [begin, end).
struct TokenPlace {
  std::size_t begin, end;
};

/// What a token stands for, special tokens as they are spelled.
std::string text_of_token(std::int32_t id, const data::Tokenizer& tokenizer) {
  std::string text(tokenizer.token(id));
  data::DecodeState state{.show_special = true, .at_start = false};
  if (text.empty()) tokenizer.decode_next(id, state, text);
  return text;
}

/// The places of all tokens; nothing for those that the text does not hold, such as BOS. Empty if the tokens do not
/// spell the text, since the tokenizer changes it: then no place is certain.
std::vector<std::optional<TokenPlace>> places_in(std::string_view text, const std::vector<std::int32_t>& ids,
                                                 const data::Tokenizer& tokenizer) {
  const std::vector<std::int32_t> special = tokenizer.special_tokens();
  std::vector<std::optional<TokenPlace>> places;
  data::DecodeState state{.show_special = true};
  std::size_t at = 0;
  for (const std::int32_t id : ids) {
    std::string piece;
    tokenizer.decode_next(id, state, piece);
    // SentencePiece puts a space behind a special token, which the text may not have.
    if (!text.substr(at).starts_with(piece) && piece.starts_with(' ')) piece.erase(0, 1);
    if (text.substr(at).starts_with(piece)) {
      places.emplace_back(TokenPlace{at, at + piece.size()});
      at += piece.size();
    } else if (std::find(special.begin(), special.end(), id) != special.end()) {
      places.emplace_back();
    } else {
      return {};
    }
  }
  if (at != text.size()) places.clear();
  return places;
}

/// A line for each token: its id, its bytes in the text, and what it spells.
std::string table_of(const std::vector<std::int32_t>& ids, const std::vector<std::optional<TokenPlace>>& places,
                     const data::Tokenizer& tokenizer) {
  const std::size_t width = std::max<std::size_t>(2, std::to_string(tokenizer.size()).size());
  std::vector<std::string> bytes;
  for (const std::optional<TokenPlace>& place : places)
    bytes.push_back(place ? fmt::format("{}..{}", place->begin, place->end) : "-");
  std::size_t wide = 5;
  for (const std::string& b : bytes) wide = std::max(wide, b.size());
  std::string text = places.empty() ? fmt::format("{:>{}}  token\n", "id", width)
                                    : fmt::format("{:>{}}  {:<{}}  token\n", "id", width, "bytes", wide);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    text += fmt::format("{:>{}}  ", ids[i], width);
    if (!places.empty()) text += fmt::format("{:<{}}  ", bytes[i], wide);
    text += fmt::format("'{}'\n", printable(text_of_token(ids[i], tokenizer)));
  }
  return text;
}

/// One object; a piece that is no UTF-8 by itself, as one byte of a character, is escaped.
nlohmann::ordered_json tokens_as_json(const std::vector<std::int32_t>& ids,
                                      const std::vector<std::optional<TokenPlace>>& places,
                                      const data::Tokenizer& tokenizer) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string piece = text_of_token(ids[i], tokenizer);
    const bool utf8 = data::find_invalid_utf8(piece) >= piece.size();
    nlohmann::ordered_json token = {{"id", ids[i]}, {"token", utf8 ? piece : printable(piece)}};
    if (!places.empty() && places[i]) token["begin"] = places[i]->begin, token["end"] = places[i]->end;
    tokens.push_back(std::move(token));
  }
  return {{"tokenizer", tokenizer.name()}, {"vocabulary", tokenizer.size()}, {"count", ids.size()}, {"tokens", tokens}};
}

int tokenize(const TokenizeOptions& options) try {
  const bool piped = !options.given && options.file.empty() && !os::is_terminal(stdin);
  if (!options.given && options.file.empty() && !piped) {
    print_error("tokenize: give a text behind the model, a file with --file, or a text by standard input");
    return 2;
  }
  const std::shared_ptr<const data::Tokenizer> tokenizer = open_tokenizer(options.model);
  const std::string text = piped || options.text == "-" || options.file == "-" ? standard_input()
                           : options.given                                     ? options.text
                                                                               : data::read_text_file(options.file);
  const auto special = options.no_special ? data::SpecialTokens::as_text : data::SpecialTokens::recognize;
  const std::vector<std::int32_t> ids =
      options.prompt ? tokenizer->encode_prompt(text, {.special = special}) : tokenizer->encode(text, special);
  if (options.count) return print_all(fmt::format("{}\n", ids.size())), 0;
  if (options.ids) return print_all(fmt::format("{}\n", fmt::join(ids, " "))), 0;
  const std::vector<std::optional<TokenPlace>> places = places_in(text, ids, *tokenizer);
  if (options.json) {
    print_all(tokens_as_json(ids, places, *tokenizer).dump(2) + "\n");
  } else {
    print_all(table_of(ids, places, *tokenizer) + fmt::format("{} tokens, {} bytes\n",
                                                              training::with_commas(std::ssize(ids)),
                                                              training::with_commas(std::ssize(text))));
  }
  return 0;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_tokenize(CLI::App& app) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Show the tokens that a model reads of a text");
  command
      ->add_option("-m,--model,model", options->model,
                   "a tokenizer's file (tokenizer.json, a SentencePiece model, llama2.c's tokenizer.bin), or a model "
                   "that has one")
      ->required();
  CLI::Option* text = command->add_option("text", options->text,
                                          "the text; -: standard input, which is also read where it is no terminal "
                                          "and no text is given");
  command->add_option("-f,--file", options->file, "a file with it")->excludes(text);
  command->add_flag("--no-special", options->no_special, "take the spellings of special tokens as ordinary text");
  command->add_flag("--prompt", options->prompt, "with the tokens that the model expects around a prompt");
  CLI::Option* ids = command->add_flag("--ids", options->ids, "print the ids alone, on one line");
  CLI::Option* count = command->add_flag("--count", options->count, "print their number alone")->excludes(ids);
  command->add_flag("--json", options->json, "print JSON")->excludes(ids)->excludes(count);
  return {command, [options, text] {
            options->given = text->count() > 0;
            return cli::tokenize(*options);
          }};
}

}  // namespace etna::cli
