#include <etna/models/grammar/grammar.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <grammar/grammar_fixtures.h>

namespace etna::models {
namespace {

using fixtures::accepts;
using fixtures::byte_vocabulary;
using fixtures::refusal_of;
using fixtures::state_after;
using testing::HasSubstr;

GrammarPart one_of(std::vector<std::string> texts) { return {GrammarPart::Kind::one_of, std::move(texts)}; }
GrammarPart json(const char* schema) { return {GrammarPart::Kind::json, {schema}}; }
GrammarPart until(const char* text) { return {GrammarPart::Kind::until, {text}}; }

constexpr const char* kNumber = R"({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})";

TEST(MarkedText, IsFreeUpToAMarkerAndBehindWhatFollowsIt) {
  const std::vector<GrammarText> calls = {{{{one_of({"\n", ""}), json(kNumber)}}}};
  const auto grammar = marked_grammar(byte_vocabulary(), {.markers = {"<call>"}, .texts = calls});
  for (const char* text :
       {"", "any text, {\"x\": 1}", "<cal", "<<call", "<call", "<call>\n{\"x\": 1}", "<call>{\"x\":1}",
        "a <ca<call>{\"x\": 1}</call> b <call>{\"x\": 2} c <", "\xFF\xFE <c", "<call>{\"x\": 1}{\"x\""})
    EXPECT_TRUE(accepts(*grammar, text)) << text;
  for (const char* text : {"<call>", "<call>\n", "<call>{", "<call>{\"x\": \"1\"}", "<call>no", "a<call>{\"y\": 1}",
                           "<call>{\"x\": 1}<call>oh", "<c<call>oh"})
    EXPECT_FALSE(accepts(*grammar, text)) << text;
  // A text that is long has no more states than a short one.
  const TokenGrammar::State state = state_after(*grammar, "word ");
  EXPECT_EQ(state_after(*grammar, std::string(20'000, 'w') + " "), state);
}

TEST(MarkedText, FindsMarkersThatOverlapThemselves) {
  const std::vector<GrammarText> calls = {{{{one_of({"!"})}}}};
  const auto grammar = marked_grammar(byte_vocabulary(), {.markers = {"aabaa"}, .texts = calls});
  for (const char* text : {"aabaa!", "aabab aabaa!", "aaabaa!", "", "aab", "aabab"})
    EXPECT_TRUE(accepts(*grammar, text)) << text;
  for (const char* text : {"aabaa", "aabaabaa", "aaaabaa?", "aabaaba!"}) EXPECT_FALSE(accepts(*grammar, text)) << text;
}

TEST(MarkedText, FindsSeveralMarkersThatShareBytes) {
  const std::vector<GrammarText> calls = {{{{one_of({"!"})}}}};
  const auto grammar = marked_grammar(byte_vocabulary(), {.markers = {"<|call|>", "<call>"}, .texts = calls});
  for (const char* text : {"<|call|>!", "<call>!", "<|call>", "<|<call>!<|call|>! <", "<call|>", "{<|call|>!{"})
    EXPECT_TRUE(accepts(*grammar, text)) << text;
  for (const char* text : {"<|call|>", "<|<call>", "<call>!<|call|>?"}) EXPECT_FALSE(accepts(*grammar, text)) << text;
}

TEST(MarkedText, TellsObjectsAtTheBeginningFromText) {
  const std::vector<GrammarText> calls = {{{{one_of({"{1}", "{2}"})}}}};
  const MarkedText marked{.markers = {"<|go|>"},
                          .texts = calls,
                          .objects = calls,
                          .closers = {"<|end|>", ";"},
                          .hidden_open = "<hm>",
                          .hidden_close = "</hm>"};
  const auto grammar = marked_grammar(byte_vocabulary(), marked);
  for (const char* text : {"",
                           " \n",
                           "{1}",
                           " {1} ",
                           "{1}{2}",
                           "{1};\n{2}",
                           "{1} <|end|> ; {2}",
                           "{1}<|end|><|go|>{2} {1}",
                           "a {3}",
                           "<{3}",
                           "<|go|>{1} a {3}",
                           "a <|go|>{1} {3}",
                           "{1};;{3}",
                           "{1};<|end|>{3}",
                           "{1}<|en{3}",
                           "{1}<|<|go|>{2}{3}",
                           "<hm>{3} <|go|> </hm> {1}",
                           " <hm> </hm",
                           "<hm></hm>a<hm>{3}",
                           "<h{3}",
                           "a<hm>{3}"})
    EXPECT_TRUE(accepts(*grammar, text)) << text;
  for (const char* text : {"{3}", "{1", " \n{3}", "{1}{3}", "{1};{3}", "{1};{2}{3}", "{1}<|end|>{3}", "{1}<|end|>;{3}",
                           "<|go|>{1}{3}", "<|go|>{3}", "<|go|>", "a <|go|>{3}", "{1};;<|go|>{3}", "{1}<|<|go|>{3}",
                           "<hm></hm>{3}", "<hm>{3}</hm> <|go|>{3}", "<hm></hm>a<hm><|go|>{3}", "<hm></hm>{1}{3}"})
    EXPECT_FALSE(accepts(*grammar, text)) << text;
  MarkedText begun = marked;
  begun.hidden = true;
  const auto hidden = marked_grammar(byte_vocabulary(), begun);
  EXPECT_TRUE(accepts(*hidden, "{3}<hm></hm>{1}"));
  EXPECT_FALSE(accepts(*hidden, "{3}</hm>{3}"));
  EXPECT_TRUE(accepts(*hidden, "</hm>a<hm>{3}"));
}

TEST(MarkedText, IsOneOfTextsOfParts) {
  const GrammarText call = {{{one_of({"f>"})}},
                            {{one_of({"<p=a>"}), until("</p>")}},
                            {{one_of({"<p=b>"}), json("{\"type\": \"integer\"}"), one_of({"</p>"})}, true},
                            {{one_of({"<p=c>"}), one_of({"red", "blue"}), one_of({"</p>"})}, true},
                            {{one_of({"</f>"})}}};
  const GrammarText other = {{{one_of({"g>", "h>"})}}};
  const auto grammar = parts_grammar(byte_vocabulary(), std::vector{call, other});
  for (const char* text : {"f><p=a>any < text</p></f>", "f><p=a></p><p=b>-7</p></f>", "f><p=a></</p><p=c>red</p></f>",
                           "f><p=a>x</p><p=b>0</p><p=c>blue</p></f>", "g>", "h>"})
    EXPECT_TRUE(accepts(*grammar, text)) << text;
  for (const char* text : {"", "f></f>", "f><p=a>x</p>", "f><p=a>x</p><p=b>x</p></f>", "f><p=a>x</p><p=c>green</p></f>",
                           "f><p=a>x</p><p=c>red</p><p=b>1</p></f>", "g> ", "f><p=a>x</p></p></f>"})
    EXPECT_FALSE(accepts(*grammar, text)) << text;
}

TEST(MarkedText, RefusesWhatSaysNothing) {
  const std::vector<GrammarText> none, empty = {{{{GrammarPart{}}}}}, wrong = {{{{json("{\"not\": {}}")}}}},
                                       endless = {{{{until("")}}}};
  EXPECT_THAT(refusal_of([&] { parts_grammar(byte_vocabulary(), none); }), HasSubstr("no text"));
  EXPECT_THAT(refusal_of([&] { parts_grammar(byte_vocabulary(), empty); }), HasSubstr("empty"));
  EXPECT_THAT(refusal_of([&] { parts_grammar(byte_vocabulary(), wrong); }), HasSubstr("not"));
  EXPECT_THAT(refusal_of([&] { parts_grammar(byte_vocabulary(), endless); }), HasSubstr("empty"));
  const auto refused = [](const MarkedText& marked) {
    return refusal_of([&] { marked_grammar(byte_vocabulary(), marked); });
  };
  const std::vector<GrammarText> right = {{{{one_of({"!"})}}}};
  EXPECT_THAT(refused({.markers = {""}, .texts = right}), HasSubstr("empty"));
  EXPECT_THAT(refused({.markers = {}, .texts = right}), HasSubstr("no marker"));
  EXPECT_THAT(refused({.markers = {"a<b>", "<b>"}, .texts = right}), HasSubstr("'<b>' lies within the marker 'a<b>'"));
  EXPECT_THAT(refused({.markers = {"<b>", "<b>"}, .texts = right}), HasSubstr("lies within"));
  EXPECT_THAT(refused({.markers = {"<b>"}, .texts = right, .objects = right, .hidden_open = "(", .hidden_close = ""}),
              HasSubstr("empty"));
}

}  // namespace
}  // namespace etna::models
