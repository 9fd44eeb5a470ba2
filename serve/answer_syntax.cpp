#include <etna/serve/answer_syntax.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/serve/api_error.h>
#include <etna/serve/internal/call_text.h>
#include <etna/serve/internal/call_texts.h>
#include <etna/serve/internal/channel_reader.h>
#include <etna/serve/json_text.h>

namespace etna::serve {
namespace {

/// Formats known by name that have tools, by how their names begin.
constexpr std::pair<std::string_view, CallForm> kFormatCalls[] = {{"chatml", CallForm::tagged},
                                                                  {"llama3", CallForm::llama},
                                                                  {"mistral-v3", CallForm::mistral},
                                                                  {"mistral-v7", CallForm::mistral}};

}  // namespace

AnswerSyntax recognize_answer_syntax(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != std::string_view::npos; };
  AnswerSyntax syntax;
  if (has("</think>")) {
    syntax.think_open = "<think>";
    syntax.think_close = "</think>";
  } else if (has("[THINK]")) {
    syntax.think_open = "[THINK]";
    syntax.think_close = "[/THINK]";
  } else if (has("<|START_THINKING|>")) {
    syntax.think_open = "<|START_THINKING|>";
    syntax.think_close = "<|END_THINKING|>";
  }
  if (has(kChannelName) && has(kChannelMessage)) {
    syntax.think_open = std::string(kChannelName) + "analysis" + std::string(kChannelMessage);
    syntax.think_close = kChannelEnd;
    syntax.calls = CallForm::channels;
    return syntax;
  }
  const std::string_view format = data::recognize_chat_format(chat_template).value_or("");
  const bool name_only = format == chat_template;
  if (has("[TOOL_CALLS]")) {
    syntax.calls = CallForm::mistral;
  } else if (has(kDeepseekCalls)) {
    syntax.calls = CallForm::deepseek;
  } else if (has("<|START_ACTION|>")) {
    syntax.calls = CallForm::command;
  } else if (has("<|tool_call|>")) {
    syntax.calls = CallForm::granite;
  } else if (has("<arg_key>")) {
    syntax.calls = CallForm::glm;
  } else if (has("<tool_call>")) {
    syntax.calls = CallForm::tagged;
    syntax.xml = has("<function=");
  } else if (has("<|python_tag|>") || (has("<|start_header_id|>") && has("\"parameters\""))) {
    syntax.calls = CallForm::llama;
  } else if (name_only) {
    for (const auto& [name, form] : kFormatCalls)
      if (format.starts_with(name)) syntax.calls = form;
  }
  return syntax;
}

std::vector<std::string> answer_markers(const AnswerSyntax& syntax) {
  std::vector<std::string> markers = call_openers(syntax);
  for (const std::string& closer : call_closers(syntax.calls)) markers.push_back(closer);
  if (syntax.calls == CallForm::mistral) markers.insert(markers.end(), {"[ARGS]", "[CALL_ID]"});
  if (syntax.calls == CallForm::deepseek) markers.emplace_back(kDeepseekSeparator);
  if (syntax.calls == CallForm::channels)
    for (const std::string_view marker :
         {kChannelStart, kChannelName, kChannelMessage, kChannelConstrain, kChannelEnd, kChannelCall, kChannelReturn})
      markers.emplace_back(marker);
  if (syntax.calls == CallForm::glm)
    for (const std::string_view tag :
         {kGlmKeys.key_open, kGlmKeys.key_close, kGlmKeys.value_open, kGlmKeys.value_close, kGlmKeys.call_close})
      markers.emplace_back(tag);
  if (!syntax.think_open.empty()) markers.insert(markers.end(), {syntax.think_open, syntax.think_close});
  return markers;
}

bool opens_reasoning(const AnswerSyntax& syntax, std::string_view prompt) {
  if (syntax.think_open.empty()) return false;
  const std::size_t last = prompt.find_last_not_of(" \t\r\n");
  return last != std::string_view::npos && prompt.substr(0, last + 1).ends_with(syntax.think_open);
}

std::string reasoning_end(const AnswerSyntax& syntax, bool tools) {
  if (syntax.calls != CallForm::channels) return "\n" + syntax.think_close + "\n\n";
  // The channel of calls also has text.
  return fmt::format("{}{}assistant{}", kChannelEnd, kChannelStart, kChannelName) +
         (tools ? "commentary" : fmt::format("final{}", kChannelMessage));
}

ForcedCall force_call(const AnswerSyntax& syntax, std::span<const Tool> tools, const std::string& name, bool thinking) {
  const bool command = syntax.calls == CallForm::command, llama = syntax.calls == CallForm::llama;
  const auto form = [&](const Tool& tool) {
    return call_schema(tool, command ? "tool_name" : "name", command || llama ? "parameters" : "arguments", true);
  };
  Json any = Json::array();
  std::vector<Tool> chosen;
  for (const Tool& tool : tools) {
    if (!name.empty() && tool.name != name) continue;
    chosen.push_back(tool);
    any.push_back(form(tool));
  }
  if (any.empty()) throw bad_request("tool_choice", "tool_choice needs a call, but there is no tool to call");
  const Tool* only = chosen.size() == 1 ? chosen.data() : nullptr;
  const auto texts = [&] { return call_texts(syntax, chosen, StrictTools::all)->texts; };
  Json call = any.size() == 1 ? any[0] : Json{{"anyOf", any}};
  const Json calls = {{"type", "array"}, {"items", call}, {"minItems", 1}};
  ForcedCall forced;
  const bool channels = syntax.calls == CallForm::channels;
  if (thinking && !channels) forced.begin = reasoning_end(syntax, true);
  switch (syntax.calls) {
    case CallForm::tagged:
      forced.begin += syntax.xml ? "<tool_call>\n<function=" : "<tool_call>\n";
      if (syntax.xml)
        forced.texts = texts();
      else
        forced.schema = json_text(call);
      return forced;
    case CallForm::glm:
      forced.begin += "<tool_call>";
      forced.texts = texts();
      return forced;
    case CallForm::llama:
      forced.schema = json_text(call);
      return forced;
    case CallForm::mistral:
      forced.begin += "[TOOL_CALLS]";
      forced.schema = json_text(calls);
      return forced;
    case CallForm::granite:
      forced.begin += "<|tool_call|>";
      forced.schema = json_text(calls);
      return forced;
    case CallForm::command:
      forced.begin += "<|START_ACTION|>";
      forced.schema = json_text(calls);
      return forced;
    case CallForm::deepseek:
      if (only == nullptr) {
        forced.begin += fmt::format("{}{}", kDeepseekCalls, kDeepseekCall);
        forced.texts = texts();
        return forced;
      }
      forced.begin +=
          fmt::format("{}{}function{}{}\n```json\n", kDeepseekCalls, kDeepseekCall, kDeepseekSeparator, only->name);
      forced.schema = json_text(any[0]["properties"]["arguments"]);
      return forced;
    case CallForm::channels:
      if (thinking) forced.begin = fmt::format("{}{}assistant", kChannelEnd, kChannelStart);
      if (only == nullptr) {
        forced.begin += fmt::format("{}commentary to=functions.", kChannelName);
        forced.texts = texts();
        return forced;
      }
      forced.begin += fmt::format("{}commentary to=functions.{} {}json{}", kChannelName, only->name, kChannelConstrain,
                                  kChannelMessage);
      forced.schema = json_text(any[0]["properties"]["arguments"]);
      return forced;
    case CallForm::none:
      break;
  }
  throw bad_request("tool_choice",
                    "this model's calls of tools have no form that can be required of it; send tool_choice 'auto'",
                    "unsupported_value");
}

}  // namespace etna::serve
