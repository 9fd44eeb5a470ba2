#include <etna/models/grammar/internal/regex_reader.h>

#include <algorithm>

#include <fmt/format.h>

namespace etna::models {
namespace {

/// \d, \w and \s.
CodePoints named_set(char name) {
  CodePoints set;
  if (name == 'd' || name == 'w') set.add('0', '9');
  if (name == 'w') {
    set.add('A', 'Z');
    set.add('_', '_');
    set.add('a', 'z');
  }
  if (name == 's') {
    // ECMA-262's WhiteSpace and LineTerminator.
    for (const auto& [first, last] : std::initializer_list<CodePoints::Range>{{0x09, 0x0D},
                                                                              {0x20, 0x20},
                                                                              {0xA0, 0xA0},
                                                                              {0x1680, 0x1680},
                                                                              {0x2000, 0x200A},
                                                                              {0x2028, 0x2029},
                                                                              {0x202F, 0x202F},
                                                                              {0x205F, 0x205F},
                                                                              {0x3000, 0x3000},
                                                                              {0xFEFF, 0xFEFF}})
      set.add(first, last);
  }
  return set;
}

CodePoints any_but_line_breaks() {
  CodePoints set = CodePoints::all();
  set.remove('\n', '\n');
  set.remove('\r', '\r');
  set.remove(0x2028, 0x2029);
  return set;
}

}  // namespace

void RegexReader::fail(std::size_t position, const std::string& why) const {
  throw GrammarError(fmt::format("{}: position {}: {}", regex_.what_, position + 1, why));
}

int RegexReader::run() {
  const int root = alternatives(0);
  if (!text_.at_end()) fail(text_.position(), "a ')' without its '('; write \\) for the character");
  return root;
}

int RegexReader::add(Regex::Kind kind, std::vector<int> parts) {
  if (regex_.nodes_.size() >= limits_.nodes)
    fail(text_.position(), fmt::format("it has more than {} parts (GrammarLimits::nodes)", limits_.nodes));
  const bool anchor = kind == Regex::Kind::begin || kind == Regex::Kind::end;
  const bool inner = std::any_of(parts.begin(), parts.end(),
                                 [&](int part) { return regex_.nodes_[static_cast<std::size_t>(part)].anchors; });
  regex_.nodes_.push_back({kind, anchor || inner, {}, std::move(parts), 0, 0});
  return static_cast<int>(regex_.nodes_.size() - 1);
}

int RegexReader::add_set(CodePoints set) {
  const int node = add(Regex::Kind::set);
  regex_.nodes_.back().set = std::move(set);
  return node;
}

int RegexReader::alternatives(int depth) {
  if (depth > limits_.depth)
    fail(text_.position(), fmt::format("groups are nested more than {} deep (GrammarLimits::depth)", limits_.depth));
  std::vector<int> all{sequence(depth)};
  while (text_.take("|")) all.push_back(sequence(depth));
  return all.size() == 1 ? all[0] : add(Regex::Kind::choice, std::move(all));
}

int RegexReader::sequence(int depth) {
  std::vector<int> parts;
  while (!text_.at_end() && text_.peek() != '|' && text_.peek() != ')') {
    const std::size_t position = text_.position();
    parts.push_back(quantified(atom(depth), position));
  }
  return parts.size() == 1 ? parts[0] : add(Regex::Kind::sequence, std::move(parts));
}

int RegexReader::atom(int depth) {
  const std::size_t position = text_.position();
  if (text_.take("(")) return group(depth);
  if (text_.take("[")) return add_set(char_class());
  if (text_.take("^")) return add(Regex::Kind::begin);
  if (text_.take("$")) return add(Regex::Kind::end);
  if (text_.take(".")) return add_set(any_but_line_breaks());
  if (text_.take("\\")) {
    CodePoints set;
    std::uint32_t point = 0;
    if (!escape(false, set, point)) set.add(point, point);
    return add_set(std::move(set));
  }
  const char c = text_.peek();
  if (c == '*' || c == '+' || c == '?' || c == '{')
    fail(position, fmt::format("a '{}' with nothing before it to repeat; write \\{} for the character", c, c));
  if (c == '}' || c == ']')
    fail(position, fmt::format("a '{}' without its opening; write \\{} for the character", c, c));
  const std::uint32_t point = text_.character();
  return add_set({point, point});
}

int RegexReader::group(int depth) {
  const std::size_t position = text_.position() - 1;
  for (const char* look : {"?=", "?!", "?<=", "?<!"})
    if (text_.starts_with(look)) fail(position, "look-around is not supported; write the form itself");
  if (text_.take("?<")) {
    while (!text_.at_end() && text_.peek() != '>') text_.character();
    if (!text_.take(">")) fail(position, "the name of a group without its '>'");
  } else if (text_.starts_with("?") && !text_.take("?:")) {
    fail(position, "only (...), (?:...) and (?<name>...) are supported of the kinds of groups");
  }
  const int node = alternatives(depth + 1);
  if (!text_.take(")")) fail(position, "a group without its closing ')'");
  return node;
}

int RegexReader::quantified(int node, std::size_t position) {
  std::uint64_t min = 0, max = Expressions::kUnbounded;
  const std::size_t at = text_.position();
  if (text_.take("*")) {
  } else if (text_.take("+")) {
    min = 1;
  } else if (text_.take("?")) {
    max = 1;
  } else if (text_.take("{")) {
    if (!text_.number(min)) fail(at, "a count is {m}, {m,} or {m,n}; write \\{ for the character");
    if (text_.take(",")) {
      std::uint64_t given = 0;
      if (text_.number(given)) max = given;
    } else {
      max = min;
    }
    if (!text_.take("}")) fail(at, "a count is {m}, {m,} or {m,n}; write \\{ for the character");
    if (max < min) fail(at, fmt::format("a count of {} to {}", min, max));
    if (min > Expressions::kMostRepeats || (max > Expressions::kMostRepeats && max != Expressions::kUnbounded))
      fail(at, fmt::format("a count of more than {}", Expressions::kMostRepeats));
  } else {
    return node;
  }
  text_.take("?");  // a lazy count matches the same texts
  const Regex::Kind kind = regex_.nodes_[static_cast<std::size_t>(node)].kind;
  if (kind == Regex::Kind::begin || kind == Regex::Kind::end) fail(position, "an anchor cannot be repeated");
  const char next = text_.peek();
  if (next == '*' || next == '+' || next == '?' || next == '{')
    fail(text_.position(), "a count after a count; put a group around what is repeated first");
  const int repeat = add(Regex::Kind::repeat, {node});
  regex_.nodes_.back().min = static_cast<std::uint32_t>(min);
  regex_.nodes_.back().max = static_cast<std::uint32_t>(max);
  return repeat;
}

std::uint32_t RegexReader::unicode_escape(std::size_t position) {
  std::uint32_t point = 0;
  if (text_.take("{")) {
    std::uint32_t digit = 0;
    bool any = false;
    while (text_.hex(1, digit)) {
      point = std::min<std::uint32_t>(point << 4 | digit, CodePoints::kLast + 1);
      any = true;
    }
    if (!any || !text_.take("}") || point > CodePoints::kLast) fail(position, "wanted \\u{H...} up to 10FFFF");
    return point;
  }
  if (!text_.hex(4, point)) fail(position, "wanted \\uHHHH or \\u{H...}");
  std::uint32_t low = 0;
  const std::size_t after = text_.position();
  if (point >= 0xD800 && point < 0xDC00 && text_.take("\\u") && text_.hex(4, low) && low >= 0xDC00 && low < 0xE000)
    return 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  text_.seek(after);
  return point;
}

bool RegexReader::escape(bool in_class, CodePoints& set, std::uint32_t& point) {
  const std::size_t position = text_.position() - 1;
  if (text_.at_end()) fail(position, "a '\\' at the end");
  const std::string here = text_.here();
  const std::uint32_t c = text_.character();
  switch (c) {
    case 'd':
    case 'w':
    case 's':
      set.add(named_set(static_cast<char>(c)));
      return true;
    case 'D':
    case 'W':
    case 'S':
      set.add(named_set(static_cast<char>(c - 'A' + 'a')).inverse());
      return true;
    case 'n':
      point = '\n';
      return false;
    case 'r':
      point = '\r';
      return false;
    case 't':
      point = '\t';
      return false;
    case 'v':
      point = '\v';
      return false;
    case 'f':
      point = '\f';
      return false;
    case 'u':
      point = unicode_escape(position);
      return false;
    case 'x':
      if (!text_.hex(2, point)) fail(position, "wanted \\xHH");
      return false;
    case 'c': {
      const char letter = text_.peek();
      if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')))
        fail(position, "wanted a letter after \\c");
      point = text_.character() % 32;
      return false;
    }
    case 'b':
      if (in_class) {
        point = '\b';
        return false;
      }
      [[fallthrough]];
    case 'B':
      fail(position, "word boundaries (\\b, \\B) are not supported; write the characters at the boundary");
    case 'p':
    case 'P':
      fail(position, "Unicode properties (\\p, \\P) are not supported; write ranges, such as [a-z\\u00e0-\\u00ff]");
    case 'k':
      fail(position, "back-references (\\k) are not supported");
    default:
      break;
  }
  if (c == '0' && !(text_.peek() >= '0' && text_.peek() <= '9')) {
    point = 0;
    return false;
  }
  if (c >= '0' && c <= '9') fail(position, "back-references and octal escapes are not supported");
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
    fail(position, fmt::format("an unknown escape: \\{}", c < 128 ? std::string(1, static_cast<char>(c)) : here));
  point = c;
  return false;
}

CodePoints RegexReader::char_class() {
  const std::size_t position = text_.position() - 1;
  const bool inverse = text_.take("^");
  CodePoints set;
  while (!text_.take("]")) {
    if (text_.at_end()) fail(position, "a class without its closing ']'");
    const std::size_t at = text_.position();
    std::uint32_t first = 0, last = 0;
    const auto one = [&](std::uint32_t& point) {
      if (text_.take("\\")) return escape(true, set, point);
      point = text_.character();
      return false;
    };
    const bool is_set = one(first);
    if (text_.peek() != '-' || text_.peek(1) == ']' || text_.peek(1) == '\0') {
      if (!is_set) set.add(first, first);
      continue;
    }
    text_.take("-");
    if (one(last) || is_set) fail(at, "a range between sets such as \\d; write \\- for the character '-'");
    if (last < first) fail(at, "the range of a class ends before it begins");
    set.add(first, last);
  }
  return inverse ? set.inverse() : set;
}

}  // namespace etna::models
