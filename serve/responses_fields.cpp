#include <etna/serve/responses_fields.h>

#include <set>

#include <fmt/format.h>

#include <etna/serve/answer_fields.h>
#include <etna/serve/api_error.h>
#include <etna/serve/chat_fields.h>
#include <etna/serve/internal/image_fields.h>

// Requests of OpenAI's responses API.
namespace etna::serve {
namespace {

/// A text, or parts of some types that have a text. @param images of the conversation; null: there may be none here
std::string read_parts(const Json& value, const std::string& path, const std::set<std::string>& types,
                       ChatImages* images = nullptr) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array())
    throw bad_request(
        path, fmt::format("{} is {} ({}); wanted a string or an array of parts", path, shown(value), json_kind(value)),
        "invalid_type");
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    Fields part(value[i], fmt::format("{}[{}]", path, i));
    const std::string type = part.string("type");
    if (type == "input_image" && images != nullptr) {
      text += read_input_image(part, *images);
      part.finish();
      continue;
    }
    if (!types.contains(type))
      throw bad_request(part.path_of("type"),
                        fmt::format("{} is '{:.32}'; this server reads '{}'{} here", part.path_of("type"), type,
                                    *types.begin(), images != nullptr ? " and 'input_image'" : ""),
                        "unsupported_value");
    text += part.string("text");
    part.neutral("annotations", {Json::array()});
    part.neutral("logprobs", {Json::array()});
    part.finish();
  }
  return text;
}

/// Items of the input become messages; what an assistant's turn consists of becomes one.
class InputItems {
 public:
  explicit InputItems(ChatRequest& request) : messages_(request.messages), images_(request.images) {}

  void add(Fields& item) {
    const std::string type = item.string_if("type").value_or("message");
    item.note({"id", "status"});
    if (type == "message") {
      add_message(item);
    } else if (type == "function_call") {
      ToolCall call;
      call.id = item.string("call_id");
      call.name = item.string("name");
      call.arguments = item.string("arguments");
      if (!assistant_ || !reasoning_.empty()) begin_assistant();
      messages_.back().tool_calls.push_back(std::move(call));
    } else if (type == "function_call_output") {
      Message result{.role = "tool", .content = ""};
      result.tool_call_id = item.string("call_id");
      result.content = read_parts(item.any("output"), item.path_of("output"), {"input_text"});
      messages_.push_back(std::move(result));
      assistant_ = false;
    } else if (type == "reasoning") {
      if (const Json* content = item.find("content"))
        reasoning_ += read_parts(*content, item.path_of("content"), {"reasoning_text"});
      item.neutral("summary", {Json::array()});
      item.neutral("encrypted_content", {});
    } else {
      throw bad_request(item.path_of("type"),
                        fmt::format("{} is '{:.32}'; this server reads items of type message, function_call, "
                                    "function_call_output and reasoning",
                                    item.path_of("type"), type),
                        "unsupported_value");
    }
    item.finish();
  }

 private:
  void add_message(Fields& item) {
    item.any("role");
    const std::string role = *item.word_if("role", {"system", "developer", "user", "assistant"});
    const std::string text =
        read_parts(item.any("content"), item.path_of("content"),
                   role == "assistant" ? std::set<std::string>{"output_text"} : std::set<std::string>{"input_text"},
                   role == "user" ? &images_ : nullptr);
    item.note({"phase"});
    if (role == "assistant") {
      begin_assistant();
      messages_.back().content = text;
    } else {
      messages_.push_back({role, text});
      assistant_ = false;
    }
  }
  void begin_assistant() {
    messages_.push_back({.role = "assistant", .content = "", .reasoning = std::exchange(reasoning_, "")});
    assistant_ = true;
  }

  std::vector<Message>& messages_;
  ChatImages& images_;
  bool assistant_ = false;  ///< the last message is the assistant's turn, which may go on
  std::string reasoning_;   ///< of the next one
};

void read_response_tools(Fields& fields, ChatRequest& request) {
  const Json* given = fields.array_if("tools");
  std::set<std::string> names;
  for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
    Fields entry((*given)[i], fmt::format("{}[{}]", fields.path_of("tools"), i));
    const std::string type = entry.string("type");
    if (type != "function")
      throw bad_request(
          entry.path_of("type"),
          fmt::format("{} is '{:.32}'; this server has tools of type 'function' only", entry.path_of("type"), type),
          "unsupported_value");
    request.tools.push_back(read_function(entry, names));
    entry.finish();
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
  read_named_choice(named, names, request);
  named.finish();
}

void read_text_format(Fields& fields, OutputFormat& format) {
  const Json* given = fields.object_if("text");
  if (given == nullptr) return;
  Fields text(*given, fields.path_of("text"));
  text.neutral("verbosity", {"medium"});
  if (const Json* wanted = text.object_if("format")) {
    Fields kind(*wanted, text.path_of("format"));
    kind.any("type");
    const std::string type = *kind.word_if("type", {"text", "json_object", "json_schema"});
    if (type == "json_object") format.form = OutputForm::json_object;
    if (type == "json_schema") {
      format.form = OutputForm::json_schema;
      format.name = kind.string("name");
      kind.note({"description"});
      kind.flag_if("strict");  // every schema is followed strictly
      kind.any("schema");
      format.source = json_text(*kind.object_if("schema"));
    }
    kind.finish();
  }
  text.finish();
}

void read_reasoning(Fields& fields, ChatRequest& request) {
  const Json* given = fields.object_if("reasoning");
  if (given == nullptr) return;
  Fields reasoning(*given, fields.path_of("reasoning"));
  if (const auto effort = reasoning.word_if("effort", {"none", "minimal", "low", "medium", "high", "xhigh"}))
    request.reasoning_effort = *effort;
  // Reasoning itself is sent, so there is nothing to sum up.
  reasoning.neutral("summary", {"auto"});
  reasoning.neutral("generate_summary", {});
  reasoning.finish();
}

}  // namespace

ResponsesRequest read_responses_request(const Json& body, const Service& service) {
  Fields fields(body, "");
  ResponsesRequest request;
  ChatRequest& chat = request.chat;
  chat.model = fields.string("model");
  for (const char* kept : {"previous_response_id", "conversation"})
    if (fields.has(kept))
      throw bad_request(kept,
                        fmt::format("{} asks for an earlier response, but this server stores none; send the earlier "
                                    "items in input",
                                    kept),
                        "unsupported_value");
  fields.note({"previous_response_id", "conversation"});
  if (const auto instructions = fields.string_if("instructions")) chat.messages.push_back({"system", *instructions});
  const Json& input = fields.any("input");
  if (input.is_string()) {
    chat.messages.push_back({"user", input.get<std::string>()});
  } else {
    const Json& items = fields.array("input");
    InputItems reader(chat);
    for (std::size_t i = 0; i < items.size(); ++i) {
      Fields item(items[i], fmt::format("input[{}]", i));
      reader.add(item);
    }
    if (items.empty()) throw bad_request("input", "input is empty; wanted a text or at least one item");
  }
  read_response_tools(fields, chat);
  read_reasoning(fields, chat);
  AnswerOptions& options = chat.options;
  read_text_format(fields, options.format);
  if (const auto value = fields.real_if("temperature", {.least = 0, .most = 2}))
    options.sampling.temperature = static_cast<float>(*value);
  if (const auto value = fields.real_if("top_p", {.least = 0, .most = 1, .above = true}))
    options.sampling.top_p = static_cast<float>(*value);
  options.max_tokens = fields.integer_if("max_output_tokens", {.least = 1, .most = 1 << 30});
  const std::int64_t most = service.options().max_tokens;
  if (most > 0 && options.max_tokens.value_or(0) > most)
    throw bad_request("max_output_tokens",
                      fmt::format("max_output_tokens is {}; this server allows at most {}", *options.max_tokens, most));
  fields.neutral("top_logprobs", {0});
  fields.neutral("truncation", {"disabled"});
  fields.neutral("background", {false});
  fields.neutral("include", {Json::array()});
  fields.neutral("max_tool_calls", {});
  fields.neutral("prompt", {});
  fields.neutral("context_management", {});
  read_neutral_fields(fields);
  const StreamFields stream = read_stream_fields(fields);
  request.stream = stream.stream;
  fields.finish();
  const auto show = [&](const char* name, Json otherwise) {
    request.shown[name] = body.contains(name) ? body.at(name) : std::move(otherwise);
  };
  show("instructions", nullptr);
  show("max_output_tokens", nullptr);
  show("metadata", Json::object());
  show("parallel_tool_calls", true);
  show("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  show("temperature", 1.0);
  show("text", {{"format", {{"type", "text"}}}});
  show("tool_choice", "auto");
  show("tools", Json::array());
  show("top_p", 1.0);
  show("user", nullptr);
  return request;
}

}  // namespace etna::serve
