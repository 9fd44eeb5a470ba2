#include <etna/serve/messages_fields.h>

#include <set>

#include <fmt/format.h>

#include <etna/serve/api_error.h>
#include <etna/serve/chat_fields.h>
#include <etna/serve/internal/image_fields.h>

// Requests of Anthropic's messages API.
namespace etna::serve {
namespace {

[[noreturn]] void refuse_block(const std::string& path, const std::string& type, const char* known) {
  throw bad_request(path, fmt::format("{} is '{:.32}'; this server reads blocks of type {}", path, type, known),
                    "unsupported_value");
}

/// A text, or blocks of text.
std::string read_texts(const Json& value, const std::string& path) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array())
    throw bad_request(
        path, fmt::format("{} is {} ({}); wanted a string or an array of blocks", path, shown(value), json_kind(value)),
        "invalid_type");
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    Fields block(value[i], fmt::format("{}[{}]", path, i));
    const std::string type = block.string("type");
    if (type != "text") refuse_block(block.path_of("type"), type, "'text' here");
    text += block.string("text");
    block.note({"cache_control"});
    block.neutral("citations", {Json::array()});
    block.finish();
  }
  return text;
}

Message read_result(Fields& block) {
  Message result{.role = "tool", .content = ""};
  result.tool_call_id = block.string("tool_use_id");
  if (const Json* content = block.find("content")) result.content = read_texts(*content, block.path_of("content"));
  // The model reads a result as text; that it is an error must be in it.
  if (block.flag_if("is_error").value_or(false)) result.content = "Error: " + result.content;
  return result;
}

/// The blocks of one message become messages: results of tools come before the user's words.
void read_blocks(const Json& blocks, const std::string& path, const std::string& role, ChatRequest& request) {
  std::vector<Message>& messages = request.messages;
  Message message{.role = role, .content = ""};
  bool words = false;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Fields block(blocks[i], fmt::format("{}[{}]", path, i));
    const std::string type = block.string("type");
    block.note({"cache_control"});
    if (type == "text") {
      message.content += block.string("text");
      block.neutral("citations", {Json::array()});
      words = true;
    } else if (type == "image" && role == "user") {
      message.content += read_image_source(block, request.images);
      words = true;
    } else if (type == "tool_result" && role == "user") {
      messages.push_back(read_result(block));
    } else if (type == "tool_use" && role == "assistant") {
      ToolCall call;
      call.id = block.string("id");
      call.name = block.string("name");
      block.any("input");
      call.arguments = json_text(*block.object_if("input"));
      message.tool_calls.push_back(std::move(call));
    } else if (type == "thinking" && role == "assistant") {
      message.reasoning += block.string("thinking");
      block.note({"signature"});
    } else {
      refuse_block(block.path_of("type"), type,
                   role == "user" ? "'text', 'image' and 'tool_result'" : "'text', 'thinking' and 'tool_use'");
    }
    block.finish();
  }
  if (role == "assistant" || words || blocks.empty()) messages.push_back(std::move(message));
}

void read_anthropic_tools(Fields& fields, ChatRequest& request) {
  const Json* given = fields.array_if("tools");
  std::set<std::string> names;
  for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
    Fields entry((*given)[i], fmt::format("{}[{}]", fields.path_of("tools"), i));
    if (entry.has("type")) entry.word_if("type", {"custom"});
    Tool tool;
    tool.name = entry.string("name");
    check_tool_name(tool.name, entry.path_of("name"));
    if (!names.insert(tool.name).second)
      throw bad_request(entry.path_of("name"), fmt::format("two tools have the name '{}'", tool.name));
    tool.description = entry.string_if("description").value_or("");
    entry.any("input_schema");
    tool.parameters = json_text(*entry.object_if("input_schema"));
    tool.strict = entry.flag_if("strict").value_or(false);
    entry.note({"cache_control", "input_examples"});
    entry.finish();
    request.tools.push_back(std::move(tool));
  }
  const Json* chosen = fields.object_if("tool_choice");
  if (chosen == nullptr) return;
  Fields choice(*chosen, fields.path_of("tool_choice"));
  choice.any("type");
  const std::string type = *choice.word_if("type", {"auto", "any", "tool", "none"});
  request.parallel_tool_calls = !choice.flag_if("disable_parallel_tool_use").value_or(false);
  if (type == "none") request.tool_choice = ToolChoice::none;
  if (type == "any") request.tool_choice = ToolChoice::required;
  if (type == "tool") {
    request.tool_choice = ToolChoice::named;
    request.tool_name = choice.string("name");
    if (!names.contains(request.tool_name))
      throw bad_request(
          choice.path_of("name"),
          fmt::format("tool_choice names the tool '{:.64}', which is not among the tools", request.tool_name));
  }
  if (type == "any" && request.tools.empty())
    throw bad_request("tool_choice", "tool_choice is 'any', but there are no tools");
  choice.finish();
}

void read_thinking(Fields& fields, ChatRequest& request) {
  const Json* given = fields.object_if("thinking");
  if (given == nullptr) return;
  Fields thinking(*given, fields.path_of("thinking"));
  thinking.any("type");
  const std::string type = *thinking.word_if("type", {"enabled", "disabled", "adaptive"});
  if (type == "enabled") {
    thinking.any("budget_tokens");
    request.reasoning_tokens = thinking.integer_if("budget_tokens", {.least = 1, .most = 1 << 30});
  }
  request.thinking = type != "disabled";
  thinking.finish();
}

}  // namespace

ChatRequest read_anthropic_chat(Fields& fields) {
  ChatRequest request;
  request.model = fields.string("model");
  if (const Json* system = fields.find("system"))
    request.messages.push_back({"system", read_texts(*system, fields.path_of("system"))});
  const Json& given = fields.array("messages");
  if (given.empty()) throw bad_request("messages", "messages is empty; wanted at least one message");
  for (std::size_t i = 0; i < given.size(); ++i) {
    Fields message(given[i], fmt::format("{}[{}]", fields.path_of("messages"), i));
    message.any("role");
    const std::string role = *message.word_if("role", {"user", "assistant"});
    const Json& content = message.any("content");
    if (content.is_array())
      read_blocks(content, message.path_of("content"), role, request);
    else
      request.messages.push_back({role, read_texts(content, message.path_of("content"))});
    message.finish();
  }
  if (request.messages.back().role == "assistant")
    throw bad_request("messages",
                      "the last message is the assistant's; this server cannot continue one, so end with "
                      "the user's",
                      "unsupported_value");
  read_anthropic_tools(fields, request);
  read_thinking(fields, request);
  return request;
}

void read_anthropic_options(Fields& fields, const Service& service, ChatRequest& request) {
  AnswerOptions& options = request.options;
  fields.any("max_tokens");
  options.max_tokens = fields.integer_if("max_tokens", {.least = 1, .most = 1 << 30});
  const std::int64_t most = service.options().max_tokens;
  if (most > 0 && *options.max_tokens > most)
    throw bad_request("max_tokens",
                      fmt::format("max_tokens is {}; this server allows at most {}", *options.max_tokens, most));
  if (request.reasoning_tokens && *request.reasoning_tokens >= *options.max_tokens)
    throw bad_request("thinking.budget_tokens",
                      fmt::format("thinking.budget_tokens is {}; wanted less than max_tokens, {}",
                                  *request.reasoning_tokens, *options.max_tokens));
  if (const auto value = fields.real_if("temperature", {.least = 0, .most = 1}))
    options.sampling.temperature = static_cast<float>(*value);
  if (const auto value = fields.real_if("top_p", {.least = 0, .most = 1, .above = true}))
    options.sampling.top_p = static_cast<float>(*value);
  if (const auto value = fields.integer_if("top_k", {.least = 0, .most = 1 << 30})) options.sampling.top_k = *value;
  options.stop = fields.strings("stop_sequences", 16);
  fields.object_if("metadata");
  fields.neutral("service_tier", {"auto", "standard_only"});
  fields.neutral("container", {});
  fields.neutral("mcp_servers", {Json::array()});
  fields.neutral("context_management", {});
}

std::string anthropic_error_body(const ApiError& error) {
  const char* type = "api_error";
  if (error.status < 500) type = "invalid_request_error";
  if (error.status == 401) type = "authentication_error";
  if (error.status == 403) type = "permission_error";
  if (error.status == 404) type = "not_found_error";
  if (error.status == 413) type = "request_too_large";
  if (error.status == 429) type = "rate_limit_error";
  if (error.status == 503) type = "overloaded_error";
  return json_text({{"type", "error"}, {"error", {{"type", type}, {"message", error.what()}}}});
}

}  // namespace etna::serve
