#include <etna/data/tokenizers/internal/chat/jinja_template.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/chat/bounded_process.h>
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

constexpr const char* kName = "chat template";
constexpr std::size_t kLongest = 1 << 20;

std::string spelled(const Tokenizer& tokenizer, std::optional<std::int32_t> id) {
  return id ? std::string(special_spelling(tokenizer, *id)) : std::string();
}

/// minja appends the place and the lines around it to its errors.
std::string first_line(const std::string& text) {
  std::string line = text.substr(0, std::min(text.find('\n'), std::size_t{300}));
  while (!line.empty() && (line.back() == ':' || line.back() == ' ')) line.pop_back();
  return line.empty() ? "it does not run" : line;
}

}  // namespace

std::vector<TextPart> format_chat_by_template(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                              const ChatOptions& options) {
  const std::string source(tokenizer.chat_template());
  if (source.empty()) throw FormatError(fmt::format("{}: the model has none", kName));
  if (source.size() > kLongest)
    throw FormatError(fmt::format("{}: got {} bytes; wanted at most {}", kName, source.size(), kLongest));
  const MessageMarks marks(tokenizer);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::size_t bytes = 0;
  for (const ChatMessage& message : messages) {
    check_chat_role(kName, message.role);
    list.push_back({{"role", message.role}, {"content", marks.mark(message)}});
    bytes += message.content.size();
  }
  const std::string bos = spelled(tokenizer, tokenizer.bos()),
                    eos = options.eos.empty() ? spelled(tokenizer, tokenizer.eos()) : options.eos;
  const auto render = [&]() -> std::string {
    try {
      const minja::chat_template chat(source, bos, eos);
      minja::chat_template_inputs inputs;
      inputs.messages = list;
      inputs.add_generation_prompt = options.add_generation_prompt;
      return chat.apply(inputs);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw FormatError(first_line(error.what()));
    }
  };
  return marks.split(run_bounded(render, kName, {.seconds = 5, .output = 8 * bytes + kLongest}));
}
#else
std::vector<TextPart> format_chat_by_template(const Tokenizer&, std::span<const ChatMessage>, const ChatOptions&) {
  throw FormatError(
      "chat template: this build cannot run Jinja: it was built without the library minja (libminja-dev); name a "
      "format");
}
#endif

}  // namespace etna::data
