#include <etna/serve/internal/call_texts.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/serve/answer_reader.h>
#include <etna/serve/api_error.h>

#include "grammar/grammar_fixtures.h"

// Calls that a grammar writes are calls that the reader reads, and their arguments validate.
namespace etna::serve {
namespace {

using models::fixtures::byte_text;
using models::fixtures::byte_vocabulary;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<Tool> kCalledTools{
    {"get_weather", "",
     R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 9},
         "unit": {"type": "string", "enum": ["C", "F"]}, "list": {"type": "array", "items": {"type": "boolean"}}},
         "required": ["city", "days"], "additionalProperties": false})",
     true},
    {"now", "", "", false}};

AnswerSyntax syntax_with(CallForm form, bool xml = false) {
  AnswerSyntax syntax;
  syntax.calls = form;
  syntax.xml = xml;
  return syntax;
}

struct ReadCall {
  std::string name, arguments;
};
std::vector<ReadCall> calls_in(const AnswerSyntax& syntax, const std::vector<std::string>& pieces) {
  AnswerReader reader({.syntax = syntax, .tools = kCalledTools});
  std::vector<AnswerEvent> events;
  for (const std::string& piece : pieces) reader.read(piece, events);
  reader.finish(events);
  std::vector<ReadCall> calls;
  for (const AnswerEvent& event : events) {
    if (event.kind == EventKind::tool_call_begins) calls.push_back({event.tool_name, ""});
    if (event.kind == EventKind::tool_call_arguments) calls.back().arguments += event.text;
  }
  return calls;
}

void expect_valid(const ReadCall& call, const std::string& text) {
  const Json arguments = Json::parse(call.arguments, nullptr, false);
  ASSERT_TRUE(arguments.is_object()) << text << "\n" << call.arguments;
  if (call.name == "now") return;
  EXPECT_EQ(call.name, "get_weather") << text;
  ASSERT_TRUE(arguments.contains("city") && arguments["city"].is_string()) << text;
  ASSERT_TRUE(arguments.contains("days") && arguments["days"].is_number_integer()) << text;
  EXPECT_LE(arguments["days"], 9);
  if (arguments.contains("unit")) {
    EXPECT_TRUE(arguments["unit"] == "C" || arguments["unit"] == "F") << text;
  }
  for (const Json& value : arguments.value("list", Json::array())) EXPECT_TRUE(value.is_boolean()) << text;
  EXPECT_LE(arguments.size(), 4u);
}

/// A random text of the parts; "" if a part did not end.
std::string text_of(const models::GrammarText& parts, std::mt19937& random) {
  const std::vector<std::string> words{"Rome", "12", "a < b", "", "\"x\"", "two\nlines", "</", "\xC3\xA9"};
  std::string text;
  for (const models::GrammarGroup& group : parts) {
    if (group.optional && random() % 2 == 0) continue;
    for (const models::GrammarPart& part : group.parts) {
      switch (part.kind) {
        case models::GrammarPart::Kind::one_of:
          text += part.texts[random() % part.texts.size()];
          break;
        case models::GrammarPart::Kind::until:
          text += words[random() % words.size()] + part.texts[0];
          break;
        case models::GrammarPart::Kind::json: {
          const auto grammar = models::json_schema_grammar(byte_vocabulary(), part.texts[0]);
          const std::string value = models::fixtures::random_text(*grammar, byte_text, random, 60);
          if (value.empty()) return "";
          text += value;
          break;
        }
      }
    }
  }
  return text;
}

/// Random calls are texts of the grammar, and read back as calls that validate.
void expect_read_back(const AnswerSyntax& syntax, const std::string& begin,
                      const std::vector<models::GrammarText>& texts) {
  std::mt19937 random(3);
  const auto grammar = models::parts_grammar(byte_vocabulary(), texts);
  std::size_t weather = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string text = text_of(texts[random() % texts.size()], random);
    if (text.empty()) continue;
    EXPECT_TRUE(models::fixtures::accepts(*grammar, text)) << begin << text;
    const std::vector<ReadCall> read = calls_in(syntax, {begin, text});
    // What need not validate may be any text, also one that is no call.
    ASSERT_TRUE(!read.empty() || text.starts_with("now\n")) << begin << text;
    for (const ReadCall& call : read) {
      weather += call.name == "get_weather" ? 1 : 0;
      expect_valid(call, begin + text);
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(weather, 5u) << begin;
}

const std::pair<CallForm, bool> kForms[] = {
    {CallForm::tagged, false},   {CallForm::tagged, true},   {CallForm::glm, false},
    {CallForm::mistral, false},  {CallForm::command, false}, {CallForm::deepseek, false},
    {CallForm::channels, false}, {CallForm::granite, false}, {CallForm::llama, false}};

TEST(CallTexts, OfEachFormReadBackAndValidate) {
  for (const auto& [form, xml] : kForms) {
    const AnswerSyntax syntax = syntax_with(form, xml);
    const auto calls = call_texts(syntax, kCalledTools, StrictTools::marked);
    ASSERT_TRUE(calls) << static_cast<int>(form);
    const std::string begin = form == CallForm::channels   ? "<|channel|>commentary "
                              : form == CallForm::deepseek ? std::string(kDeepseekCalls)
                                                           : "";
    const auto marked = models::marked_grammar(byte_vocabulary(), *calls);
    EXPECT_TRUE(models::fixtures::accepts(*marked, "any text {\"x\": 1}"));
    for (const std::string& marker : calls->markers) {
      expect_read_back(syntax, begin + marker, calls->texts);
      EXPECT_FALSE(models::fixtures::accepts(*marked, "I call " + marker + "nobody"));
    }
    if (!calls->objects.empty()) expect_read_back(syntax, "", calls->objects);
  }
}

TEST(CallTexts, BeginBehindWhatARequiredCallBegins) {
  for (const auto& [form, xml] : kForms) {
    const AnswerSyntax syntax = syntax_with(form, xml);
    const ForcedCall forced = force_call(syntax, kCalledTools, "", false);
    std::vector<models::GrammarText> texts = forced.texts;
    if (texts.empty()) texts = {{{{{models::GrammarPart::Kind::json, {forced.schema}}}}}};
    expect_read_back(syntax, forced.begin, texts);
  }
}

TEST(CallTexts, AreNotThereWithoutAForm) {
  EXPECT_FALSE(call_texts(syntax_with(CallForm::none), kCalledTools, StrictTools::marked));
}

/// A random text of pieces that begin, end and look like calls.
std::string confusing_text(const std::vector<std::string>& pieces, std::mt19937& random) {
  std::string text;
  for (std::size_t n = random() % 7; n > 0; --n) text += pieces[random() % pieces.size()];
  return text;
}

TEST(CallTexts, OfLlamaAndGraniteLeaveNoTextThatIsReadAsAWrongCall) {
  std::mt19937 random(5);
  for (const CallForm form : {CallForm::llama, CallForm::granite}) {
    AnswerSyntax syntax = syntax_with(form);
    const std::string field = form == CallForm::llama ? "parameters" : "arguments";
    const std::string right = R"({"name": "get_weather", ")" + field + R"(": {"city": "Rome", "days": 3}})",
                      wrong = R"({"name": "get_weather", ")" + field + R"(": {"city": 7}})",
                      other = R"({"name": "now", ")" + field + R"(": {"zone": [1]}})";
    for (const bool thinks : {false, true}) {
      if (thinks && form == CallForm::granite) continue;  // in reasoning, too, only calls follow its markers
      if (thinks) syntax.think_open = "<think>", syntax.think_close = "</think>";
      const auto calls = call_texts(syntax, kCalledTools, StrictTools::marked);
      ASSERT_TRUE(calls);
      const auto grammar = models::marked_grammar(byte_vocabulary(), *calls);
      std::vector<std::string> pieces{right, right, wrong, other, "[", "]", "{", " ", "\n", "a", "<", ";", "<|", ", "};
      for (const std::string& word : answer_markers(syntax)) {
        pieces.push_back(word);
        pieces.push_back(word.substr(0, word.size() / 2));
      }
      int accepted = 0, called = 0;
      for (int i = 0; i < 20'000; ++i) {
        const std::string text = confusing_text(pieces, random);
        if (!models::fixtures::accepts(*grammar, text)) continue;
        ++accepted;
        for (const ReadCall& call : calls_in(syntax, {text})) {
          ++called;
          expect_valid(call, text);
        }
        if (testing::Test::HasFailure()) return;
      }
      EXPECT_GT(accepted, 3000);
      EXPECT_GT(called, 300);
    }
  }
}

TEST(CallTexts, OfLlamaLeaveReasoningFree) {
  AnswerSyntax syntax = syntax_with(CallForm::llama);
  syntax.think_open = "<think>";
  syntax.think_close = "</think>";
  models::MarkedText calls = *call_texts(syntax, kCalledTools, StrictTools::marked);
  const auto closed = models::marked_grammar(byte_vocabulary(), calls);
  calls.hidden = true;
  const auto opened = models::marked_grammar(byte_vocabulary(), calls);
  const std::string call = R"({"name": "now", "parameters": {}})";
  EXPECT_TRUE(models::fixtures::accepts(*opened, "{\"x\": 1} <|python_tag|> </think>\n" + call));
  EXPECT_FALSE(models::fixtures::accepts(*opened, "{} </think>\n{\"x\": 1}"));
  EXPECT_TRUE(models::fixtures::accepts(*closed, "<think>{\"x\": 1}</think>" + call));
  EXPECT_FALSE(models::fixtures::accepts(*closed, "{\"x\": 1}"));
}

TEST(CallTexts, RefuseWhatTagsCannotPromise) {
  const auto refused = [](const std::string& parameters, const std::string& why) {
    const std::vector<Tool> tools{{"f", "", parameters, true}};
    EXPECT_THAT([&] { call_texts(syntax_with(CallForm::glm), tools, StrictTools::marked); },
                ThrowsMessage<ApiError>(testing::AllOf(HasSubstr("'f'"), HasSubstr(why))))
        << parameters;
    EXPECT_NO_THROW(call_texts(syntax_with(CallForm::tagged), tools, StrictTools::marked)) << "JSON promises it";
    const std::vector<Tool> lax{{"f", "", parameters, false}};
    EXPECT_NO_THROW(call_texts(syntax_with(CallForm::glm), lax, StrictTools::marked));
  };
  refused(R"({"properties": {"a": {"type": "string", "pattern": "^a"}}})", "the text 'a' has 'pattern'");
  refused(R"({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}})", "$ref");
  refused(R"({"anyOf": [{"required": ["a"]}]})", "the object has 'anyOf'");
  refused(R"({"properties": {"a": {"type": "string", "enum": ["b</arg_value>c"]}}})", "has the tag </arg_value>");
  refused(R"({"properties": {"a": {"type": "string", "enum": [7]}}})", "has a value that is none");
  refused(R"({"properties": {}, "required": ["a"]})", "required that is not described");
  refused(R"({"properties": {"</arg_key>": {}}})", "a name has a tag");
}

}  // namespace
}  // namespace etna::serve
