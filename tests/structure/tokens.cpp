#include <structure/tokens.h>

#include <algorithm>
#include <cctype>

namespace etna::structure {
namespace {

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Where what begins here ends: behind the first `end` from there on.
std::size_t behind(std::string_view text, std::size_t from, std::string_view end) {
  const std::size_t found = text.find(end, from);
  return found == text.npos ? text.size() : found + end.size();
}

/// Behind a literal's closing quote. @param at of the opening one
std::size_t behind_literal(std::string_view text, std::size_t at) {
  const char quote = text[at++];
  for (; at < text.size() && text[at] != quote; ++at) at += text[at] == '\\' ? 1 : 0;
  return std::min(at + 1, text.size());
}

/// Behind a line that the next one may continue.
std::size_t behind_line(std::string_view text, std::size_t at) {
  do at = behind(text, at, "\n");
  while (at >= 2 && at < text.size() && text[at - 2] == '\\');
  return at;
}

}  // namespace

Tokens tokens_of(std::string_view text) {
  Tokens tokens;
  bool line_begins = true;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const std::string_view rest = text.substr(at);
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      line_begins = line_begins || c == '\n';
      ++at;
      continue;
    }
    if (rest.starts_with("//") || (c == '#' && line_begins)) {
      at = behind_line(text, at);
      line_begins = true;
      continue;
    }
    line_begins = false;
    if (rest.starts_with("/*")) {
      at = behind(text, at + 2, "*/");
    } else if (c == '"' || c == '\'') {
      at = behind_literal(text, at);
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      while (at < text.size() && (in_word(text[at]) || text[at] == '.' || text[at] == '\'')) ++at;
    } else if (starts_word(c)) {
      std::size_t end = at;
      while (end < text.size() && in_word(text[end])) ++end;
      const std::string_view word = text.substr(at, end - at);
      if (end < text.size() && text[end] == '"' && (word == "R" || word == "u8R")) {
        const std::size_t open = text.find('(', end);
        at = behind(text, open, ")" + std::string(text.substr(end + 1, open - end - 1)) + "\"");
      } else {
        tokens.emplace_back(word);
        at = end;
      }
    } else {
      tokens.emplace_back(rest.substr(0, rest.starts_with("::") ? 2 : 1));
      at += tokens.back().size();
    }
  }
  return tokens;
}

bool is_word(const std::string& token) { return starts_word(token[0]); }

std::vector<Tokens> split(const Tokens& tokens, std::size_t begin, std::size_t end) {
  std::vector<Tokens> parts;
  int depth = 0, angles = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const std::string& token = tokens[i];
    if (token == "," && depth == 0 && angles == 0) {
      parts.emplace_back();
      continue;
    }
    if (token == "(" || token == "{" || token == "[") ++depth;
    if (token == ")" || token == "}" || token == "]") --depth;
    if (token == "<" && i > begin && is_word(tokens[i - 1])) ++angles;
    if (token == ">" && angles > 0) --angles;
    if (parts.empty()) parts.emplace_back();
    parts.back().push_back(token);
  }
  return parts;
}

}  // namespace etna::structure
