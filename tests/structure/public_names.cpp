#include <structure/public_names.h>

#include <cctype>
#include <regex>
#include <vector>

#include <structure/public_headers.h>
#include <structure/source_tree.h>

namespace etna::structure {
namespace {

/// The words and signs of a header, without comments, literals and preprocessor lines.
std::vector<std::string> tokens_of(const Source& source) {
  std::string text;
  bool continued = false;
  for (std::string line : source.lines) {
    const bool directive = continued || line.find_first_not_of(' ') == line.find('#');
    continued = directive && line.ends_with('\\');
    if (directive && (continued || line.find('#') != std::string::npos || line.starts_with(' '))) continue;
    text += line.substr(0, line.find("//")) + "\n";
  }
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
      }
    }
  }

 private:
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
  for (const Source& source : sources({".h"})) {
    if (is_public(source.path)) Reader(tokens_of(source), names).read();
  }
  static const std::regex row(R"(^ETNA_ELEMENTWISE\((\w+), (\d))");
  for (const Source& source : sources({".def"})) {
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (!std::regex_search(line, match, row)) continue;
      names.free[match[1]].insert("etna::" + match[1].str());
      if (match[2] != "3") names.methods.insert(match[1]);
    }
  }
  return names;
}

}  // namespace etna::structure
