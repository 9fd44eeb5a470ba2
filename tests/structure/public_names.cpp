#include <structure/public_names.h>

#include <cctype>
#include <cstdio>
#include <regex>
#include <sstream>
#include <vector>

namespace etna::structure {
namespace {

/// Everything that etna.h declares, macros expanded: what the preprocessor gives, without other libraries' headers.
std::string declarations() {
  const std::string command =
      ETNA_CXX_COMPILER " -std=c++20 -E -x c++ -I" ETNA_BINARY_DIR "/include " ETNA_SOURCE_DIR "/etna.h 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  std::string all, text;
  char buffer[65536];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) all.append(buffer, n);
  pclose(pipe);
  bool ours = false;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# "))
      ours = line.find("include/etna/") != std::string::npos;
    else if (ours)
      text += line + "\n";
  }
  return text;
}

/// The words and signs of a text, without literals.
std::vector<std::string> tokens_of(const std::string& text) {
  static const std::regex token(R"re("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|/\*[^]*?\*/|[A-Za-z_]\w*|::|[^\s\w])re");
  std::vector<std::string> tokens;
  for (std::sregex_iterator at(text.begin(), text.end(), token), end; at != end; ++at) {
    const char first = at->str()[0];
    if (first != '"' && first != '\'' && !at->str().starts_with("/*")) tokens.push_back(at->str());
  }
  return tokens;
}

bool is_word(const std::string& token) { return std::isalpha(static_cast<unsigned char>(token[0])) || token[0] == '_'; }

/// What a brace opens: a namespace, a class, or something else, whose inside is not looked at.
struct Scope {
  enum class Kind { names, type, other } kind = Kind::other;
  std::string name;
};

class Reader {
 public:
  Reader(const std::vector<std::string>& tokens, PublicNames& names) : tokens_(tokens), names_(names) {}

  void read() {
    for (at_ = 0; at_ < tokens_.size(); ++at_) {
      const std::string& token = tokens_[at_];
      if (token == "{") {
        scopes_.push_back(opening_);
        opening_ = {};
      } else if (token == "}") {
        if (!scopes_.empty()) scopes_.pop_back();
      } else if (token == "(") {
        if (parentheses_++ == 0) declared();
      } else if (token == ")") {
        --parentheses_;
      } else if (token == ";") {
        opening_ = {};
      } else if (parentheses_ == 0 && (token == "namespace" || token == "class" || token == "struct")) {
        opens(token == "namespace");
      } else if (parentheses_ == 0 && token == "using" && only_names()) {
        imported();
      }
    }
  }

 private:
  /// using space::name;
  void imported() {
    std::size_t at = at_ + 1;
    while (at + 2 < tokens_.size() && is_word(tokens_[at]) && tokens_[at + 1] == "::") at += 2;
    if (at > at_ + 1 && at + 1 < tokens_.size() && is_word(tokens_[at]) && tokens_[at + 1] == ";") add(tokens_[at]);
  }

  void opens(bool names) {
    if (at_ > 0 && tokens_[at_ - 1] == "enum") return;
    Scope scope{names ? Scope::Kind::names : Scope::Kind::type, ""};
    std::size_t at = at_ + 1;
    if (at < tokens_.size() && tokens_[at] == "[") {  // an attribute, [[nodiscard]]
      while (at < tokens_.size() && tokens_[at] != "]") ++at;
      at += 2;
    }
    while (at < tokens_.size() && (is_word(tokens_[at]) || tokens_[at] == "::")) {
      if (tokens_[at] != "final") scope.name += tokens_[at];
      ++at;
    }
    opening_ = scope;
    if (!names && only_names() && at < tokens_.size() && tokens_[at] != ";") add(scope.name);
  }

  /// A name in front of a parenthesis, with a type in front of it.
  void declared() {
    if (at_ < 2 || !is_word(tokens_[at_ - 1])) return;
    const std::string& before = tokens_[at_ - 2];
    const bool typed = (is_word(before) && before != "return" && before != "operator" && before != "explicit") ||
                       before == "&" || before == "*" || before == ">";
    if (!typed) return;
    if (only_names()) add(tokens_[at_ - 1]);
    if (!scopes_.empty() && scopes_.back().kind == Scope::Kind::type && scopes_.back().name == "Tensor")
      names_.methods.insert(tokens_[at_ - 1]);
  }

  bool only_names() const {
    for (const Scope& scope : scopes_) {
      if (scope.kind != Scope::Kind::names || scope.name.find("detail") != std::string::npos) return false;
    }
    return true;
  }

  void add(const std::string& name) {
    std::string qualified;
    for (const Scope& scope : scopes_) qualified += scope.name + "::";
    names_.free[name].insert(qualified + name);
  }

  const std::vector<std::string>& tokens_;
  PublicNames& names_;
  std::vector<Scope> scopes_;
  Scope opening_;
  std::size_t at_ = 0;
  int parentheses_ = 0;
};

}  // namespace

PublicNames public_names() {
  PublicNames names;
  const std::vector<std::string> tokens = tokens_of(declarations());
  Reader(tokens, names).read();
  return names;
}

}  // namespace etna::structure
