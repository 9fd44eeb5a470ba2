#include <etna/data/tokenizers/internal/chat/jinja_template.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <new>
#include <optional>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/chat/bounded_process.h>
#include <etna/data/tokenizers/internal/chat/chat_tools.h>
#include <etna/data/tokenizers/internal/chat/message_marks.h>
#include <etna/device/error.h>

#ifdef ETNA_HAS_MINJA
#include <minja/chat-template.hpp>
#endif

namespace etna::data {

bool runs_jinja() {
#ifdef ETNA_HAS_MINJA
  return true;
#else
  return false;
#endif
}

#ifdef ETNA_HAS_MINJA
namespace {

using nlohmann::ordered_json;

constexpr const char* kName = "chat template";
constexpr std::size_t kLongest = 1 << 20, kLongestPrompt = 64 << 20;

std::string spelled(const Tokenizer& tokenizer, std::optional<std::int32_t> id) {
  return id ? std::string(special_spelling(tokenizer, *id)) : std::string();
}

/// minja appends the place and the lines around it to its errors.
std::string first_line(const std::string& text) {
  std::string line = text.substr(0, std::min(text.find('\n'), std::size_t{300}));
  while (!line.empty() && (line.back() == ':' || line.back() == ' ')) line.pop_back();
  return line.empty() ? "it does not run" : line;
}

/// Runs in the process of its own. Keeps the templates of the last requests parsed.
class Templates {
 public:
  /// @param request MessagePack: source, bos, eos, messages, tools, variables, generate
  std::string render(const std::string& request) {
    try {
      const ordered_json fields = ordered_json::from_msgpack(request);
      const minja::chat_template& chat = parsed(fields);
      minja::chat_template_inputs inputs;
      inputs.messages = fields.at("messages");
      inputs.tools = fields.at("tools");
      inputs.extra_context = fields.at("variables");
      inputs.add_generation_prompt = fields.at("generate").get<bool>();
      return apply(chat, inputs);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw FormatError(first_line(error.what()));
    }
  }

 private:
  struct Entry {
    std::array<std::string, 3> key;
    std::unique_ptr<minja::chat_template> chat;
  };

  const minja::chat_template& parsed(const ordered_json& fields) {
    std::array<std::string, 3> key{fields.at("source").get<std::string>(), fields.at("bos").get<std::string>(),
                                   fields.at("eos").get<std::string>()};
    Entry& entry = entries_[key[0].size() % entries_.size()];
    if (entry.chat == nullptr || entry.key != key) {
      entry.chat = std::make_unique<minja::chat_template>(key[0], key[1], key[2]);
      entry.key = std::move(key);
    }
    return *entry.chat;
  }
  /// An answer of calls alone has no content: some templates compare it with none, others take its length.
  static std::string apply(const minja::chat_template& chat, minja::chat_template_inputs& inputs) {
    const auto silent = [](const ordered_json& message) { return message.at("content").is_null(); };
    try {
      return chat.apply(inputs);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      if (std::none_of(inputs.messages.begin(), inputs.messages.end(), silent)) throw;
    }
    for (ordered_json& message : inputs.messages)
      if (silent(message)) message["content"] = "";
    return chat.apply(inputs);
  }

  std::array<Entry, 4> entries_;
};

BoundedWorker& template_worker() {
  static BoundedWorker worker(
      [templates = std::make_shared<Templates>()](const std::string& request) { return templates->render(request); },
      kName, {.seconds = 5, .output = kLongestPrompt});
  return worker;
}

ordered_json message_json(const MessageMarks& marks, const ChatMessage& message) {
  check_chat_role(kName, message.role);
  ordered_json fields = {{"role", message.role}, {"content", marks.mark(message)}};
  if (!message.reasoning.empty()) fields["reasoning_content"] = marks.mark_assistant(message.reasoning);
  if (!message.tool_call_id.empty()) fields["tool_call_id"] = marks.mark_json(ordered_json(message.tool_call_id));
  if (!message.name.empty()) {
    check_tool_name(kName, message.name);
    fields["name"] = message.name;
  }
  if (message.tool_calls.empty()) return fields;
  if (message.content.empty()) fields["content"] = nullptr;
  ordered_json calls = ordered_json::array();
  for (const ToolCall& call : message.tool_calls) {
    const std::string arguments = spaced_json(marks.mark_json(arguments_json(kName, call)));
    calls.push_back({{"id", marks.mark_json(ordered_json(call.id))},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", arguments}}}});
  }
  fields["tool_calls"] = std::move(calls);
  return fields;
}

/// @return null if there are none
ordered_json variables_json(const MessageMarks& marks, const std::string& text) {
  if (text.empty()) return nullptr;
  const ordered_json variables = ordered_object(text, "chat template variables");
  for (const char* own : {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "strftime_now"})
    if (variables.contains(own))
      throw FormatError(fmt::format("chat template variables: '{}' is set by the conversation; leave it out", own));
  return marks.mark_json(variables);
}

}  // namespace

void start_template_process() { template_worker().start(); }

std::vector<TextPart> format_chat_by_template(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                              const ChatOptions& options) {
  const std::string source(tokenizer.chat_template());
  if (source.empty()) throw FormatError(fmt::format("{}: the model has none", kName));
  if (source.size() > kLongest)
    throw FormatError(fmt::format("{}: got {} bytes; wanted at most {}", kName, source.size(), kLongest));
  const MessageMarks marks(tokenizer);
  ordered_json list = ordered_json::array();
  for (const ChatMessage& message : messages) list.push_back(message_json(marks, message));
  ordered_json tools = nullptr;
  if (!options.tools.empty()) tools = marks.mark_json(tools_json(kName, options.tools));
  const ordered_json request = {
      {"source", source},
      {"bos", spelled(tokenizer, tokenizer.bos())},
      {"eos", options.eos.empty() ? spelled(tokenizer, tokenizer.eos()) : options.eos},
      {"messages", std::move(list)},
      {"tools", std::move(tools)},
      {"variables", variables_json(marks, options.variables)},
      {"generate", options.add_generation_prompt},
  };
  std::string bytes;
  ordered_json::to_msgpack(request, bytes);
  const std::string prompt = template_worker().run(bytes);
  // A template may repeat messages, but not without bound: each copy costs time in all that follows.
  if (prompt.size() > 8 * bytes.size() + kLongest)
    throw FormatError(
        fmt::format("{}: its output exceeds the limit: {} bytes from {}", kName, prompt.size(), bytes.size()));
  return marks.split(prompt);
}
#else
void start_template_process() {}

std::vector<TextPart> format_chat_by_template(const Tokenizer&, std::span<const ChatMessage>, const ChatOptions&) {
  throw FormatError(
      "chat template: this build cannot run Jinja: it was built without the library minja (libminja-dev); name a "
      "format");
}
#endif

std::vector<TextPart> format_model_chat(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                        const ChatOptions& options) {
  const std::string_view source = tokenizer.chat_template();
  const std::optional<std::string_view> known = recognize_chat_format(source);
  const bool name_only = known && *known == source;
  if (!source.empty() && !name_only && runs_jinja()) return format_chat_by_template(tokenizer, messages, options);
  if (known) return format_chat(*known, messages, options);
  if (source.empty()) throw FormatError("chat: the model has no chat template; name a format");
  return format_chat_by_template(tokenizer, messages, options);
}

}  // namespace etna::data
