#include <structure/defined_names.h>

#include <algorithm>
#include <cstddef>
#include <set>

namespace etna::structure {
namespace {

using Kind = DefinedName::Kind;

bool is_one_of(const std::string& token, const std::set<std::string>& words) { return words.contains(token); }

std::string text_of(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += (text.empty() ? "" : " ") + token;
  return text;
}

/// A parameter's type: without its name, initial value, qualifications and what does not tell overloads apart.
Tokens type_of_parameter(Tokens parameter, const Tokens& template_names) {
  parameter.erase(std::find(parameter.begin(), parameter.end(), "="), parameter.end());
  const Tokens pointer_to_function{"(", "*"};
  if (std::search(parameter.begin(), parameter.end(), pointer_to_function.begin(), pointer_to_function.end()) ==
      parameter.end()) {
    const auto bracket = std::find(parameter.begin(), parameter.end(), "[");
    const bool array = bracket != parameter.end();
    parameter.erase(bracket, parameter.end());
    const std::size_t n = parameter.size();
    const std::set<std::string> no_types{"const", "typename", "struct", "::"};
    if (n > 1 && is_word(parameter[n - 1]) && !is_one_of(parameter[n - 2], no_types)) parameter.pop_back();
    if (array) parameter.emplace_back("*");
  }
  Tokens type;
  const bool refers = std::any_of(parameter.begin(), parameter.end(),
                                  [](const std::string& token) { return token == "&" || token == "*"; });
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    const std::string& token = parameter[i];
    if (token == "typename" || token == "struct" || (token == "const" && !refers)) continue;
    if (token == "::" || (i + 1 < parameter.size() && parameter[i + 1] == "::" && is_word(token))) continue;
    const auto named = std::find(template_names.begin(), template_names.end(), token);
    type.push_back(named == template_names.end() ? token : "$" + std::to_string(named - template_names.begin()));
  }
  return type;
}

class DefinitionReader {
 public:
  explicit DefinitionReader(const Tokens& tokens) : tokens_(tokens) {}

  std::vector<DefinedName> read() {
    while (at_ < tokens_.size()) names("", false), ++at_;
    return std::move(found_);
  }

 private:
  bool is(const char* token, std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead] == token;
  }

  /// From an opening sign to behind the one that closes it.
  void skip_pair(const char* open, const char* close) {
    int depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      if (is(open)) ++depth;
      if (is(close) && --depth == 0) break;
    }
    ++at_;
  }
  bool skip_brackets() {
    if (is("("))
      skip_pair("(", ")");
    else if (is("["))
      skip_pair("[", "]");
    else if (is("{"))
      skip_pair("{", "}");
    else
      return false;
    return true;
  }
  void skip_statement() {
    while (at_ < tokens_.size() && !is(";"))
      if (!skip_brackets()) ++at_;
    ++at_;
  }

  /// The inside of a namespace, up to its closing brace.
  void names(const std::string& scope, bool internal) {
    while (at_ < tokens_.size() && !is("}")) {
      if (is("inline") && is("namespace", 1)) ++at_;
      if (is("namespace"))
        enter(scope, internal);
      else if (is("extern") && is("{", 1))
        at_ += 2, names(scope, internal), ++at_;
      else
        declaration(scope, internal);
    }
  }

  void enter(const std::string& scope, bool internal) {
    std::string inner = scope, name;
    for (++at_; at_ < tokens_.size() && !is("{") && !is("="); ++at_) {
      if (is("::")) continue;
      name = tokens_[at_];
      inner += name + "::";
    }
    if (is("=")) return alias(scope, name, internal);
    ++at_;
    names(inner, internal || name.empty());
    ++at_;
  }

  /// @param at_ of the "="
  void alias(const std::string& scope, const std::string& name, bool internal) {
    const std::size_t begin = ++at_;
    skip_statement();
    const Tokens target(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                        tokens_.begin() + static_cast<std::ptrdiff_t>(at_) - 1);
    found_.push_back({Kind::alias, scope + name, text_of(target), internal});
  }

  /// "template <typename T, int n>". @return false for a specialization
  bool template_header(Tokens& template_names) {
    const std::size_t begin = ++at_;
    skip_pair("<", ">");
    for (const Tokens& parameter : split(tokens_, begin + 1, at_ - 1)) {
      const Tokens named(parameter.begin(), std::find(parameter.begin(), parameter.end(), "="));
      template_names.push_back(named.empty() ? "" : named.back());
    }
    if (is("requires")) {
      ++at_;
      if (is("(")) return skip_brackets();
      while (is("::", 1)) at_ += 2;
      ++at_;
      if (is("<")) skip_pair("<", ">");
    }
    return at_ > begin + 2;
  }

  void declaration(const std::string& scope, bool internal) {
    if (is("using") && is("=", 2)) {
      const std::string name = tokens_[at_ + 1];
      at_ += 2;
      return alias(scope, name, internal);
    }
    const std::set<std::string> no_definitions{"using", "typedef", "friend", "static_assert", "extern"};
    if (is_one_of(tokens_[at_], no_definitions) || (is("template") && !is("<", 1))) return skip_statement();
    Tokens template_names;
    bool general = true;
    while (is("template")) general = template_header(template_names) && general;
    Declaration d{scope, internal, template_names};
    while (at_ < tokens_.size() && !ends(d)) {}
    if (!general) return;
    for (DefinedName& name : d.names)
      if (!name.full.empty()) found_.push_back(std::move(name));
  }

  struct Declaration {
    std::string scope;
    bool internal;
    Tokens template_names;
    std::vector<DefinedName> names = {};
    bool is_type = false, has_body = false, has_parameters = false, initializes_members = false;
    std::size_t type_name = 0;  ///< its token's index; 0: not seen
    std::size_t name = 0;       ///< that of the last word outside of brackets
  };

  void define(Declaration& d, Kind kind, std::size_t name, const std::string& signature = "") {
    if (name == 0 || tokens_[name - 1] == "::" || tokens_[name - 1] == "~") return;
    if (kind == Kind::type && (tokens_[name + 1] == "<" || tokens_[name + 1] == "::")) return;
    d.names.push_back({kind, d.scope + tokens_[name], signature, d.internal});
  }

  /// Reads on. @return true behind the declaration's end
  bool ends(Declaration& d) {
    const std::string& token = tokens_[at_];
    if (token == ";") {
      ++at_;
      if (!d.has_parameters && !(d.is_type && d.name == d.type_name)) define(d, Kind::variable, d.name);
      return true;
    }
    if (token == "}") return true;  // a macro without a semicolon
    if (token == "=" && d.has_parameters) return skip_statement(), true;
    if (token == "=") {
      define(d, Kind::variable, d.name);
      return skip_statement(), true;
    }
    if (token == "(") return parameters(d), false;
    if (token == "{") return brace(d);
    if (token == "[") return skip_brackets(), false;
    if (token == "<" && at_ > 0 && is_word(tokens_[at_ - 1])) return skip_pair("<", ">"), false;
    if (token == ":" && d.has_parameters) d.initializes_members = true;
    if (token == "static") d.internal = true;
    if (token == "operator") return operator_name(d), false;
    const std::set<std::string> of_types{"struct", "class", "union", "enum"};
    if (is_one_of(token, of_types)) {
      d.is_type = true;
    } else if (is_word(token) && token != "final") {
      if (d.is_type && d.type_name == 0) d.type_name = at_;
      if (!(d.is_type && d.name == d.type_name && d.type_name != 0) || d.has_body) d.name = at_;
    }
    ++at_;
    return false;
  }

  void operator_name(Declaration& d) {
    d.name = 0;  // operators are told apart by their parameters' types, which are of the source
    do ++at_;
    while (at_ < tokens_.size() && !is("("));
    if (is(")", 1)) at_ += 2;
    d.has_parameters = true;
  }

  void parameters(Declaration& d) {
    const std::set<std::string> asides{"alignas", "noexcept", "decltype", "requires", "__attribute__", "explicit"};
    const std::size_t open = at_;
    skip_brackets();
    if (d.has_parameters || open == 0 || is_one_of(tokens_[open - 1], asides)) return;
    d.has_parameters = true;
    std::string signature;
    for (const Tokens& parameter : split(tokens_, open + 1, at_ - 1))
      signature += text_of(type_of_parameter(parameter, d.template_names)) + ", ";
    define(d, Kind::function, open - 1, signature);
  }

  bool brace(Declaration& d) {
    const bool of_member = d.initializes_members && (is_word(tokens_[at_ - 1]) || tokens_[at_ - 1] == ">");
    const bool of_type = d.is_type && !d.has_parameters && !d.has_body;
    skip_brackets();
    if (of_member) return false;
    if (of_type) {
      define(d, Kind::type, d.type_name);
      d.has_body = true;
      d.name = d.type_name;
      return false;
    }
    if (!d.has_parameters) {
      define(d, Kind::variable, d.name);
      skip_statement();
      return true;
    }
    while (is("catch")) {
      ++at_;
      skip_brackets(), skip_brackets();
    }
    return true;
  }

  const Tokens& tokens_;
  std::size_t at_ = 0;
  std::vector<DefinedName> found_;
};

}  // namespace

std::vector<DefinedName> defined_names(const Tokens& tokens) { return DefinitionReader(tokens).read(); }

bool clash(const DefinedName& a, const DefinedName& b) {
  if (a.full != b.full) return false;
  if (a.kind == Kind::function && b.kind == Kind::function)
    return a.signature == b.signature && (a.internal || b.internal);
  if (a.kind == Kind::alias && b.kind == Kind::alias) return a.signature != b.signature;
  const bool one_function = a.kind == Kind::function || b.kind == Kind::function;
  return !one_function || a.internal || b.internal;
}

}  // namespace etna::structure
