#include <etna/models/grammar/grammar.h>

#include <algorithm>
#include <compare>
#include <map>

#include <fmt/format.h>

#include <etna/models/grammar/internal/automaton_grammar.h>
#include <etna/models/grammar/internal/schema_compiler.h>

namespace etna::models {
namespace {

using ExpressionId = Expressions::Id;

/// The longest end of a text that one of some words begins with (Aho, Corasick).
std::string begun_word(const std::string& text, std::span<const std::string> words) {
  for (std::size_t from = 0; from < text.size(); ++from) {
    const std::string_view end = std::string_view(text).substr(from);
    if (std::any_of(words.begin(), words.end(), [&](const std::string& word) { return word.starts_with(end); }))
      return std::string(end);
  }
  return "";
}

bool is_one_of(const std::string& text, std::span<const std::string> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// Any text up to the first occurrence of a word, which belongs to it: a rule for each prefix that was read last.
ExpressionId text_until(Expressions& expressions, const std::string& word) {
  if (word.empty()) throw GrammarError("grammar: a text to search for is empty");
  std::vector<ExpressionId> rules;
  for (std::size_t i = 0; i < word.size(); ++i) rules.push_back(expressions.rule("text"));
  rules.push_back(expressions.empty());
  for (std::size_t i = 0; i < word.size(); ++i) {
    std::map<std::size_t, ByteSet> next;
    for (unsigned byte = 0; byte < 256; ++byte)
      next[begun_word(word.substr(0, i) + static_cast<char>(byte), {&word, 1}).size()].add(byte, byte);
    std::vector<ExpressionId> ways;
    for (const auto& [k, set] : next) ways.push_back(expressions.sequence(expressions.bytes(set), rules[k]));
    expressions.define(rules[i], expressions.choice(ways));
  }
  return rules[0];
}

ExpressionId part_of(Expressions& expressions, const GrammarPart& part, const GrammarLimits& limits) {
  if (part.texts.empty()) throw GrammarError("grammar: a part of a text is empty");
  switch (part.kind) {
    case GrammarPart::Kind::json:
      return compile_schema(part.texts[0], expressions, limits);
    case GrammarPart::Kind::until:
      return text_until(expressions, part.texts[0]);
    case GrammarPart::Kind::one_of:
      break;
  }
  std::vector<ExpressionId> ways;
  for (const std::string& text : part.texts) ways.push_back(expressions.text(text));
  return expressions.choice(ways);
}

ExpressionId one_of_texts(Expressions& expressions, std::span<const GrammarText> texts, const GrammarLimits& limits) {
  std::vector<ExpressionId> ways;
  for (const GrammarText& text : texts) {
    ExpressionId whole = expressions.empty();
    for (const GrammarGroup& group : text) {
      ExpressionId parts = expressions.empty();
      for (const GrammarPart& part : group.parts)
        parts = expressions.sequence(parts, part_of(expressions, part, limits));
      whole = expressions.sequence(whole, group.optional ? expressions.optional(parts) : parts);
    }
    ways.push_back(whole);
  }
  return expressions.choice(ways);
}

/// Where a marked text is: how far words are that it may be within.
struct TextPlace {
  enum class Kind : unsigned char {
    leading,  ///< nothing but white space and calls came
    hidden,
    text
  };
  Kind kind = Kind::text;
  bool may_hide = false;   ///< leading: nothing but white space came, so that the hidden part may begin
  std::size_t closer = 0;  ///< leading: the first of the closers that may come
  std::string word = {};   ///< the beginning of a word that was read last
  bool call = false;       ///< a call comes before this place
  auto operator<=>(const TextPlace&) const = default;
};

/// The rules of a marked text, one for each place.
class MarkedRules {
 public:
  MarkedRules(Expressions& expressions, const MarkedText& marked, const GrammarLimits& limits)
      : expressions_(expressions), marked_(marked) {
    require_apart();
    call_ = one_of_texts(expressions, marked.texts, limits);
    if (!marked.objects.empty()) object_ = one_of_texts(expressions, marked.objects, limits);
  }

  ExpressionId root() {
    TextPlace start;
    if (!marked_.objects.empty()) start = leading(marked_.closers.size());
    start.may_hide = !marked_.objects.empty() && !marked_.hidden_open.empty();
    if (start.may_hide && marked_.hidden) start = {.kind = TextPlace::Kind::hidden};
    const ExpressionId root = rule_of(start);
    while (!open_.empty()) {
      const TextPlace place = std::move(open_.back());
      open_.pop_back();
      expressions_.define(rules_.at(place), body_of(place));
    }
    return root;
  }

 private:
  void require_apart() const {
    std::vector<std::string> words = marked_.markers;
    words.insert(words.end(), marked_.closers.begin(), marked_.closers.end());
    if (!marked_.hidden_open.empty()) words.insert(words.end(), {marked_.hidden_open, marked_.hidden_close});
    if (marked_.markers.empty()) throw GrammarError("grammar: a marked text has no marker");
    if (is_one_of("", words)) throw GrammarError("grammar: a text to search for is empty");
    for (std::size_t i = 0; i < words.size(); ++i) {
      for (std::size_t j = 0; j < words.size(); ++j)
        if (i != j && words[i].find(words[j]) != std::string::npos)
          throw GrammarError(fmt::format("grammar: the marker '{}' lies within the marker '{}'", words[j], words[i]));
    }
  }

  static TextPlace leading(std::size_t closer) { return {.kind = TextPlace::Kind::leading, .closer = closer}; }

  /// The place after a byte.
  TextPlace after(const TextPlace& place, char byte) const {
    TextPlace next = place;
    next.call = false;
    next.word += byte;
    switch (place.kind) {
      case TextPlace::Kind::text:
        if (is_one_of(next.word, marked_.markers)) return {.kind = TextPlace::Kind::text, .call = true};
        next.word = begun_word(next.word, marked_.markers);
        return next;
      case TextPlace::Kind::hidden:
        if (next.word == marked_.hidden_close) return leading(marked_.closers.size());
        next.word = begun_word(next.word, {&marked_.hidden_close, 1});
        return next;
      case TextPlace::Kind::leading:
        break;
    }
    if (place.word.empty() && std::string_view(" \t\r\n").find(byte) != std::string_view::npos) return place;
    std::vector<std::string> words = marked_.markers;
    if (is_one_of(next.word, words)) {
      TextPlace called = leading(0);
      called.call = true;
      return called;
    }
    if (place.may_hide) words.push_back(marked_.hidden_open);
    if (place.may_hide && next.word == marked_.hidden_open) return {.kind = TextPlace::Kind::hidden};
    for (std::size_t i = place.closer; i < marked_.closers.size(); ++i) {
      words.push_back(marked_.closers[i]);
      if (next.word == marked_.closers[i]) return leading(i + 1);
    }
    if (begun_word(next.word, words) == next.word) return next;
    // All of it is text, the end of which may begin a marker.
    TextPlace text;
    for (const char c : next.word) text = after(text, c);
    return text;
  }

  ExpressionId body_of(const TextPlace& place) {
    const bool may_be_object = place.kind == TextPlace::Kind::leading && place.word.empty();
    std::map<TextPlace, ByteSet> next;
    for (unsigned byte = 0; byte < 256; ++byte)
      if (byte != '{' || !may_be_object) next[after(place, static_cast<char>(byte))].add(byte, byte);
    std::vector<ExpressionId> ways{expressions_.empty()};
    for (auto& [target, set] : next) {
      TextPlace behind = target;
      behind.call = false;
      const ExpressionId rest = rule_of(behind);
      ways.push_back(
          expressions_.sequence(expressions_.bytes(set), target.call ? expressions_.sequence(call_, rest) : rest));
    }
    if (may_be_object) ways.push_back(expressions_.sequence(object_, rule_of(leading(0))));
    return expressions_.choice(ways);
  }

  ExpressionId rule_of(const TextPlace& place) {
    const auto [at, added] = rules_.try_emplace(place, 0);
    if (added) {
      at->second = expressions_.rule("text");
      open_.push_back(place);
    }
    return at->second;
  }

  Expressions& expressions_;
  const MarkedText& marked_;
  ExpressionId call_ = 0, object_ = 0;
  std::map<TextPlace, ExpressionId> rules_;
  std::vector<TextPlace> open_;  ///< whose rules have no body yet
};

}  // namespace

std::shared_ptr<TokenGrammar> parts_grammar(const GrammarVocabulary& vocabulary, std::span<const GrammarText> texts,
                                            const GrammarLimits& limits) {
  check_limits(limits);
  const auto expressions = std::make_shared<Expressions>(limits.nodes);
  const ExpressionId root = one_of_texts(*expressions, texts, limits);
  return std::make_shared<AutomatonGrammar>(vocabulary, expressions, root, limits);
}

std::shared_ptr<TokenGrammar> marked_grammar(const GrammarVocabulary& vocabulary, const MarkedText& marked,
                                             const GrammarLimits& limits) {
  check_limits(limits);
  const auto expressions = std::make_shared<Expressions>(limits.nodes);
  const ExpressionId root = MarkedRules(*expressions, marked, limits).root();
  return std::make_shared<AutomatonGrammar>(vocabulary, expressions, root, limits);
}

}  // namespace etna::models
