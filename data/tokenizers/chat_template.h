#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>

namespace etna::data {

struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"; some formats take others
  std::string content;
};

struct ChatOptions {
  bool add_generation_prompt = true;  ///< end with the beginning of the assistant's answer
  std::string eos = {};               ///< how the model spells its end token, for "zephyr"; empty: "<|endoftext|>"
};

/// The names of the formats that there are, such as "chatml" and "llama3".
std::vector<std::string_view> chat_formats();

/// The format that a model's Jinja template describes, by strings that tell it. Nothing for a template of another kind;
/// jinja_template.h may run it.
std::optional<std::string_view> recognize_chat_format(std::string_view jinja);

/// The text of a conversation, as models of that format were trained with; bos is not in it. Markup is in parts that
/// recognize special tokens, and what people wrote in parts that do not, so that nobody can write markup.
/// @throws FormatError for a format that there is not, and for a role that the format does not have
std::vector<TextPart> format_chat(std::string_view format, std::span<const ChatMessage> messages,
                                  const ChatOptions& options = {});
/// A role becomes a part of the markup, so it must not be able to spell any.
/// @param format for errors @throws FormatError for what is not up to 32 letters, digits, '_' and '-'
void check_chat_role(std::string_view format, const std::string& role);
/// All of it as one text, to be looked at.
std::string chat_text(std::span<const TextPart> parts);

}  // namespace etna::data
