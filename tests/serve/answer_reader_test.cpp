#include <etna/serve/answer_reader.h>

#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/serve/api_error.h>
#include <etna/serve/json_text.h>

namespace {

using namespace etna::serve;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<Tool> kReaderTools{
    {"get_weather", "", R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}})"},
    {"add", "", ""}};

AnswerSyntax syntax_of(CallForm form, bool think = false, bool xml = false) {
  AnswerSyntax syntax;
  syntax.calls = form;
  syntax.xml = xml;
  if (think) {
    syntax.think_open = "<think>";
    syntax.think_close = "</think>";
  }
  return syntax;
}

/// Events in words; neighbours of one kind are one: "text(Hi) call(0 add) args({}) end".
std::string words_of(const std::vector<AnswerEvent>& events) {
  std::string words, kind;
  for (const AnswerEvent& event : events) {
    std::string now;
    switch (event.kind) {
      case EventKind::text:
        now = "text";
        break;
      case EventKind::reasoning:
        now = "reasoning";
        break;
      case EventKind::tool_call_arguments:
        now = "args";
        break;
      case EventKind::tool_call_begins:
        words += ") call(" + std::to_string(event.tool_call) + " " + event.tool_name;
        kind = "call";
        continue;
      case EventKind::tool_call_ends:
        words += ") end(";
        kind = "end";
        continue;
      case EventKind::finish:
        ADD_FAILURE() << "readers finish nothing";
        continue;
    }
    if (now != kind) words += ") " + now + "(";
    kind = now;
    words += event.text;
  }
  words = words.empty() ? "" : words.substr(2) + ")";
  for (std::size_t at = 0; (at = words.find("end()", at)) != std::string::npos;) words.replace(at, 5, "end");
  return words;
}

std::string read_pieces(const AnswerReaderOptions& options, const std::vector<std::string>& pieces) {
  AnswerReader reader(options);
  std::vector<AnswerEvent> events;
  for (const std::string& piece : pieces) reader.read(piece, events);
  reader.finish(events);
  return words_of(events);
}

/// Reads a text whole, byte by byte, at every single cut and at random cuts; all must agree.
std::string read_all(const AnswerReaderOptions& options, const std::string& text) {
  const std::string whole = read_pieces(options, {text});
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  EXPECT_EQ(read_pieces(options, bytes), whole) << "byte by byte: " << text;
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(read_pieces(options, {text.substr(0, cut), text.substr(cut)}), whole) << "cut at " << cut << ": " << text;
  std::mt19937 random(text.size());
  for (int i = 0; i < 20; ++i) {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random() % 7;
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    EXPECT_EQ(read_pieces(options, pieces), whole) << text;
  }
  return whole;
}

std::string read_form(CallForm form, const std::string& text, bool xml = false) {
  return read_all({.syntax = syntax_of(form, false, xml), .tools = kReaderTools}, text);
}

constexpr const char* kRome = R"({"name": "get_weather", "arguments": {"city": "Rome {"}})";
constexpr const char* kRomeWords = R"(call(0 get_weather) args({"city": "Rome {"}) end)";

TEST(AnswerReader, PlainTextStaysAsItIs) {
  for (const char* text : {"Hi", "", " Hi \n", "a < b", "<tool", "<think>", "{\"name\": \"get_weather\"}", "\n\n"}) {
    EXPECT_EQ(read_all({}, text), *text == '\0' ? "" : "text(" + std::string(text) + ")");
    EXPECT_EQ(read_form(CallForm::mistral, text), *text == '\0' ? "" : "text(" + std::string(text) + ")");
  }
  EXPECT_EQ(read_all({.syntax = syntax_of(CallForm::tagged)}, "<tool_call>\n" + std::string(kRome)),
            "text(<tool_call>\n" + std::string(kRome) + ")")
      << "without tools there are no calls";
}

TEST(AnswerReader, SplitsReasoningFromText) {
  const AnswerReaderOptions closed{.syntax = syntax_of(CallForm::none, true)};
  EXPECT_EQ(read_all(closed, "<think>\nHm, 2 < 3.\n</think>\n\nYes.\n"), "reasoning(Hm, 2 < 3.) text(Yes.\n)");
  EXPECT_EQ(read_all(closed, "\n<think></think>Yes"), "text(Yes)");
  EXPECT_EQ(read_all(closed, "Yes <think>no</think>"), "text(Yes <think>no</think>)");
  EXPECT_EQ(read_all(closed, "<think>cut off </thi"), "reasoning(cut off </thi)");
  AnswerReaderOptions open = closed;
  open.reasoning = true;
  EXPECT_EQ(read_all(open, "so </b> it is</think>Yes"), "reasoning(so </b> it is) text(Yes)");
  EXPECT_EQ(read_all(open, "never closed"), "reasoning(never closed)");
  AnswerReader reader(open);
  std::vector<AnswerEvent> events;
  reader.read("so", events);
  EXPECT_TRUE(reader.in_reasoning());
  reader.read("</think>", events);
  EXPECT_FALSE(reader.in_reasoning());
}

TEST(AnswerReader, ReadsTaggedCalls) {
  const std::string call = "<tool_call>\n" + std::string(kRome) + "\n</tool_call>";
  EXPECT_EQ(read_form(CallForm::tagged, call), kRomeWords);
  EXPECT_EQ(read_form(CallForm::tagged, "Let me see.\n" + call), "text(Let me see.) " + std::string(kRomeWords));
  EXPECT_EQ(read_form(CallForm::tagged, call + "\n" + call + "\n"),
            std::string(kRomeWords) + R"( call(1 get_weather) args({"city": "Rome {"}) end)");
  EXPECT_EQ(read_form(CallForm::tagged, call + "\nDone."), std::string(kRomeWords) + " text(\nDone.)");
  EXPECT_EQ(read_form(CallForm::tagged, R"(<tool_call>{"name":"add"}</tool_call>)"), "call(0 add) args({}) end");
  EXPECT_EQ(read_form(CallForm::tagged, R"(<tool_call>{"arguments":{"x":1},"name":"add"}</tool_call>)"),
            R"(call(0 add) args({"x":1}) end)");
  EXPECT_EQ(read_form(CallForm::tagged, R"(<tool_call>{"name":"add","arguments":"{\"x\":1}"}</tool_call>)"),
            R"(call(0 add) args({"x":1}) end)");
  EXPECT_EQ(read_form(CallForm::tagged, R"(<tool_call>{"name":"add","arguments":{},"id":"7"} tail)"),
            "call(0 add) args({}) end text( tail)");
}

TEST(AnswerReader, ReadsReasoningThenCalls) {
  EXPECT_EQ(read_all({.syntax = syntax_of(CallForm::tagged, true), .tools = kReaderTools},
                     "<think>I call <tool_call>.</think>\n<tool_call>" + std::string(kRome) + "</tool_call>"),
            "reasoning(I call <tool_call>.) " + std::string(kRomeWords));
}

TEST(AnswerReader, WhatIsNoCallIsTextWhole) {
  for (const char* text : {"<tool_call>", "<tool_call>\n", "<tool_call>oh</tool_call>",
                           R"(<tool_call>{"name": "unknown", "arguments": {}})", R"(<tool_call>{"name": 7})",
                           R"(<tool_call>{"name": "add", "arguments": [1]}</tool_call>)", R"(<tool_call>{"nam)",
                           R"(<tool_call>{"name": "add" "x"})", R"(<tool_call>{})", R"(<tool_call>{"a":1}<tool_)",
                           R"(<tool_call>{"name": "add", "arguments": "7"}</tool_call> x)"})
    EXPECT_EQ(read_form(CallForm::tagged, text), "text(" + std::string(text) + ")");
  EXPECT_EQ(read_form(CallForm::tagged, "<tool_call><tool_call>" + std::string(kRome)),
            "text(<tool_call>) " + std::string(kRomeWords))
      << "a call within what was none";
}

TEST(AnswerReader, CutOffCallsKeepWhatCame) {
  EXPECT_EQ(read_form(CallForm::tagged, R"(<tool_call>{"name": "add", "arguments": {"x": "a)"),
            R"(call(0 add) args({"x": "a) end)");
  EXPECT_EQ(read_form(CallForm::tagged, "<tool_call>\n<function=get_weather>\n<parameter=city>\nRo", true),
            R"(call(0 get_weather) args({"city": "Ro) end)");
}

TEST(AnswerReader, ReadsQwenCoderXml) {
  const std::string call =
      "<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
      "<parameter=note>\na \"b\"\nc\n</parameter>\n</function>\n</tool_call>";
  const std::string words = R"(call(0 get_weather) args({"city": "12", "days": 3, "note": "a \"b\"\nc"}) end)";
  EXPECT_EQ(read_form(CallForm::tagged, call, true), words);
  EXPECT_EQ(read_form(CallForm::tagged, "Well.\n" + call.substr(12) + "\nOh.", true),
            "text(Well.) " + words + " text(\nOh.)");
  EXPECT_EQ(read_form(CallForm::tagged, "<function=add>\n</function>", true), "call(0 add) args({}) end");
  EXPECT_EQ(read_form(CallForm::tagged, "<function=add>oh</function>", true),
            "call(0 add) args({}) end text(oh</function>)");
  EXPECT_EQ(read_form(CallForm::tagged, "<function=unknown>oh</function>", true),
            "text(<function=unknown>oh</function>)");
}

TEST(AnswerReader, ReadsGlmCalls) {
  const std::string call =
      "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>12 <b></arg_value>\n<arg_key>days</arg_key>\n"
      "<arg_value>3</arg_value>\n<arg_key>list</arg_key>\n<arg_value>[\"a\"]</arg_value>\n</tool_call>";
  const std::string words = R"(call(0 get_weather) args({"city": "12 <b>", "days": 3, "list": ["a"]}) end)";
  EXPECT_EQ(read_form(CallForm::glm, call), words);
  EXPECT_EQ(read_form(CallForm::glm, "Well.\n" + call + "\n<tool_call>add\n</tool_call>\nOh."),
            "text(Well.) " + words + " call(1 add) args({}) end text(\nOh.)");
  EXPECT_EQ(read_form(CallForm::glm, "<tool_call>add</tool_call>"), "call(0 add) args({}) end");
  EXPECT_EQ(read_form(CallForm::glm, "<tool_call>\nadd<arg_key>x</arg_key><arg_value>\n\"q\" </arg_value></tool_call>"),
            R"(call(0 add) args({"x": )"
            "\n\"q\" "
            R"(}) end)")
      << "JSON, where the schema does not say that it is a text";
  EXPECT_EQ(read_form(CallForm::glm, "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Ro"),
            R"(call(0 get_weather) args({"city": "Ro) end)")
      << "cut off";
  EXPECT_EQ(read_form(CallForm::glm, "<tool_call>get_weather\n<arg_key>ci"), "call(0 get_weather) args({) end");
  for (const char* text :
       {"<tool_call>nobody</tool_call>", "<tool_call>add, then", "<tool_call>", "<tool_call>add\n<b>",
        "<tool_call>{\"name\": \"add\"}</tool_call>", "<tool_call>\n\n</tool_call>"})
    EXPECT_EQ(read_form(CallForm::glm, text), "text(" + std::string(text) + ")");
}

TEST(AnswerReader, ReadsChannels) {
  const std::string think = "<|channel|>analysis<|message|>Hm, 2 < 3.<|end|>", next = "<|start|>assistant",
                    call = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>";
  const auto read = [](const std::string& text) { return read_form(CallForm::channels, text); };
  EXPECT_EQ(read("<|channel|>final<|message|>Yes.\n<|return|>"), "text(Yes.\n)");
  EXPECT_EQ(read(think + next + "<|channel|>final<|message|>Yes."), "reasoning(Hm, 2 < 3.) text(Yes.)");
  EXPECT_EQ(read(think + next + call + R"({"city": "Rome"})" + "<|call|>"),
            R"(reasoning(Hm, 2 < 3.) call(0 get_weather) args({"city": "Rome"}) end)");
  EXPECT_EQ(read(call + R"({"city": "Ro)"), R"(call(0 get_weather) args({"city": "Ro) end)") << "cut off";
  EXPECT_EQ(read(" to=functions.add<|channel|>commentary json<|message|> {\"x\": 1}<|call|>"),
            R"(call(0 add) args({"x": 1}) end)");
  EXPECT_EQ(read(next + " to=functions.add<|channel|>commentary<|message|><|call|>"), "call(0 add) args({}) end");
  EXPECT_EQ(read("<|channel|>commentary<|message|>I look.<|end|>\n" + next + call + "{}<|call|>" + next + call +
                 "{}<|call|>"),
            "text(I look.) call(0 get_weather) args({}) end call(1 get_weather) args({}) end");
  EXPECT_EQ(read("<|channel|>commentary<|message|>I look.<|end|>" + next + "<|channel|>final<|message|>Yes."),
            "text(I look.\n\nYes.)");
  EXPECT_EQ(read(think + think), "reasoning(Hm, 2 < 3.\n\nHm, 2 < 3.)");
  EXPECT_EQ(read("<|channel|>analysis<|message|>never closed <|en"), "reasoning(never closed <|en)");
  EXPECT_EQ(read("<|channel|>final<|message|>Yes<|start|>assistant<|channel|>fi"), "text(Yes)")
      << "a header that is cut off is no text";

  // What the request does not have, and what has no header.
  const std::string unknown = "<|channel|>commentary to=functions.nobody <|constrain|>json<|message|>{}<|call|>";
  EXPECT_EQ(read(unknown), "text(" + unknown + ")");
  EXPECT_EQ(read_all({.syntax = syntax_of(CallForm::channels)}, call + "{}"), "text(" + call + "{})")
      << "without tools there are no calls";
  for (const std::string& text :
       {std::string("Hi"), std::string(" Hi \n"), std::string("<"), std::string("to=x"), std::string(400, 'x'),
        "to=" + std::string(400, 'x'), std::string("\n"), std::string()})
    EXPECT_EQ(read(text), text.empty() ? "" : "text(" + text + ")");
  EXPECT_EQ(read("Hi<|end|>" + next + "<|channel|>final<|message|>you"), "text(Hi\n\nyou)");

  AnswerReaderOptions open{.syntax = syntax_of(CallForm::channels), .tools = kReaderTools, .reasoning = true};
  EXPECT_EQ(read_all(open, "so<|end|>" + next + "<|channel|>final<|message|>Yes"), "reasoning(so) text(Yes)");
}

TEST(AnswerReader, ReadsLlamaCalls) {
  const char* const call = R"({"name": "get_weather", "parameters": {"city": "Rome"}})";
  const char* const words = R"(call(0 get_weather) args({"city": "Rome"}) end)";
  EXPECT_EQ(read_form(CallForm::llama, call), words);
  EXPECT_EQ(read_form(CallForm::llama, "\n" + std::string(call)), words);
  EXPECT_EQ(read_form(CallForm::llama, "<|python_tag|>" + std::string(call)), words);
  EXPECT_EQ(read_form(CallForm::llama, std::string(call) + "; " + call),
            std::string(words) + R"( call(1 get_weather) args({"city": "Rome"}) end)");
  EXPECT_EQ(read_form(CallForm::llama, "I say " + std::string(call)), "text(I say " + std::string(call) + ")");
  for (const char* text : {R"({"name": "Bob", "parameters": {}})", "{1, 2}", "{", "<|python_tag|>print(1)"})
    EXPECT_EQ(read_form(CallForm::llama, text), "text(" + std::string(text) + ")");
}

TEST(AnswerReader, ReadsMistralCalls) {
  EXPECT_EQ(read_form(CallForm::mistral, "[TOOL_CALLS] [" + std::string(kRome) + "]"), kRomeWords);
  EXPECT_EQ(
      read_form(CallForm::mistral,
                R"([TOOL_CALLS][{"name":"add","arguments":{},"id":"abcdefghi"}, {"name":"add","arguments":{"x":2}}])"),
      R"(call(0 add) args({}) end call(1 add) args({"x":2}) end)");
  EXPECT_EQ(read_form(CallForm::mistral, R"(Hm.[TOOL_CALLS]add[ARGS]{"x": 1}[TOOL_CALLS]add[CALL_ID]abc[ARGS]{})"),
            R"(text(Hm.) call(0 add) args({"x": 1}) end call(1 add) args({}) end)");
  EXPECT_EQ(read_form(CallForm::mistral, R"([TOOL_CALLS]add{"x": 1})"), R"(call(0 add) args({"x": 1}) end)");
  EXPECT_EQ(read_form(CallForm::mistral, R"([TOOL_CALLS][{"name":"add","arguments":{}}, {"name":"no"}] end)"),
            R"(call(0 add) args({}) end text(, {"name":"no"}] end))");
  EXPECT_EQ(read_form(CallForm::mistral, "[TOOL_CALLS]nobody[ARGS]{}"), "text([TOOL_CALLS]nobody[ARGS]{})");
}

TEST(AnswerReader, ReadsDeepseekCalls) {
  const std::string begin = "<｜tool▁calls▁begin｜>", call = "<｜tool▁call▁begin｜>", sep = "<｜tool▁sep｜>",
                    call_end = "<｜tool▁call▁end｜>", end = "<｜tool▁calls▁end｜>";
  const std::string fenced = "function" + sep + "add\n```json\n{\"x\": 1}\n```", bare = "add" + sep + "{\"x\": 1}";
  for (const std::string& one : {fenced, bare}) {
    EXPECT_EQ(read_form(CallForm::deepseek, begin + call + one + call_end + end), R"(call(0 add) args({"x": 1}) end)");
    EXPECT_EQ(
        read_form(CallForm::deepseek, "Ok. " + begin + call + one + call_end + "\n" + call + one + call_end + end),
        R"(text(Ok.) call(0 add) args({"x": 1}) end call(1 add) args({"x": 1}) end)");
  }
  EXPECT_EQ(read_form(CallForm::deepseek, begin + "oh"), "text(" + begin + "oh)");
}

TEST(AnswerReader, ReadsListsBehindTags) {
  EXPECT_EQ(read_form(CallForm::granite, "<|tool_call|>[" + std::string(kRome) + "]"), kRomeWords);
  EXPECT_EQ(read_form(CallForm::granite, "<tool_call>[" + std::string(kRome) + "]</tool_call>"), kRomeWords);
  EXPECT_EQ(
      read_form(CallForm::command,
                "<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"add\", \"parameters\": {\"x\": 1}}\n]"
                "<|END_ACTION|>"),
      R"(call(0 add) args({"x": 1}) end)");
}

/// Texts made of the pieces of all forms: whatever they spell, no cut changes the events, and what is neither a call
/// nor white space comes out.
TEST(AnswerReader, NoCutChangesAnything) {
  const std::vector<std::string> parts{"<tool_call>",
                                       "</tool_call>",
                                       "<function=add>",
                                       "</function>",
                                       "<parameter=x>",
                                       "</parameter>",
                                       "[TOOL_CALLS]",
                                       "[ARGS]",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       ",",
                                       ":",
                                       "\"name\"",
                                       "\"add\"",
                                       "\"arguments\"",
                                       "\"parameters\"",
                                       " ",
                                       "\n",
                                       "<think>",
                                       "</think>",
                                       "words",
                                       kRome,
                                       "\"",
                                       "\\",
                                       "<|python_tag|>",
                                       "<tool_call>add\n",
                                       "<arg_key>",
                                       "</arg_key>",
                                       "<arg_value>",
                                       "</arg_value>",
                                       "<|start|>assistant",
                                       "<|channel|>",
                                       "analysis",
                                       "commentary to=functions.add ",
                                       "<|message|>",
                                       "<|end|>",
                                       "<|call|>",
                                       ";",
                                       "add",
                                       "<"};
  std::mt19937 random(7);
  for (int i = 0; i < 160; ++i) {
    std::string text;
    for (std::size_t k = 0, most = random() % 14; k < most; ++k) text += parts[random() % parts.size()];
    for (const CallForm form :
         {CallForm::tagged, CallForm::llama, CallForm::mistral, CallForm::glm, CallForm::channels}) {
      AnswerReaderOptions options{.syntax = syntax_of(form, i % 2 == 0, true), .tools = kReaderTools};
      const std::string words = read_all(options, text);
      // What stands between a channel's marker and its message is a header.
      const bool kept = form == CallForm::channels || text.find("words") == std::string::npos ||
                        words.find("words") != std::string::npos;
      EXPECT_TRUE(kept) << text << " became " << words;
      options.reasoning = true;
      read_all(options, text);
    }
    if (HasFailure()) return;
  }
}

TEST(AnswerSyntax, ComesFromTheTemplate) {
  const auto form = [](const char* jinja) { return recognize_answer_syntax(jinja).calls; };
  EXPECT_EQ(form("chatml"), CallForm::tagged);
  EXPECT_EQ(form("llama3"), CallForm::llama);
  EXPECT_EQ(form("mistral-v3"), CallForm::mistral);
  EXPECT_EQ(form("vicuna"), CallForm::none);
  EXPECT_EQ(form("{{ '<|im_start|>' }} <tool_call>"), CallForm::tagged);
  EXPECT_EQ(form("{{ '<|im_start|>' }}"), CallForm::none);
  EXPECT_EQ(form("<｜tool▁calls▁begin｜>"), CallForm::deepseek);
  EXPECT_EQ(form("<tool_call>{{ name }}\n<arg_key>"), CallForm::glm);
  EXPECT_EQ(form("<|start|>assistant<|channel|>final<|message|>"), CallForm::channels);
  const AnswerSyntax channels = recognize_answer_syntax("<|channel|><|message|>");
  EXPECT_TRUE(opens_reasoning(channels, "<|start|>assistant<|channel|>analysis<|message|>"));
  EXPECT_FALSE(opens_reasoning(channels, "<|start|>assistant"));
  EXPECT_TRUE(recognize_answer_syntax("<tool_call><function=").xml);
  EXPECT_EQ(recognize_answer_syntax("x</think>y").think_close, "</think>");
  EXPECT_EQ(recognize_answer_syntax("").think_close, "");
  const AnswerSyntax think = recognize_answer_syntax("</think>");
  EXPECT_TRUE(opens_reasoning(think, "<assistant><think>\n"));
  EXPECT_FALSE(opens_reasoning(think, "<assistant><think></think>"));
  EXPECT_FALSE(opens_reasoning(think, ""));
}

/// What a schema describes reads back as the call that was forced.
TEST(ForcedCall, BeginsWhatTheReaderReads) {
  const std::vector<Tool> one{kReaderTools[0]};
  const std::string arguments = R"({"city":"Rome"})";
  const auto check = [&](CallForm form, const std::string& answer) {
    const AnswerSyntax syntax = syntax_of(form);
    const ForcedCall forced = force_call(syntax, one, "get_weather", false);
    EXPECT_THAT(forced.schema, HasSubstr("\"city\""));
    EXPECT_EQ(read_pieces({.syntax = syntax, .tools = kReaderTools}, {forced.begin, answer}),
              "call(0 get_weather) args(" + arguments + ") end");
  };
  const std::string call = R"({"name":"get_weather","arguments":{"city":"Rome"}})";
  check(CallForm::tagged, call);
  check(CallForm::llama, R"({"name":"get_weather","parameters":{"city":"Rome"}})");
  check(CallForm::mistral, "[" + call + "]");
  check(CallForm::granite, "[" + call + "]");
  check(CallForm::command, R"([{"tool_name":"get_weather","parameters":{"city":"Rome"}}])");
  check(CallForm::deepseek, arguments);
  check(CallForm::channels, arguments);
  const Json any = Json::parse(force_call(syntax_of(CallForm::tagged), kReaderTools, "", false).schema);
  EXPECT_EQ(any["anyOf"].size(), 2u);
  EXPECT_EQ(force_call(syntax_of(CallForm::tagged, true), one, "", true).begin, "\n</think>\n\n<tool_call>\n");
  EXPECT_THAT([&] { force_call(syntax_of(CallForm::none), one, "", false); },
              ThrowsMessage<ApiError>(HasSubstr("tool_choice 'auto'")));
  EXPECT_EQ(force_call(syntax_of(CallForm::deepseek), kReaderTools, "", false).texts.size(), 4u);
  EXPECT_THROW(force_call(syntax_of(CallForm::tagged), {}, "", false), ApiError);
}

}  // namespace
