// A format is a table of the markup around each message. Tables cover most models without running untrusted templates.
#include <etna/data/tokenizers/chat_template.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/chat/chat_parts.h>
#include <etna/data/tokenizers/internal/chat/chat_tools.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

#define DEEPSEEK(word) "<\xEF\xBD\x9C" word "\xEF\xBD\x9C>"
#define DEEPSEEK_END DEEPSEEK("end\xE2\x96\x81of\xE2\x96\x81sentence")

/// The markup before and after a message; {role} is replaced by its role. If `before` is null, the format lacks the
/// role.
struct Turn {
  const char* before;
  const char* after;
};
constexpr Turn kNone = {nullptr, nullptr};

struct Format {
  std::string_view name;
  Turn system, user, assistant;
  const char* generation;
  bool trim = false;          ///< white space around messages is removed
  bool other_roles = false;   ///< unknown roles use the user's markup
  bool system_first = false;  ///< a system message is prepended to the next user message
  const char* begin = "";
};

constexpr Turn role(const char* before, const char* after) { return {before, after}; }

constexpr Turn kChatml = role("<|im_start|>{role}\n", "<|im_end|>\n");
constexpr Turn kLlama3Turn = role("<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>");
constexpr Turn kLlama4 = role("<|header_start|>{role}<|header_end|>\n\n", "<|eot|>");
constexpr Turn kPhi3 = role("<|{role}|>\n", "<|end|>\n");
constexpr Turn kPhi4 = role("<|im_start|>{role}<|im_sep|>", "<|im_end|>");
constexpr Turn kZephyr = role("<|{role}|>\n", "{eos}\n");
constexpr Turn kFalcon3 = role("<|{role}|>\n", "\n");
constexpr Turn kGlm4 = role("<|{role}|>\n", "");
constexpr Turn kGranite = role("<|start_of_role|>{role}<|end_of_role|>", "<|end_of_text|>\n");

const Format kFormats[] = {
    {"chatml", kChatml, kChatml, kChatml, "<|im_start|>assistant\n", false, true},
    {"llama3", kLlama3Turn, kLlama3Turn, kLlama3Turn, "<|start_header_id|>assistant<|end_header_id|>\n\n", true, true},
    {"llama4", kLlama4, kLlama4, kLlama4, "<|header_start|>assistant<|header_end|>\n\n", true, true},
    {"gemma", kNone, role("<start_of_turn>user\n", "<end_of_turn>\n"),
     role("<start_of_turn>model\n", "<end_of_turn>\n"), "<start_of_turn>model\n", true, false, true},
    {"phi3", kPhi3, kPhi3, kPhi3, "<|assistant|>\n", false, true},
    {"phi4", kPhi4, kPhi4, kPhi4, "<|im_start|>assistant<|im_sep|>", false, true},
    {"zephyr", kZephyr, kZephyr, kZephyr, "<|assistant|>\n", false, true},
    {"falcon3", kFalcon3, kFalcon3, kFalcon3, "<|assistant|>\n", false, true},
    {"chatglm4", kGlm4, kGlm4, kGlm4, "<|assistant|>\n", false, true, false, "[gMASK]<sop>"},
    {"granite", kGranite, kGranite, kGranite, "<|start_of_role|>assistant<|end_of_role|>", false, true},
    {"deepseek", role("", ""), role("### Instruction:\n", "\n"), role("### Response:\n", "\n<|EOT|>\n"),
     "### Response:\n"},
    {"deepseek2", role("", "\n\n"), role("User: ", "\n\n"), role("Assistant: ", DEEPSEEK_END), "Assistant:"},
    {"deepseek3", role("", ""), role(DEEPSEEK("User"), ""), role(DEEPSEEK("Assistant"), DEEPSEEK_END),
     DEEPSEEK("Assistant")},
    {"vicuna", role("", "\n\n"), role("USER: ", "\n"), role("ASSISTANT: ", "</s>\n"), "ASSISTANT:"},
    {"vicuna-orca", role("SYSTEM: ", "\n"), role("USER: ", "\n"), role("ASSISTANT: ", "</s>\n"), "ASSISTANT:"},
    {"openchat", role("", "<|end_of_turn|>"), role("GPT4 Correct User: ", "<|end_of_turn|>"),
     role("GPT4 Correct Assistant: ", "<|end_of_turn|>"), "GPT4 Correct Assistant:"},
    {"command-r", role("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
     role("<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
     role("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", true},
    {"exaone3", role("[|system|]", "[|endofturn|]\n"), role("[|user|]", "\n"), role("[|assistant|]", "[|endofturn|]\n"),
     "[|assistant|]", true},
    {"mistral-v7", role("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"), role("[INST] ", "[/INST]"), role(" ", "</s>"), ""},
    {"mistral-v7-tekken", role("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"), role("[INST]", "[/INST]"), role("", "</s>"), ""},
};

/// Formats that put the system message and the user's message into one instruction.
struct InstructionFormat {
  std::string_view name;
  const char *open, *close;                  ///< around the instruction
  const char *system_before, *system_after;  ///< around the system message, inside the instruction
  const char* answer_before;                 ///< before the assistant's message
  bool trim_answer = false, trim_all = false;
  const char* next = "";  ///< before every instruction but the first
};

const InstructionFormat kInstructionFormats[] = {
    {"llama2", "[INST] ", " [/INST]", "<<SYS>>\n", "\n<</SYS>>\n\n", ""},
    {"llama2-bos", "[INST] ", " [/INST]", "<<SYS>>\n", "\n<</SYS>>\n\n", "", false, false, "<s>"},
    {"llama2-strip", "[INST] ", " [/INST]", "<<SYS>>\n", "\n<</SYS>>\n\n", "", true, true, "<s>"},
    {"llama2-plain", "[INST] ", " [/INST]", "", "\n", ""},
    {"mistral-v1", " [INST] ", " [/INST]", "", "\n\n", " "},
    {"mistral-v3", "[INST] ", "[/INST]", "", "\n\n", " ", true},
    {"mistral-v3-tekken", "[INST]", "[/INST]", "", "\n\n", ""},
};

std::string trim(const std::string& text) {
  const char* const spaces = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(spaces);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

[[noreturn]] void refuse_role(std::string_view format, const std::string& role) {
  throw FormatError(fmt::format("chat format {}: unsupported role '{}'; use system, user or assistant", format, role));
}

void put(ChatParts& parts, std::string_view text, const std::string& role, const ChatOptions& options) {
  for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>("{role}", role),
                                 std::pair<std::string_view, std::string_view>("{eos}", options.eos)}) {
    const std::size_t at = text.find(from);
    if (at == std::string_view::npos) continue;
    parts.markup(text.substr(0, at));
    parts.markup(from == "{eos}" && to.empty() ? "<|endoftext|>" : to);
    text.remove_prefix(at + from.size());
  }
  parts.markup(text);
}

std::vector<TextPart> format_turns(const Format& format, std::span<const ChatMessage> messages,
                                   const ChatOptions& options) {
  ChatParts parts;
  parts.markup(format.begin);
  std::string system;
  for (const ChatMessage& message : messages) {
    check_chat_role(format.name, message.role);
    const std::string content = format.trim ? trim(message.content) : message.content;
    if (format.system_first && message.role == "system") {
      system += content;
      continue;
    }
    Turn turn = format.user;
    if (message.role == "system") turn = format.system;
    if (message.role == "assistant") turn = format.assistant;
    const bool known = message.role == "system" || message.role == "user" || message.role == "assistant";
    if (turn.before == nullptr || (!known && !format.other_roles)) refuse_role(format.name, message.role);
    put(parts, turn.before, message.role, options);
    if (message.role == "user" && !system.empty()) {
      parts.content(system);
      parts.markup("\n\n");
      system.clear();
    }
    parts.content(content);
    put(parts, turn.after, message.role, options);
  }
  if (!system.empty()) {
    put(parts, format.user.before, "user", options);
    parts.content(system);
    put(parts, format.user.after, "user", options);
  }
  if (options.add_generation_prompt) parts.markup(format.generation);
  return parts.take();
}

std::vector<TextPart> format_instructions(const InstructionFormat& format, std::span<const ChatMessage> messages) {
  ChatParts parts;
  bool open = false, first = true;
  for (const ChatMessage& message : messages) {
    check_chat_role(format.name, message.role);
    const std::string content = format.trim_all ? trim(message.content) : message.content;
    if (message.role == "assistant") {
      if (open) parts.markup(format.close);
      open = false;
      parts.markup(format.answer_before);
      parts.content(format.trim_answer ? trim(content) : content);
      parts.markup("</s>");
      continue;
    }
    if (message.role != "system" && message.role != "user") refuse_role(format.name, message.role);
    if (!open) {
      if (!first) parts.markup(format.next);
      parts.markup(format.open);
    }
    open = true;
    first = false;
    if (message.role == "system") {
      parts.markup(format.system_before);
      parts.content(content);
      parts.markup(format.system_after);
    } else {
      parts.content(content);
      parts.markup(format.close);
      open = false;
    }
  }
  if (open) parts.markup(format.close);
  return parts.take();
}

}  // namespace

void check_chat_role(std::string_view format, const std::string& role) {
  const bool plain = !role.empty() && role.size() <= 32 && std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (!plain)
    throw FormatError(
        fmt::format("chat format {}: '{:.40}' is not a valid role; use system, user or assistant", format, role));
}

void check_tool_name(std::string_view format, const std::string& name) {
  const bool plain = !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
  if (!plain)
    throw FormatError(
        fmt::format("chat format {}: '{:.80}' is not a name of a tool; wanted 1 to 64 letters, digits, '_', '-' or '.'",
                    format, name));
}

std::vector<std::string_view> chat_formats() {
  std::vector<std::string_view> names;
  for (const Format& format : kFormats) names.push_back(format.name);
  for (const InstructionFormat& format : kInstructionFormats) names.push_back(format.name);
  return names;
}

std::optional<std::string_view> recognize_chat_format(std::string_view jinja) {
  const auto has = [&](std::string_view text) { return jinja.find(text) != std::string_view::npos; };
  for (const std::string_view name : chat_formats())
    if (jinja == name) return name;
  if (has("<|im_start|>")) return has("<|im_sep|>") ? "phi4" : "chatml";
  if (has("[INST]")) {
    if (has("[SYSTEM_PROMPT]")) return has("[SYSTEM_PROMPT] ") || has("[INST] ") ? "mistral-v7" : "mistral-v7-tekken";
    if (has("' [INST] ' + system_message") || has("[AVAILABLE_TOOLS]")) {
      if (has(" [INST]")) return "mistral-v1";
      return has("\"[INST]\"") ? "mistral-v3-tekken" : "mistral-v3";
    }
    if (!has("<<SYS>>")) return "llama2-plain";
    if (has("content.strip()")) return "llama2-strip";
    return has("bos_token + '[INST]") ? "llama2-bos" : "llama2";
  }
  if (has("<|start_header_id|>") && has("<|end_header_id|>")) return "llama3";
  if (has("<|header_start|>") && has("<|header_end|>")) return "llama4";
  if (has("<start_of_turn>")) return "gemma";
  if (has(DEEPSEEK("Assistant")) && has(DEEPSEEK("User"))) return "deepseek3";
  if (has("'Assistant: ' + message['content'] + eos_token")) return "deepseek2";
  if (has("### Instruction:") && has("<|EOT|>")) return "deepseek";
  if (has("<|start_of_role|>")) return "granite";
  if (has("[gMASK]<sop>")) return "chatglm4";
  if (has("<|START_OF_TURN_TOKEN|>") && has("<|USER_TOKEN|>")) return "command-r";
  if (has("[|system|]") && has("[|assistant|]") && has("[|endofturn|]")) return "exaone3";
  if (has("<|assistant|>") && has("<|end|>")) return "phi3";
  if (has("<|user|>") && (has("<|endoftext|>") || has("eos_token"))) return "zephyr";
  if (has("<|assistant|>") && has("<|user|>")) return "falcon3";
  if (has("GPT4 Correct ")) return "openchat";
  if (has("USER: ") && has("ASSISTANT: ")) return has("SYSTEM: ") ? "vicuna-orca" : "vicuna";
  return std::nullopt;
}

std::vector<TextPart> format_chat(std::string_view format, std::span<const ChatMessage> messages,
                                  const ChatOptions& options) {
  if (!options.variables.empty())
    throw FormatError(fmt::format("chat format {}: template variables need the model's own template; got {:.60}",
                                  format, options.variables));
  if (uses_tools(messages, options))
    if (std::optional<std::vector<TextPart>> parts = format_tool_chat(format, messages, options))
      return std::move(*parts);
  for (const Format& known : kFormats)
    if (known.name == format) return format_turns(known, messages, options);
  for (const InstructionFormat& known : kInstructionFormats)
    if (known.name == format) return format_instructions(known, messages);
  throw FormatError(
      fmt::format("chat: unknown format '{:.40}'; known formats: {}", format, fmt::join(chat_formats(), ", ")));
}

std::string chat_text(std::span<const TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) text += part.text;
  return text;
}

#undef DEEPSEEK_END
#undef DEEPSEEK

}  // namespace etna::data
