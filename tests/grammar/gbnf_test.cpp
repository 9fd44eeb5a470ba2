#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <grammar/grammar_fixtures.h>

namespace etna::models {
namespace {

using fixtures::accepts;
using fixtures::byte_vocabulary;
using testing::HasSubstr;

std::string gbnf_refusal(const std::string& source) {
  return fixtures::refusal_of([&] { gbnf_grammar(byte_vocabulary(), source); });
}

TEST(Gbnf, AcceptsWhatItsRulesDerive) {
  struct Case {
    const char* grammar;
    std::vector<std::string> accepted, refused;
  };
  const std::vector<Case> cases = {
      {"root ::= \"ab\"", {"ab"}, {"", "a", "abc", "b"}},
      {"root ::= \"a\" | \"b\" \"c\"?", {"a", "b", "bc"}, {"ac", "c", ""}},
      {"root ::= [a-c]+ # letters\n", {"a", "abc", "cab"}, {"", "d", "abd"}},
      {"root ::= [^a-c\\n]*", {"", "xyz", "\xC3\xA9"}, {"a", "xa", "\n", "\xC3"}},
      {"root ::= \"x\"{2} \"y\"{1,} \"z\"{0,2} \"w\"{,1}",
       {"xxy", "xxyyyzz", "xxyzw"},
       {"xy", "xx", "xxyzzz", "xxyww"}},
      {"root ::= item (\",\" item)*\nitem ::= [0-9]+ | \"(\" root \")\"",
       {"1", "1,22", "((1,2),3)"},
       {"", "(", "(1", "1)"}},
      {"root ::= \"\\x41\\u00e9\\U0001F600\\\"\\\\\\t\"", {"A\xC3\xA9\xF0\x9F\x98\x80\"\\\t"}, {"A"}},
      {"root ::= [\\x41\\u00e9\\U0001F600-\\U0001F64F\\]\\-]",
       {"A", "\xC3\xA9", "\xF0\x9F\x98\x81", "]", "-"},
       {"B", "\xF0\x9F\x99\x90"}},
      {"root ::= [a-]", {"a", "-"}, {"b"}},
      {"root ::= .",
       {"a", "\n", "\xE2\x82\xAC", "\xF4\x8F\xBF\xBF"},
       {"", "ab", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80", "\xFF"}},
      {"root ::= (\n  \"a\" |\n  \"b\"\n)\n", {"a", "b"}, {"ab"}},
      {"root ::= \"\"", {""}, {"a"}},
      {"root ::= (\"a\"*)*", {"", "aaaa"}, {"b"}},
      {"root ::= (\"a\" | \"a\")* \"b\"", {"b", "aaab"}, {"a", "ba"}},
      {"root ::= ((\"a\"? \"b\"?){2,5} \"c\"?)+", {"", "ab", "abababababc", "cc"}, {"d"}},
      {"root ::= \"[\" root \"]\" | \"\"", {"", "[]", "[[[]]]"}, {"[", "[[]"}},
      {"root ::= a-b_1\r\na-b_1 ::= \"x\"", {"x"}, {"y"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.grammar);
    const auto grammar = gbnf_grammar(byte_vocabulary(), c.grammar);
    for (const std::string& text : c.accepted) EXPECT_TRUE(accepts(*grammar, text)) << text;
    for (const std::string& text : c.refused) EXPECT_FALSE(accepts(*grammar, text)) << text;
  }
}

TEST(Gbnf, ErrorsNameLineAndColumn) {
  EXPECT_THAT(gbnf_refusal("root ::= \"a\"\n\nb = \"c\""), HasSubstr("line 3, column 3"));
  EXPECT_THAT(gbnf_refusal("root ::= \"\xC3\xA9\" other"), HasSubstr("line 1, column 14: rule 'other' is not defined"));
  EXPECT_THAT(gbnf_refusal("root ::= \"abc"), HasSubstr("line 1, column 10: a literal without"));
  EXPECT_THAT(gbnf_refusal("root ::= [abc"), HasSubstr("a class without"));
  EXPECT_THAT(gbnf_refusal("root ::= (\"a\""), HasSubstr("wanted ')'"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\")"), HasSubstr("wanted a rule, found ')'"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\"{3,2}"), HasSubstr("a count of 3 to 2"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\"{}"), HasSubstr("a count is"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\"{99999999999}"), HasSubstr("a count of more than"));
  EXPECT_THAT(gbnf_refusal("root ::= [z-a]"), HasSubstr("ends before it begins"));
  EXPECT_THAT(gbnf_refusal("root ::= \"\\q\""), HasSubstr("unknown escape"));
  EXPECT_THAT(gbnf_refusal("root ::= \"\\ud800\""), HasSubstr("U+D800 is not a character"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\"\nroot ::= \"b\""),
              HasSubstr("line 2, column 1: rule 'root' is defined twice"));
  EXPECT_THAT(gbnf_refusal("start ::= \"a\""), HasSubstr("no rule 'root'"));
  EXPECT_THAT(gbnf_refusal(""), HasSubstr("no rule 'root'"));
  EXPECT_THAT(gbnf_refusal("root ::= \"\xFF\""), HasSubstr("byte 10 is not UTF-8"));
}

TEST(Gbnf, RefusesWhatHasNoTexts) {
  EXPECT_THAT(gbnf_refusal("root ::= \"a\" root"), HasSubstr("no text"));
  EXPECT_THAT(gbnf_refusal("root ::= root \"a\" | \"b\""), HasSubstr("rule 'root' is left-recursive"));
  EXPECT_THAT(gbnf_refusal("root ::= a \"x\"\na ::= \"\" b\nb ::= \"c\"? a | \"d\""), HasSubstr("left-recursive"));
}

/// An alternative that leads nowhere is never entered.
TEST(Gbnf, DeadEndsAreNotAllowed) {
  const auto grammar = gbnf_grammar(byte_vocabulary(), "root ::= \"a\" loop | \"a\" \"b\"\nloop ::= \"c\" loop");
  EXPECT_EQ(fixtures::state_after(*grammar, "ac"), TokenGrammar::kRefused);
  EXPECT_TRUE(accepts(*grammar, "ab"));
}

TEST(Gbnf, DeepGroupsAreRefused) {
  const std::string open(100'000, '('), close(100'000, ')');
  EXPECT_THAT(gbnf_refusal("root ::= " + open + "\"a\"" + close), HasSubstr("nested more than 100 deep"));
  EXPECT_EQ(gbnf_refusal("root ::= " + std::string(90, '(') + "\"a\"" + std::string(90, ')')), "");
}

/// A long chain of rules, each of which is the next: neither time nor stack grows too much.
TEST(Gbnf, ManyRulesAreNoMatter) {
  std::string source = "root ::= r0\n";
  for (int i = 0; i < 20'000; ++i) source += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  source += "r20000 ::= \"x\"";
  const auto grammar = gbnf_grammar(byte_vocabulary(), source);
  EXPECT_TRUE(accepts(*grammar, "x"));
  source += " r0?";
  EXPECT_TRUE(accepts(*gbnf_grammar(byte_vocabulary(), source), "xxx"));
}

}  // namespace
}  // namespace etna::models
