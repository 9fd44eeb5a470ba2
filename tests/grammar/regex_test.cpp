#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <grammar/grammar_fixtures.h>

namespace etna::models {
namespace {

using fixtures::accepts;
using fixtures::byte_vocabulary;
using testing::HasSubstr;

std::string regex_refusal(const std::string& source) {
  return fixtures::refusal_of([&] { regex_grammar(byte_vocabulary(), source); });
}

TEST(RegexGrammar, MatchesWholeTexts) {
  struct Case {
    const char* expression;
    std::vector<std::string> accepted, refused;
  };
  const std::vector<Case> cases = {
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"^abc$", {"abc"}, {"xabc", "abcx"}},
      {"a|bc|", {"a", "bc", ""}, {"b", "ac"}},
      {"(a|b)*c+?", {"c", "abbacc"}, {"", "ab"}},
      {"(?:x)(?<name>y){2}", {"xyy"}, {"xy", "xyyy"}},
      {"[a-c\\d_.-]+", {"a1_.-"}, {"", "d", "a b"}},
      {"[^\\s\\d]", {"x", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {" ", "3", "\xC2\xA0", "\xE2\x80\xA8", ""}},
      {"\\w\\W\\d\\D\\s\\S", {"a-1b c"}, {"a-1b  ", "ab1b c"}},
      {".", {"a", "\t", "\xE2\x82\xAC"}, {"\n", "\r", "\xE2\x80\xA9", "ab", "\xE2\x82"}},
      {"a{2}b{1,}c{0,2}d{0}", {"aabcc", "aabbb"}, {"ab", "aab\x63\x63\x63", "aabd"}},
      {"\\u00e9\\x41\\u{1F600}\\ud83d\\ude00\\n\\/\\.\\-\\cJ",
       {"\xC3\xA9\x41\xF0\x9F\x98\x80\xF0\x9F\x98\x80\n/.-\n"},
       {""}},
      {"[\\b\\]\\\\^-]", {"\b", "]", "\\", "^", "-"}, {"b"}},
      {"[^]", {"a", "\n"}, {"", "ab"}},
      {"(^a|b)c$", {"ac", "bc"}, {"c", "abc"}},
      {"(a*)*", {"", "aaa"}, {"b"}},
      {"(a|a)*b", {"b", "aaab"}, {"a"}},
      {"(a?b?){3}", {"", "ab", "ababab", "bab"}, {"abababab", "bbbb"}},
      {"((a{0,3}){0,3}){0,3}", {"", std::string(27, 'a').c_str()}, {std::string(28, 'a').c_str()}},
      {"(\\\"|[^\"])*", {"a\"b"}, {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.expression);
    const auto grammar = regex_grammar(byte_vocabulary(), c.expression);
    for (const std::string& text : c.accepted) EXPECT_TRUE(accepts(*grammar, text)) << text;
    for (const std::string& text : c.refused) EXPECT_FALSE(accepts(*grammar, text)) << text;
  }
}

TEST(RegexGrammar, ErrorsNameThePosition) {
  EXPECT_EQ(regex_refusal("a(?=b)"), "regex: position 2: look-around is not supported; write the form itself");
  EXPECT_THAT(regex_refusal("(?<!a)b"), HasSubstr("look-around"));
  EXPECT_THAT(regex_refusal("(a)\\1"), HasSubstr("position 4: back-references"));
  EXPECT_THAT(regex_refusal("(?<n>a)\\k<n>"), HasSubstr("back-references"));
  EXPECT_THAT(regex_refusal("\\bword"), HasSubstr("word boundaries"));
  EXPECT_THAT(regex_refusal("\\p{L}"), HasSubstr("Unicode properties"));
  EXPECT_THAT(regex_refusal("(?i)a"), HasSubstr("kinds of groups"));
  EXPECT_THAT(regex_refusal("(a"), HasSubstr("position 1: a group without"));
  EXPECT_THAT(regex_refusal("a)"), HasSubstr("position 2: a ')'"));
  EXPECT_THAT(regex_refusal("[a"), HasSubstr("a class without"));
  EXPECT_THAT(regex_refusal("*a"), HasSubstr("nothing before it"));
  EXPECT_THAT(regex_refusal("a**"), HasSubstr("a count after a count"));
  EXPECT_THAT(regex_refusal("a{2,1}"), HasSubstr("a count of 2 to 1"));
  EXPECT_THAT(regex_refusal("a{x}"), HasSubstr("a count is"));
  EXPECT_THAT(regex_refusal("a{9999999999}"), HasSubstr("a count of more than"));
  EXPECT_THAT(regex_refusal("[z-a]"), HasSubstr("ends before it begins"));
  EXPECT_THAT(regex_refusal("[\\d-z]"), HasSubstr("a range between sets"));
  EXPECT_THAT(regex_refusal("\\q"), HasSubstr("an unknown escape"));
  EXPECT_THAT(regex_refusal("\\u12"), HasSubstr("wanted \\uHHHH"));
  EXPECT_THAT(regex_refusal("a\\"), HasSubstr("a '\\' at the end"));
  EXPECT_THAT(regex_refusal("(a$)*"), HasSubstr("^ or $ inside of what repeats"));
  EXPECT_THAT(regex_refusal("a^b"), HasSubstr("^ is supported only at the start"));
  EXPECT_THAT(regex_refusal("^*"), HasSubstr("an anchor cannot be repeated"));
  EXPECT_THAT(regex_refusal("[]"), HasSubstr("no text"));
  EXPECT_THAT(regex_refusal("\xC3"), HasSubstr("not UTF-8"));
  EXPECT_THAT(regex_refusal(std::string(100'000, '(')), HasSubstr("nested more than 100 deep"));
  EXPECT_THAT(regex_refusal(std::string(100'000, '^')), HasSubstr("too many anchors"));
  EXPECT_THAT(regex_refusal(std::string((1 << 20) + 1, 'a')), HasSubstr("at most 1048576 are read"));
}

/// Counts are kept on the automaton's stack: large ones cost no more than small ones.
TEST(RegexGrammar, LargeCountsAreCheap) {
  const auto grammar = regex_grammar(byte_vocabulary(), "a{0,100000}");
  EXPECT_TRUE(accepts(*grammar, std::string(100'000, 'a')));
  EXPECT_FALSE(accepts(*grammar, std::string(100'001, 'a')));
  const auto exact = regex_grammar(byte_vocabulary(), "([ab]c?){1000000}");
  EXPECT_NE(fixtures::state_after(*exact, "abcb"), TokenGrammar::kRefused);
  const auto nested = regex_grammar(byte_vocabulary(), "((a{0,1000}){0,1000}b?)[a-z0-9]{0,1000}");
  EXPECT_TRUE(accepts(*nested, std::string(1000, 'a') + "b9"));
}

TEST(RegexGrammar, LimitsHaveErrorsOfTheirOwn) {
  GrammarLimits limits;
  limits.nodes = 100;
  EXPECT_THAT(fixtures::refusal_of([&] {
                regex_grammar(byte_vocabulary(),
                              "[^a]bcdefg[0-9]{3}(x|[^y]z)*(abcdefghijklmnopqrstuvwxyz){3,9}(123456){2}", limits);
              }),
              HasSubstr("GrammarLimits::nodes"));
  limits = {};
  limits.states = 50;
  const auto few = regex_grammar(byte_vocabulary(), "a{0,1000}", limits);
  EXPECT_THAT(fixtures::refusal_of([&] { accepts(*few, std::string(100, 'a')); }), HasSubstr("GrammarLimits::states"));
  limits = {};
  limits.threads = 10;
  const auto ambiguous = regex_grammar(byte_vocabulary(), "(a|b)*a(a|b){20}", limits);
  EXPECT_THAT(fixtures::refusal_of([&] { accepts(*ambiguous, std::string(100, 'a')); }),
              HasSubstr("GrammarLimits::threads"));
  limits = {};
  limits.work = 1000;
  const auto slow = regex_grammar(byte_vocabulary(), "(a|b)*a(a|b){20}", limits);
  EXPECT_THAT(fixtures::refusal_of([&] { slow->allowed(fixtures::state_after(*slow, std::string(40, 'a'))); }),
              HasSubstr("GrammarLimits::work"));
}

}  // namespace
}  // namespace etna::models
