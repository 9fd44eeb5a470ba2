#include <structure/public_names.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <vector>

#include <structure/tokens.h>

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

/// What a brace opens: a namespace, a class, or something else, whose inside is not looked at.
struct Scope {
  enum class Kind { names, type, other } kind = Kind::other;
  std::string name;
  bool is_public = true;
};

/// A declaration without its initial value: what comes before "=", "{" or "[".
Tokens declarator(const Tokens& declaration) {
  return {declaration.begin(), std::find_if(declaration.begin(), declaration.end(), [](const std::string& token) {
            return token == "=" || token == "{" || token == "[";
          })};
}

/// The declared name, the last word after a type; empty if there is none.
std::string name_of(const Tokens& declared) {
  const std::size_t n = declared.size();
  return n < 2 || !is_word(declared[n - 1]) || declared[n - 2] == "::" || declared[n - 2] == "const" ? ""
                                                                                                     : declared[n - 1];
}

class Reader {
 public:
  Reader(const std::vector<std::string>& tokens, PublicNames& names) : tokens_(tokens), names_(names) {}

  void read() {
    for (at_ = 0; at_ < tokens_.size(); ++at_) {
      const std::string& token = tokens_[at_];
      if (token == "{") {
        if (opening_.kind != Scope::Kind::other) statement_ = at_ + 1;
        scopes_.push_back(opening_);
        opening_ = {};
      } else if (token == "}") {
        if (!scopes_.empty()) scopes_.pop_back();
        // Not the end of an initial value, as of `Dims stride{1};`.
        if (at_ + 1 < tokens_.size() && tokens_[at_ + 1] != ";" && tokens_[at_ + 1] != ",") statement_ = at_ + 1;
      } else if (token == "(") {
        if (parentheses_++ == 0) declared();
      } else if (token == ")") {
        --parentheses_;
      } else if (token == ";") {
        if (parentheses_ == 0) fields();
        opening_ = {};
        statement_ = at_ + 1;
      } else if (token == ":" && at_ > 0 && is_access(tokens_[at_ - 1]) && !scopes_.empty()) {
        scopes_.back().is_public = tokens_[at_ - 1] == "public";
        statement_ = at_ + 1;
      } else if (parentheses_ == 0 && (token == "namespace" || token == "class" || token == "struct")) {
        opens(token == "namespace");
      } else if (parentheses_ == 0 && token == "using" && only_names()) {
        imported();
      }
    }
    for (const auto& [full, overloads] : unresolved_) {
      for (const std::vector<Tokens>& parameters : overloads) names_.signatures[full].push_back(resolved(parameters));
    }
    for (const auto& [full, target] : imports_) {
      const std::vector<Signature>& overloads = names_.signatures[target];
      names_.signatures[full].insert(names_.signatures[full].end(), overloads.begin(), overloads.end());
    }
  }

 private:
  static bool is_access(const std::string& token) {
    return token == "public" || token == "protected" || token == "private";
  }

  /// using space::name;
  void imported() {
    std::size_t at = at_ + 1;
    std::string full;
    while (at + 2 < tokens_.size() && is_word(tokens_[at]) && tokens_[at + 1] == "::")
      full += tokens_[at] + "::", at += 2;
    if (at > at_ + 1 && at + 1 < tokens_.size() && is_word(tokens_[at]) && tokens_[at + 1] == ";") {
      add(tokens_[at]);
      imports_[qualified(tokens_[at])] = full + tokens_[at];
    }
  }

  /// The fields that end in this ";", where it is in a struct of options.
  void fields() {
    if (scopes_.empty() || !is_options(scopes_.back()) || statement_ >= at_) return;
    const std::vector<Tokens> parts = split(tokens_, statement_, at_);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Tokens declared = declarator(parts[i]);
      const std::string name = i > 0 && declared.size() == 1 ? declared[0] : name_of(declared);
      if (!name.empty()) structs_[scopes_.back().name].push_back(name);
    }
  }

  static bool is_options(const Scope& scope) {
    return scope.kind == Scope::Kind::type && (scope.name.ends_with("Options") || scope.name.ends_with("Settings"));
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
    scope.is_public = names || tokens_[at_] == "struct";
    opening_ = scope;
    if (!names && at < tokens_.size() && tokens_[at] == ":") {
      for (; at < tokens_.size() && tokens_[at] != "{"; ++at) {
        if (is_word(tokens_[at]) && !is_access(tokens_[at])) bases_[scope.name].push_back(tokens_[at]);
      }
    }
    if (!names && only_names() && at < tokens_.size() && tokens_[at] != ";") add(scope.name);
  }

  /// A name in front of a parenthesis, with a type in front of it.
  void declared() {
    if (at_ < 3 || !is_word(tokens_[at_ - 1])) return;
    const std::string& before = tokens_[at_ - 2];
    const bool in_class = !scopes_.empty() && scopes_.back().kind == Scope::Kind::type;
    if (in_class && tokens_[at_ - 1] == scopes_.back().name) {
      const bool delegates = before == ":" && !is_access(tokens_[at_ - 3]);
      if (scopes_.back().is_public && !delegates && before != "~" && before != ",") {
        const std::string inside = qualified("");
        sign(inside.substr(0, inside.size() - 2));
      }
      return;
    }
    const bool typed = (is_word(before) && before != "return" && before != "operator" && before != "explicit") ||
                       before == "&" || before == "*" || before == ">";
    if (!typed) return;
    if (only_names()) add(tokens_[at_ - 1]);
    if (in_class && scopes_.back().name == "Tensor") names_.methods.insert(tokens_[at_ - 1]);
    if (only_names() || (in_class && scopes_.back().is_public)) sign(qualified(tokens_[at_ - 1]));
  }

  /// Keeps the parameters of the function whose "(" is here.
  void sign(const std::string& full) {
    std::size_t end = at_ + 1;
    for (int depth = 1; end < tokens_.size(); ++end) {
      if (tokens_[end] == "(") ++depth;
      if (tokens_[end] == ")" && --depth == 0) break;
    }
    std::vector<Tokens>& parameters = unresolved_[full].emplace_back();
    for (const Tokens& parameter : split(tokens_, at_ + 1, end)) parameters.push_back(declarator(parameter));
  }

  bool only_names() const {
    for (const Scope& scope : scopes_) {
      if (scope.kind != Scope::Kind::names || scope.name.find("detail") != std::string::npos) return false;
    }
    return true;
  }

  void add(const std::string& name) { names_.free[name].insert(qualified(name)); }

  /// The full name of what the innermost scope declares.
  std::string qualified(const std::string& name) const {
    std::string full;
    for (const Scope& scope : scopes_) full += scope.name + "::";
    return full + name;
  }

  /// Fields of a struct and its bases; empty for other words.
  std::vector<std::string> fields_of(const std::string& type) const {
    std::vector<std::string> fields;
    if (auto own = structs_.find(type); own != structs_.end()) fields = own->second;
    if (auto bases = bases_.find(type); bases != bases_.end()) {
      for (const std::string& base : bases->second) {
        if (base == type) continue;  // of another namespace
        for (const std::string& field : fields_of(base)) fields.push_back(field);
      }
    }
    return fields;
  }

  Signature resolved(const std::vector<Tokens>& parameters) const {
    Signature signature;
    for (const Tokens& parameter : parameters) {
      const std::size_t before = signature.fields.size();
      for (const std::string& word : parameter) {
        for (const std::string& field : fields_of(word)) signature.fields.insert(field);
      }
      signature.parameters.push_back(signature.fields.size() > before ? "" : name_of(parameter));
    }
    return signature;
  }

  const std::vector<std::string>& tokens_;
  PublicNames& names_;
  std::vector<Scope> scopes_;
  Scope opening_;
  std::size_t at_ = 0, statement_ = 0;  // the token, and where the statement around it begins
  int parentheses_ = 0;
  std::map<std::string, std::vector<std::string>> structs_, bases_;  // fields and bases, by the last word
  std::map<std::string, std::string> imports_;
  std::map<std::string, std::vector<std::vector<Tokens>>> unresolved_;
};

}  // namespace

bool Signature::has(const std::string& argument) const {
  return fields.contains(argument) || std::find(parameters.begin(), parameters.end(), argument) != parameters.end();
}

PublicNames public_names() {
  PublicNames names;
  const std::vector<std::string> tokens = tokens_of(declarations());
  Reader(tokens, names).read();
  return names;
}

}  // namespace etna::structure
