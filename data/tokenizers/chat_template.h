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
  bool add_generation_prompt = true;  ///< end with the header of the assistant's answer
  std::string eos = {};               ///< the model's spelling of its EOS token, for "zephyr"; empty: "<|endoftext|>"
};

/// The names of all supported formats, such as "chatml" and "llama3".
std::vector<std::string_view> chat_formats();

/// Recognizes a model's chat format by marker strings in its Jinja template. Returns nullopt for an unknown template;
/// jinja_template.h may be able to run it.
std::optional<std::string_view> recognize_chat_format(std::string_view jinja);

/// Formats a conversation the way models of this format were trained, without the BOS token. Special tokens are
/// recognized in the parts with markup but not in the parts with message content, so that no message can inject markup.
/// @throws FormatError for an unknown format, and for a role that the format lacks
std::vector<TextPart> format_chat(std::string_view format, std::span<const ChatMessage> messages,
                                  const ChatOptions& options = {});
/// Checks that a role cannot inject markup: it is inserted into the markup unescaped.
/// @param format for errors @throws FormatError unless the role is 1 to 32 letters, digits, '_' or '-'
void check_chat_role(std::string_view format, const std::string& role);
/// All parts as one text, for display.
std::string chat_text(std::span<const TextPart> parts);

}  // namespace etna::data
