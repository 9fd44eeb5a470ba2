#include <etna/serve/internal/call_texts.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <etna/serve/api_error.h>
#include <etna/serve/internal/call_text.h>
#include <etna/serve/internal/channel_reader.h>

namespace etna::serve {
namespace {

using models::GrammarGroup;
using models::GrammarPart;
using models::GrammarText;

GrammarPart one_of(std::vector<std::string> texts) { return {GrammarPart::Kind::one_of, std::move(texts)}; }
GrammarPart json_part(std::string schema) { return {GrammarPart::Kind::json, {std::move(schema)}}; }
GrammarPart until(std::string_view text) { return {GrammarPart::Kind::until, {std::string(text)}}; }

Json arguments_of(const Tool& tool, bool strict) {
  if (!strict || tool.parameters.empty()) return {{"type", "object"}};
  return parse_json(tool.parameters, "tools");
}

[[noreturn]] void refuse_parameter(const Tool& tool, const std::string& why) {
  throw bad_request("tools",
                    fmt::format("the parameters of the tool '{}' cannot be promised: {}, and calls of this model's "
                                "form are no JSON; send tool_choice 'auto' without strict, or simpler parameters",
                                tool.name, why),
                    "unsupported_value");
}

/// Whether a schema refers to another place, at any depth.
bool has_reference(const Json& schema) {
  if (schema.is_object() && schema.contains("$ref")) return true;
  if (!schema.is_structured()) return false;
  return std::any_of(schema.begin(), schema.end(), [](const Json& part) { return has_reference(part); });
}

void require_only(const Tool& tool, const Json& schema, const std::string& of,
                  std::initializer_list<std::string_view> known) {
  for (const auto& item : schema.items())
    if (std::find(known.begin(), known.end(), item.key()) == known.end())
      refuse_parameter(tool, fmt::format("{} has '{:.40}'", of, item.key()));
}

/// The value of a parameter, and the tag that closes it: texts stand as they are, all else is JSON.
std::vector<GrammarPart> value_parts(const Tool& tool, const std::string& key, const Json& schema,
                                     const std::string& close) {
  if (!schema.is_object() || !schema.contains("type") || schema["type"] != "string")
    return {json_part(json_text(schema)), one_of({close})};
  const std::string of = fmt::format("the text '{:.40}'", key);
  require_only(tool, schema, of, {"type", "enum", "const", "title", "description", "default", "examples", "$comment"});
  std::vector<std::string> texts;
  for (const Json& value : schema.value("enum", Json::array())) {
    if (!value.is_string()) refuse_parameter(tool, fmt::format("{} has a value that is none", of));
    texts.push_back(value.get<std::string>());
  }
  if (const auto value = schema.find("const"); value != schema.end()) {
    if (!value->is_string()) refuse_parameter(tool, fmt::format("{} has a value that is none", of));
    texts = {value->get<std::string>()};
  }
  for (const std::string& text : texts)
    if (text.find(close) != std::string::npos) refuse_parameter(tool, fmt::format("{} has the tag {}", of, close));
  if (texts.empty()) return {until(close)};
  return {one_of(std::move(texts)), one_of({close})};
}

/// The parameters of a call in tags, in the order of the schema, up to the call's end.
void add_parameters(GrammarText& text, const Tool& tool, const ArgumentTags& tags, const Json& schema) {
  if (has_reference(schema)) refuse_parameter(tool, "they refer to other places by '$ref'");
  require_only(
      tool, schema, "the object",
      {"type", "properties", "required", "additionalProperties", "title", "description", "$schema", "$comment"});
  const Json required = schema.value("required", Json::array()),
             properties = schema.value("properties", Json::object());
  const std::string line = tags.lines ? "\n" : "";
  for (const auto& item : properties.items()) {
    if (item.key().find(tags.key_close) != std::string::npos || item.key().empty())
      refuse_parameter(tool, "a name has a tag in it, or is empty");
    GrammarGroup group;
    group.optional = std::find(required.begin(), required.end(), item.key()) == required.end();
    const std::string between = tags.value_open.empty() ? "" : "\n";
    group.parts.push_back(one_of(
        {fmt::format("{}{}{}{}{}{}", tags.key_open, item.key(), tags.key_close, between, tags.value_open, line)}));
    for (GrammarPart& part : value_parts(tool, item.key(), item.value(), line + std::string(tags.value_close)))
      group.parts.push_back(std::move(part));
    group.parts.push_back(one_of({"\n"}));
    text.push_back(std::move(group));
  }
  for (const Json& name : required)
    if (!properties.contains(name)) refuse_parameter(tool, "one is required that is not described");
}

/// A call in tags behind its name. What need not validate is any text.
GrammarText tagged_call(const Tool& tool, const ArgumentTags& tags, const std::string& begin, bool strict) {
  GrammarText text = {{{one_of({begin})}}};
  if (!strict) {
    text.push_back({{until(tags.call_close)}});
    return text;
  }
  add_parameters(text, tool, tags, arguments_of(tool, true));
  text.push_back({{one_of({std::string(tags.call_close)})}});
  return text;
}

}  // namespace

Json call_schema(const Tool& tool, const char* name_field, const char* arguments_field, bool strict) {
  return {{"type", "object"},
          {"properties", {{name_field, {{"const", tool.name}}}, {arguments_field, arguments_of(tool, strict)}}},
          {"required", {name_field, arguments_field}},
          {"additionalProperties", false}};
}

std::optional<models::MarkedText> call_texts(const AnswerSyntax& syntax, std::span<const Tool> tools,
                                             StrictTools which) {
  const bool command = syntax.calls == CallForm::command, llama = syntax.calls == CallForm::llama;
  models::MarkedText calls;
  Json any = Json::array();
  const auto must = [&](const Tool& tool) { return which == StrictTools::all || tool.strict; };
  const auto arguments = [&](const Tool& tool) { return json_part(json_text(arguments_of(tool, must(tool)))); };
  for (const Tool& tool : tools)
    any.push_back(
        call_schema(tool, command ? "tool_name" : "name", command || llama ? "parameters" : "arguments", must(tool)));
  const std::string call = json_text(any.size() == 1 ? any[0] : Json{{"anyOf", any}});
  const std::string list = fmt::format(R"({{"type": "array", "items": {}, "minItems": 1}})", call);
  switch (syntax.calls) {
    case CallForm::tagged:
      calls.markers = {syntax.xml ? "<function=" : "<tool_call>"};
      if (!syntax.xml) calls.texts = {{{{one_of({"\n", ""}), json_part(call)}}}};
      for (const Tool& tool : tools)
        if (syntax.xml) calls.texts.push_back(tagged_call(tool, kFunctionTags, tool.name + ">\n", must(tool)));
      return calls;
    case CallForm::glm:
      calls.markers = {"<tool_call>"};
      for (const Tool& tool : tools) calls.texts.push_back(tagged_call(tool, kGlmKeys, tool.name + "\n", must(tool)));
      return calls;
    case CallForm::mistral:
      calls.markers = {"[TOOL_CALLS]"};
      calls.texts = {{{{one_of({"", " "}), json_part(list)}}}};
      for (const Tool& tool : tools) calls.texts.push_back({{{one_of({tool.name + "[ARGS]"}), arguments(tool)}}});
      return calls;
    case CallForm::command:
      calls.markers = {"<|START_ACTION|>"};
      calls.texts = {{{{one_of({"\n", ""}), json_part(list)}}}};
      return calls;
    case CallForm::deepseek:
      calls.markers = {std::string(kDeepseekCall)};
      for (const Tool& tool : tools) {
        const std::string fenced = fmt::format("function{}{}\n```json\n", kDeepseekSeparator, tool.name);
        calls.texts.push_back({{{one_of({fenced}), arguments(tool), one_of({"\n```"})}}});
        calls.texts.push_back({{{one_of({fmt::format("{}{}", tool.name, kDeepseekSeparator)}), arguments(tool)}}});
      }
      return calls;
    case CallForm::channels:
      calls.markers = {"to=functions."};
      for (const Tool& tool : tools) {
        std::vector<std::string> heads;
        for (const char* head : {" <|constrain|>json", " json", "<|channel|>commentary <|constrain|>json",
                                 "<|channel|>commentary json", "<|channel|>commentary", ""})
          heads.push_back(fmt::format("{}{}<|message|>", tool.name, head));
        calls.texts.push_back({{{one_of(std::move(heads)), arguments(tool)}}});
      }
      return calls;
    case CallForm::granite:
      calls.markers = call_openers(syntax);
      calls.texts = {{{{one_of({"", "\n", " "}), json_part(list)}}}, {{{one_of({"", "\n", " "}), json_part(call)}}}};
      return calls;
    case CallForm::llama:
      calls.markers = call_openers(syntax);
      calls.texts = {{{{one_of({"", "\n", " "}), json_part(call)}}}};
      calls.objects = {{{{json_part(call)}}}};
      calls.closers = call_closers(syntax.calls);
      calls.hidden_open = syntax.think_open;
      calls.hidden_close = syntax.think_close;
      return calls;
    case CallForm::none:
      break;
  }
  return std::nullopt;
}

}  // namespace etna::serve
