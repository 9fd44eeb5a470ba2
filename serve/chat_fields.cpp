#include <etna/serve/chat_fields.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <etna/serve/api_error.h>
#include <etna/serve/internal/image_fields.h>

namespace etna::serve {
namespace {

/// A text, or parts of it. @param images of the conversation; null: the message may have none
std::string read_content(Fields& message, const std::string& name, bool required, ChatImages* images) {
  const Json* content = required ? &message.any(name) : message.find(name);
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  const std::string path = message.path_of(name);
  if (!content->is_array()) {
    throw bad_request(
        path,
        fmt::format("{} is {} ({}); wanted a string or an array of parts", path, shown(*content), json_kind(*content)),
        "invalid_type");
  }
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    Fields part((*content)[i], fmt::format("{}[{}]", path, i));
    const std::string type = part.string("type");
    if (type == "image_url" && images != nullptr) {
      text += read_image_url(part, *images);
    } else if (type == "text") {
      text += part.string("text");
    } else {
      throw bad_request(part.path_of("type"),
                        fmt::format("{} is '{:.32}'; this server reads parts of type 'text'{}", part.path_of("type"),
                                    type, images != nullptr ? " and 'image_url'" : " only here"),
                        "unsupported_value");
    }
    part.finish();
  }
  return text;
}

std::vector<ToolCall> read_tool_calls(Fields& message) {
  std::vector<ToolCall> calls;
  const Json* given = message.array_if("tool_calls");
  if (given == nullptr) return calls;
  for (std::size_t i = 0; i < given->size(); ++i) {
    Fields call((*given)[i], fmt::format("{}[{}]", message.path_of("tool_calls"), i));
    call.word_if("type", {"function"});
    const std::string id = call.string("id");
    call.any("function");
    Fields function(*call.object_if("function"), call.path_of("function"));
    const std::string name = function.string("name");
    calls.push_back({id, name, function.string("arguments")});
    function.finish();
    call.finish();
  }
  return calls;
}

Message read_message(const Json& value, const std::string& path, ChatImages& images) {
  Fields fields(value, path);
  fields.any("role");
  Message message;
  message.role = *fields.word_if("role", {"system", "developer", "user", "assistant", "tool"});
  const bool assistant = message.role == "assistant";
  if (assistant) message.tool_calls = read_tool_calls(fields);
  message.content = read_content(fields, "content", !assistant, message.role == "user" ? &images : nullptr);
  if (assistant) {
    // What this server and others send back as the reasoning of an answer.
    message.reasoning = fields.string_if("reasoning_content").value_or("");
    fields.neutral("refusal", {""});
    fields.neutral("audio", {});
    fields.neutral("function_call", {});
    fields.neutral("annotations", {Json::array()});
  }
  if (message.role == "tool") message.tool_call_id = fields.string("tool_call_id");
  message.name = fields.string_if("name").value_or("");
  fields.finish();
  return message;
}

}  // namespace

void check_tool_name(const std::string& name, const std::string& path) {
  const auto fine = [](unsigned char c) {
    return (std::isalnum(c) != 0 && c < 128) || c == '_' || c == '-' || c == '.';
  };
  if (!name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), fine)) return;
  throw bad_request(path, fmt::format("{} is '{:.80}'; wanted 1 to 64 letters, digits, '_', '-' and '.'", path, name));
}

void read_messages(Fields& fields, ChatRequest& request) {
  const Json& given = fields.array("messages");
  if (given.empty()) throw bad_request("messages", "messages is empty; wanted at least one message");
  for (std::size_t i = 0; i < given.size(); ++i)
    request.messages.push_back(
        read_message(given[i], fmt::format("{}[{}]", fields.path_of("messages"), i), request.images));
}

Tool read_function(Fields& function, std::set<std::string>& names) {
  Tool tool;
  tool.name = function.string("name");
  check_tool_name(tool.name, function.path_of("name"));
  if (!names.insert(tool.name).second)
    throw bad_request(function.path_of("name"), fmt::format("two tools have the name '{}'", tool.name));
  tool.description = function.string_if("description").value_or("");
  if (const Json* parameters = function.object_if("parameters")) tool.parameters = json_text(*parameters);
  tool.strict = function.flag_if("strict").value_or(false);
  return tool;
}

void read_choice_word(Fields& fields, ChatRequest& request) {
  const std::string word = *fields.word_if("tool_choice", {"auto", "none", "required"});
  if (word == "none") request.tool_choice = ToolChoice::none;
  if (word == "required") request.tool_choice = ToolChoice::required;
  if (word == "required" && request.tools.empty())
    throw bad_request("tool_choice", "tool_choice is 'required', but there are no tools");
}

void read_named_choice(Fields& function, const std::set<std::string>& names, ChatRequest& request) {
  request.tool_choice = ToolChoice::named;
  request.tool_name = function.string("name");
  if (names.contains(request.tool_name)) return;
  throw bad_request(
      function.path_of("name"),
      fmt::format("tool_choice names the tool '{:.64}', which is not among the tools", request.tool_name));
}

void read_tools(Fields& fields, ChatRequest& request) {
  std::set<std::string> names;
  if (const Json* given = fields.array_if("tools")) {
    for (std::size_t i = 0; i < given->size(); ++i) {
      Fields entry((*given)[i], fmt::format("{}[{}]", fields.path_of("tools"), i));
      entry.any("type");
      entry.word_if("type", {"function"});
      entry.any("function");
      Fields function(*entry.object_if("function"), entry.path_of("function"));
      request.tools.push_back(read_function(function, names));
      function.finish();
      entry.finish();
    }
  }
  request.parallel_tool_calls = fields.flag_if("parallel_tool_calls").value_or(true);
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_string()) {
    read_choice_word(fields, request);
    return;
  }
  Fields named(*choice, fields.path_of("tool_choice"));
  named.any("type");
  named.word_if("type", {"function"});
  named.any("function");
  Fields function(*named.object_if("function"), named.path_of("function"));
  read_named_choice(function, names, request);
  function.finish();
  named.finish();
}

ChatRequest read_chat_request(Fields& fields, const Service& service) {
  ChatRequest request;
  request.model = fields.string("model");
  read_messages(fields, request);
  read_tools(fields, request);
  request.options = read_answer_options(fields, service);
  if (const auto tokens = fields.integer_if("max_completion_tokens", {.least = 1, .most = 1 << 30})) {
    if (request.options.max_tokens.value_or(*tokens) != *tokens)
      throw bad_request("max_completion_tokens", "max_tokens and max_completion_tokens differ; send one of them");
    request.options.max_tokens = tokens;
    const std::int64_t most = service.options().max_tokens;
    if (most > 0 && *tokens > most)
      throw bad_request("max_completion_tokens",
                        fmt::format("max_completion_tokens is {}; this server allows at most {}", *tokens, most));
  }
  request.options.logprobs = fields.flag_if("logprobs").value_or(false);
  if (const auto top = fields.integer_if("top_logprobs", {.least = 0, .most = models::kMaxLogprobs})) {
    if (!request.options.logprobs) throw bad_request("top_logprobs", "top_logprobs is given, but logprobs is not true");
    request.options.top_logprobs = *top;
  }
  if (const auto effort = fields.word_if("reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh"}))
    request.reasoning_effort = *effort;
  if (const Json* variables = fields.object_if("chat_template_kwargs"))
    request.template_variables = json_text(*variables);
  request.reasoning_tokens = fields.integer_if("reasoning_budget", {.least = 0, .most = 1 << 30});
  read_neutral_fields(fields);
  fields.neutral("modalities", {Json::array({"text"})});
  fields.neutral("audio", {});
  fields.neutral("prediction", {});
  fields.neutral("web_search_options", {});
  fields.neutral("verbosity", {"medium"});
  fields.neutral("functions", {Json::array()}, "send tools");
  fields.neutral("function_call", {"none", "auto"}, "send tool_choice");
  return request;
}

}  // namespace etna::serve
