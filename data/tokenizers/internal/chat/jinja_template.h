#pragma once

#include <span>
#include <string>
#include <vector>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/tokenizer.h>

namespace etna::data {

/// Whether this build runs Jinja templates: the library minja was there.
bool runs_jinja();

/// The text of a conversation by the model's own Jinja template (Tokenizer::chat_template()). The template runs in a
/// process of its own, with little memory and time, since it is a program that came with a file. Special tokens that
/// people spell in messages are not recognized, as in format_chat(); what else the template does to them stays.
/// @throws FormatError, one sentence, where the template does not run, says that the messages do not fit, or is none;
/// and in builds without minja
std::vector<TextPart> format_chat_by_template(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                              const ChatOptions& options = {});

}  // namespace etna::data
