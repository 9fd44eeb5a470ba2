#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <etna/models/grammar/grammar.h>

namespace etna::models::fixtures {

/// Each byte is a token, and id 256 ends a text.
inline const GrammarVocabulary& byte_vocabulary() {
  static const GrammarVocabulary vocabulary = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    texts.emplace_back();
    return GrammarVocabulary(std::move(texts), {256});
  }();
  return vocabulary;
}

/// All bytes, and pieces of JSON and of characters, many of which end in the middle of something.
inline const std::vector<std::string>& piece_texts() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    texts.emplace_back();
    for (const char* piece : {"{\"",
                              "\":",
                              "\",",
                              "\"}",
                              "\": \"",
                              "\",\n",
                              "}}",
                              "]}",
                              "},",
                              "[{",
                              "[]",
                              "{}",
                              "true",
                              "false",
                              "null",
                              "tru",
                              "ab",
                              "abc",
                              " a",
                              "  ",
                              "\n  ",
                              "\\n",
                              "\\\"",
                              "\\u",
                              "\\ud83d",
                              "\\ude00",
                              "12",
                              "123",
                              "0.",
                              ".5",
                              "e1",
                              "-1",
                              "00",
                              "\xC3",
                              "\xC3\xA9",
                              "\xE2\x82",
                              "\xE2\x82\xAC",
                              "\x82\xAC",
                              "\xF0\x9F",
                              "\xF0\x9F\x98",
                              "\x98\x80",
                              "\xF0\x9F\x98\x80",
                              "a\xC3",
                              "\xA9\"",
                              "\xA9z",
                              "name",
                              "\"name\"",
                              "\"na",
                              "id",
                              "\"id\":",
                              "ab",
                              "zz",
                              "2024-",
                              "02-29",
                              "T1",
                              "1:",
                              "aaaaaaaaaaaaaaaa",
                              ""})
      texts.emplace_back(piece);
    return texts;
  }();
  return all;
}

inline const GrammarVocabulary& piece_vocabulary() {
  static const GrammarVocabulary vocabulary(piece_texts(), {256});
  return vocabulary;
}

/// The state after a text; kRefused if it cannot begin so.
inline TokenGrammar::State state_after(TokenGrammar& grammar, std::string_view text) {
  TokenGrammar::State state = TokenGrammar::kStart;
  for (const char c : text) state = grammar.next(state, static_cast<unsigned char>(c));
  return state;
}

/// Whether a whole text has the form; the grammar's first 256 tokens must be the bytes.
inline bool accepts(TokenGrammar& grammar, std::string_view text) {
  const TokenGrammar::State state = state_after(grammar, text);
  return state != TokenGrammar::kRefused && grammar.may_end(state);
}

inline bool is_allowed(TokenGrammar& grammar, TokenGrammar::State state, std::int32_t token) {
  return (grammar.allowed(state)[static_cast<std::size_t>(token) / 32] >> token % 32 & 1) != 0;
}

/// A text of random allowed tokens, "" if it did not end within `most` tokens. After `patience` tokens, those that
/// close something are taken where they are allowed.
inline std::string random_text(TokenGrammar& grammar, const std::function<std::string(std::int32_t)>& text_of,
                               std::mt19937& random, int patience = 40, int most = 4000) {
  std::string text;
  TokenGrammar::State state = TokenGrammar::kStart;
  for (int n = 0; n < most; ++n) {
    const auto mask = grammar.allowed(state);
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < static_cast<std::size_t>(grammar.vocabulary()); ++i)
      if ((mask[i / 32] >> i % 32 & 1) != 0) tokens.push_back(static_cast<std::int32_t>(i));
    if (tokens.empty()) {
      ADD_FAILURE() << "nothing may follow " << text;
      return text;
    }
    std::int32_t token = tokens[random() % tokens.size()];
    if (grammar.may_end(state) && (n > patience || random() % 3 == 0)) return text;
    // Quotes and brackets are rare among all bytes.
    if (random() % 8 == 0 || n > patience) {
      for (const std::int32_t closing : tokens) {
        const std::string piece = text_of(closing);
        if (piece.size() == 1 && std::string_view("\"}],:").find(piece[0]) != std::string_view::npos) {
          token = closing;
          if (piece != "," && random() % 3 != 0) break;
        }
      }
    }
    const TokenGrammar::State next = grammar.next(state, token);
    if (next == TokenGrammar::kRefused) {
      ADD_FAILURE() << "token " << token << " was allowed after " << text;
      return text;
    }
    text += text_of(token);
    state = next;
  }
  return {};
}

inline std::string byte_text(std::int32_t token) {
  return token < 256 ? std::string(1, static_cast<char>(token)) : std::string();
}

/// What a refusal says; "" if nothing is refused.
inline std::string refusal_of(const std::function<void()>& make) {
  try {
    make();
  } catch (const GrammarError& error) {
    return error.what();
  }
  return "";
}

}  // namespace etna::models::fixtures
