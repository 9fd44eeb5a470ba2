#include <etna/models/grammar/internal/json_grammar.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <etna/data/internal/utf8_character.h>

namespace etna::models {
namespace {

/// What a string has as it is.
CodePoints unescaped_characters() {
  CodePoints set(0x20, CodePoints::kLast);
  set.remove('"', '"');
  set.remove('\\', '\\');
  return set;
}

ByteSet bytes_between(unsigned first, unsigned last) {
  ByteSet set;
  set.add(first, last);
  return set;
}

}  // namespace

JsonGrammar::JsonGrammar(Expressions& expressions, const GrammarLimits& limits)
    : expressions_(expressions), free_depth_(limits.free_depth) {
  if (free_depth_ < 1 || free_depth_ > 1000)
    throw GrammarError(fmt::format("grammar: GrammarLimits::free_depth is {}; wanted 1 to 1000", free_depth_));
  Expressions& e = expressions_;
  space_ = e.empty();
  Id after_colon = e.empty();
  if (limits.whitespace == JsonWhitespace::limited) {
    ByteSet indent = bytes_between(' ', ' ');
    indent.add('\t', '\t');
    after_colon = e.optional(e.text(" "));
    space_ = e.choice({e.empty(), e.text(" "), e.sequence(e.text("\n"), e.repeat(e.bytes(indent), 0, 20))});
  }
  comma_ = e.sequence(e.text(","), space_);
  colon_ = e.sequence(e.text(":"), after_colon);
}

Expressions::Id JsonGrammar::character(const CodePoints& set) {
  CodePoints plain = set;
  std::vector<Id> all;
  const CodePoints escaped = unescaped_characters().inverse();
  for (const auto& [first, last] : escaped.ranges()) {
    for (std::uint32_t point = first; point <= last; ++point) {
      if (!set.has(point)) continue;
      const std::string quoted = quoted_json(std::string(1, static_cast<char>(point)));
      all.push_back(expressions_.text(std::string_view(quoted).substr(1, quoted.size() - 2)));
      plain.remove(point, point);
    }
  }
  all.push_back(expressions_.characters(plain));
  return expressions_.choice(all);
}

Expressions::Id JsonGrammar::quoted(Id content) {
  return expressions_.sequence({expressions_.text("\""), content, expressions_.text("\"")});
}

Expressions::Id JsonGrammar::string(std::uint32_t min, std::uint32_t max) {
  Expressions& e = expressions_;
  const auto set = [&](std::initializer_list<std::pair<unsigned, unsigned>> ranges) {
    ByteSet bytes;
    for (const auto& [first, last] : ranges) bytes.add(first, last);
    return e.bytes(bytes);
  };
  const Id hex = set({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}), d = set({{'D', 'D'}, {'d', 'd'}});
  const Id high = e.sequence({d, set({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), hex, hex});
  const Id low = e.sequence({d, set({{'C', 'F'}, {'c', 'f'}}), hex, hex});
  const Id other =
      e.choice({e.sequence({set({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}), hex, hex, hex}),
                e.sequence({d, set({{'0', '7'}}), hex, hex})});
  // Surrogates stand for a character in pairs only.
  const Id unicode = e.sequence(e.text("u"), e.choice({other, e.sequence({high, e.text("\\u"), low})}));
  const Id simple =
      set({{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
  const Id escape = e.sequence(e.text("\\"), e.choice({simple, unicode}));
  return quoted(e.repeat(e.choice({e.characters(unescaped_characters()), escape}), min, max));
}

Expressions::Id JsonGrammar::string_other_than(const std::vector<std::string>& texts) {
  // A trie of the texts; what leaves it anywhere is another string.
  struct Place {
    std::map<std::uint32_t, std::size_t> next;
    bool ends = false;
  };
  std::vector<Place> trie(1);
  for (const std::string& text : texts) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < text.size();) {
      const data::Utf8Character c = data::utf8_character(text, i);
      i += c.length;
      const auto [found, added] = trie[at].next.try_emplace(c.point, trie.size());
      at = found->second;
      if (added) trie.emplace_back();
    }
    trie[at].ends = true;
  }
  const Id rest = expressions_.repeat(expressions_.characters(unescaped_characters()), 0, Expressions::kUnbounded);
  std::vector<Id> ids(trie.size());
  for (std::size_t at = trie.size(); at-- > 0;) {
    std::vector<Id> all;
    if (!trie[at].ends) all.push_back(expressions_.empty());
    CodePoints leaving = unescaped_characters();
    for (const auto& [point, next] : trie[at].next) {
      if (!leaving.has(point)) continue;  // cannot be written without an escape
      leaving.remove(point, point);
      all.push_back(expressions_.sequence(expressions_.characters({point, point}), ids[next]));
    }
    all.push_back(expressions_.sequence(expressions_.characters(leaving), rest));
    ids[at] = expressions_.choice(all);
  }
  return expressions_.sequence(ids[0], expressions_.text("\""));
}

Expressions::Id JsonGrammar::list(std::string_view open, Id item, std::uint32_t min, std::uint32_t max,
                                  std::string_view close) {
  Expressions& e = expressions_;
  Id content = e.never();
  if (max > 0) {
    const std::uint32_t most = max == Expressions::kUnbounded ? max : max - 1;
    content = e.sequence({space_, item, e.repeat(e.sequence(comma_, item), min == 0 ? 0 : min - 1, most)});
  }
  if (min == 0) content = e.optional(content);
  return e.sequence({e.text(open), content, space_, e.text(close)});
}

Expressions::Id JsonGrammar::array_of(Id item) { return list("[", item, 0, Expressions::kUnbounded, "]"); }

Expressions::Id JsonGrammar::object_of(Id value) {
  return list("{", expressions_.sequence({string(), colon_, value}), 0, Expressions::kUnbounded, "}");
}

Expressions::Id JsonGrammar::value(int depth) {
  if (values_.empty()) values_.push_back(expressions_.choice({string(), number(), boolean(), null()}));
  while (values_.size() <= static_cast<std::size_t>(depth))
    values_.push_back(expressions_.choice({values_[0], array_of(values_.back()), object_of(values_.back())}));
  return values_[static_cast<std::size_t>(depth)];
}

Expressions::Id JsonGrammar::literal(const JsonValue& value) {
  Expressions& e = expressions_;
  if (value.is(JsonValue::Kind::number)) return e.text(value.text);
  if (!value.is(JsonValue::Kind::array) && !value.is(JsonValue::Kind::object)) return e.text(canonical_json(value));
  const bool object = value.is(JsonValue::Kind::object);
  Id content = e.sequence(space_, e.text(object ? "}" : "]"));
  for (std::size_t i = value.items.size(); i-- > 0;) {
    content = e.sequence(literal(value.items[i]), content);
    if (object) content = e.sequence({e.text(quoted_json(value.keys[i])), colon_, content});
    content = e.sequence(i == 0 ? space_ : comma_, content);
  }
  return e.sequence(e.text(object ? "{" : "["), content);
}

}  // namespace etna::models
