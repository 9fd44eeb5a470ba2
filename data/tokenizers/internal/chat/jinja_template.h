#pragma once

#include <span>
#include <string>
#include <vector>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/tokenizer.h>

namespace etna::data {

/// Whether this build can run Jinja templates, that is, has the library minja.
bool runs_jinja();

/// Formats a conversation with the model's own Jinja template (Tokenizer::chat_template()). The template is an
/// untrusted program, so it runs in a process of its own with limits on memory and time. As in format_chat(), special
/// tokens spelled in messages are not recognized; other changes that the template makes to messages are kept.
/// @throws FormatError (one sentence) if there is no template, it fails, or it rejects the messages; and in builds
/// without minja
std::vector<TextPart> format_chat_by_template(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                              const ChatOptions& options = {});

}  // namespace etna::data
