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
/// The process is kept for the next conversation, with the parsed template.
/// @throws FormatError (one sentence) if there is no template, it fails, or it rejects the messages; for invalid tools,
/// arguments and variables; and in builds without minja
std::vector<TextPart> format_chat_by_template(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                              const ChatOptions& options = {});

/// Starts the process that runs templates unless it runs. A server calls this before it loads a model and starts
/// threads: the process is a copy of this one, so it should be small. Does nothing in builds without minja.
/// @throws FormatError where a process cannot be started
void start_template_process();

/// Formats a conversation by the model's own template where this build runs Jinja, otherwise in the known format that
/// its template has. @throws FormatError as format_chat() and format_chat_by_template() do; and for a model without a
/// template, or with an unknown one in a build without minja
std::vector<TextPart> format_model_chat(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                        const ChatOptions& options = {});

}  // namespace etna::data
