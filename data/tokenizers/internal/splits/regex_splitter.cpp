// PCRE2 with Unicode properties: a small library in every distribution that supports the lookahead of the published
// expressions. Its just-in-time compiler makes it about as fast as hand-written scanners.
#include <etna/data/tokenizers/internal/splits/regex_splitter.h>

#include <algorithm>

#include <fmt/format.h>

#ifdef ETNA_HAS_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

#include <etna/data/internal/utf8_character.h>
#include <etna/data/text_file.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

/// Whether the character matches itself in every regular expression.
bool is_plain(char c) {
  return (c & 0x80) != 0 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\n' ||
         c == '\r' || c == '\t' || c == '\0';
}

}  // namespace

#ifdef ETNA_HAS_PCRE2
namespace {

template <auto Free>
struct Release {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Release<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Release<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Release<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Release<pcre2_jit_stack_free>>;

std::string message_of(int error) {
  PCRE2_UCHAR text[160] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

constexpr std::string_view kVowelSeparator = "\xE1\xA0\x8E";  // U+180E
constexpr std::string_view kZeroWidthSpace = "\xE2\x80\x8B";  // U+200B

/// PCRE2 treats U+180E as white space, as Unicode did before 6.3, so this replaces it by another invisible character of
/// the same length; offsets stay valid.
std::string searchable(std::string_view text) {
  std::string out(text);
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t bad = find_invalid_utf8(std::string_view(out).substr(at));
    if (bad == std::string::npos) break;
    at += bad;
    out[at++] = '\x01';
  }
  for (std::size_t at = 0; (at = out.find(kVowelSeparator, at)) != std::string::npos;)
    out.replace(at, kVowelSeparator.size(), kZeroWidthSpace);
  return out;
}

/// Scratch data for matching, created once per thread: a text may consist of thousands of pieces.
struct Workspace {
  MatchData data{pcre2_match_data_create(1, nullptr)};
  MatchContext context{pcre2_match_context_create(nullptr)};
  JitStack stack{pcre2_jit_stack_create(32 << 10, 4 << 20, nullptr)};

  Workspace() {
    if (data == nullptr || context == nullptr) throw std::bad_alloc();
    if (stack != nullptr) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

}  // namespace

struct RegexSplitter::Compiled {
  Code code;
  std::string name;
};

RegexSplitter::RegexSplitter(const std::string& pattern, const std::string& name)
    : compiled_(std::make_unique<Compiled>()) {
  int error = 0;
  PCRE2_SIZE where = 0;
  compiled_->name = name;
  if (pattern.size() > 1 << 16) throw FormatError(fmt::format("{}: a regular expression is longer than 64 KiB", name));
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &where,
                                      nullptr));
  if (compiled_->code == nullptr)
    throw FormatError(fmt::format("{}: the regular expression {:.200} cannot be used: {} at byte {}", name, pattern,
                                  message_of(error), where));
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);  // if this fails, PCRE2 interprets the expression
}

std::vector<RegexSplitter::Match> RegexSplitter::matches(std::string_view text) const {
  std::string copy;
  std::string_view subject = text;
  if (text.find(kVowelSeparator) != std::string_view::npos || find_invalid_utf8(text) != std::string::npos)
    subject = copy = searchable(text);
  thread_local const Workspace work;
  std::vector<Match> found;
  for (std::size_t at = 0; at < subject.size();) {
    const int result = pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(),
                                   at, PCRE2_NO_UTF_CHECK, work.data.get(), work.context.get());
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0)
      throw FormatError(fmt::format("{}: its regular expression gives up on a text of {} bytes: {}", compiled_->name,
                                    text.size(), message_of(result)));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(work.data.get());
    if (ends[1] > ends[0] && ends[0] >= at) {
      found.emplace_back(ends[0], ends[1]);
      at = ends[1];
    } else {  // an empty match, or one whose begin lies after its end because of \K
      at = std::max<std::size_t>(at, ends[1]);
      if (at < subject.size()) at += utf8_character(subject, at).length;
    }
  }
  return found;
}

#else

/// Without PCRE2, only expressions written by escape_regex() are supported; this is the text that they match.
struct RegexSplitter::Compiled {
  std::string text;
};

RegexSplitter::RegexSplitter(const std::string& pattern, const std::string& name)
    : compiled_(std::make_unique<Compiled>()) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool escaped = pattern[i] == '\\' && i + 1 < pattern.size() && !is_plain(pattern[i + 1]);
    if (!escaped && !is_plain(pattern[i]))
      throw FormatError(
          fmt::format("{}: the regular expression {:.200} needs PCRE2, which this build of Etna lacks; build "
                      "it without ETNA_MINIMAL (Debian: libpcre2-dev)",
                      name, pattern));
    compiled_->text += pattern[escaped ? ++i : i];
  }
}

std::vector<RegexSplitter::Match> RegexSplitter::matches(std::string_view text) const {
  const std::string& wanted = compiled_->text;
  std::vector<Match> found;
  if (wanted.empty()) return found;
  for (std::size_t at = 0; (at = text.find(wanted, at)) != std::string_view::npos; at += wanted.size())
    found.emplace_back(at, at + wanted.size());
  return found;
}

#endif

RegexSplitter::~RegexSplitter() = default;
RegexSplitter::RegexSplitter(RegexSplitter&&) noexcept = default;

std::string from_ruby_regex(std::string_view pattern, const std::string& name) {
  const auto refuse = [&](std::string_view what) {
    return FormatError(
        fmt::format("{}: the regular expression {:.200} has {}, which Etna does not support", name, pattern, what));
  };
  std::string out;
  bool in_set = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      ++i;
      // Ruby's \w and \b differ from both Unicode's and PCRE2's.
      if (std::string_view("hHXRKGwWbB").find(next) != std::string_view::npos && next != '\0')
        throw refuse(fmt::format("\\{}", next));
      out += c;
      if (i < pattern.size()) out += next;
      continue;
    }
    if (in_set && c == '[' && next != ':') throw refuse("a nested set");
    if (in_set && c == '&' && next == '&') throw refuse("&& in a set");
    if (in_set && c == '[' && next == ':') {  // [:alpha:]
      const std::size_t end = pattern.find(":]", i);
      if (end == std::string_view::npos) throw refuse("an unterminated set");
      out += pattern.substr(i, end + 2 - i);
      i = end + 1;
      continue;
    }
    if (!in_set && c == '(' && next == '*') throw refuse("(*");
    if (!in_set && c == '[') {
      in_set = true;
      // A closing bracket is an ordinary character at the beginning of a set.
      out += c;
      if (next == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
      continue;
    }
    if (in_set && c == ']') in_set = false;
    out += c;
  }
  return out;
}

std::string escape_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!is_plain(c)) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace etna::data
