#include <algorithm>
#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/internal/chat/jinja_template.h>
#include <etna/device/error.h>
#include <etna/device/internal/os/process.h>
#include <etna/device/output_file.h>
#include <etna/dist/dist.h>
#include <etna/train/progress.h>

#include "chat_terminal.h"
#include "commands.h"
#include "generation.h"
#include "line_reader.h"
#include "output.h"
#include "ranks.h"
#include "receipt_option.h"
#include "text_answer.h"

namespace etna::cli {
namespace {

using training::printable;

constexpr const char* kHelp =
    "/help         this list\n"
    "/clear        forget the conversation\n"
    "/save FILE    write it to a file, as Markdown\n"
    "/metrics      tokens, speed and the KV cache\n"
    "/exit         end; so does Ctrl-D. Ctrl-C ends an answer, or drops a line\n";

/// The first line of a saved conversation.
constexpr const char* kChatMark = "<!-- etna chat -->";

/// As a format: the model's own template, run as it is.
constexpr const char* kOwnTemplate = "jinja";

std::vector<std::string> formats() {
  std::vector<std::string> names{kOwnTemplate};
  for (const std::string_view name : data::chat_formats()) names.emplace_back(name);
  return names;
}

class Chat {
 public:
  Chat(LoadedModel& model, const Pictures& pictures, const TextOptions& options, const AnswerForm& form)
      : model_(model),
        pictures_(pictures),
        options_(options),
        tokenizer_(tokenizer_of(model, options.model)),
        grammar_(form.grammar(tokenizer_, model.model.decoder->config.vocabulary)),
        format_(format_of()) {
    clear();
    if (format_ != kOwnTemplate) return;
    // A template that does not run is refused before the first question.
    std::vector<data::ChatMessage> sample(messages_);
    sample.push_back({"user", "Hi"});
    data::format_chat_by_template(tokenizer_, sample);
  }

  /// @return false to end
  bool line(const std::string& line) {
    if (line.empty()) return true;
    if (line == "/exit" || line == "/quit") return false;
    if (line == "/help") {
      print_now(kHelp);
    } else if (line == "/clear") {
      clear();
    } else if (line == "/metrics") {
      metrics();
    } else if (line.starts_with("/save")) {
      save(line.size() > 6 ? line.substr(6) : "");
    } else if (line[0] == '/') {
      print_now(fmt::format("unknown command {}; /help lists them\n", printable(line.substr(0, line.find(' ')))));
    } else {
      ask(line);
    }
    return true;
  }

 private:
  std::string format_of() const {
    if (!options_.format.empty()) return options_.format;
    if (const auto known = data::recognize_chat_format(tokenizer_.chat_template())) return std::string(*known);
    const bool none = tokenizer_.chat_template().empty();
    if (!none && data::runs_jinja()) return kOwnTemplate;
    std::fprintf(stderr, "%s\n",
                 none ? "the model has no chat template: it continues the text, which may not be an answer"
                      : "the model's chat template is unknown, and this build cannot run Jinja (libminja-dev "
                        "is missing): the model continues the text; name a format with --format");
    return "";
  }
  void clear() {
    messages_.clear();
    if (!options_.system.empty()) messages_.push_back({"system", options_.system});
  }

  models::PicturePrompt prompt() const {
    std::vector<data::TextPart> parts;
    if (!format_.empty()) {
      parts = format_ == kOwnTemplate ? data::format_chat_by_template(tokenizer_, messages_)
                                      : data::format_chat(format_, messages_);
    } else {
      std::string text;
      for (const data::ChatMessage& message : messages_) text += message.content + "\n";
      if (!sees()) return {tokenizer_.encode_prompt(text), nullptr};
      parts.push_back({text});
    }
    if (!sees()) return {tokenizer_.encode_parts(parts), nullptr};
    return pictures_.prompt(tokenizer_, parts, true);
  }
  /// Whether the conversation still has the images.
  bool sees() const {
    return std::any_of(messages_.begin(), messages_.end(),
                       [&](const data::ChatMessage& message) { return pictures_.is_marked(message.content); });
  }

  void ask(const std::string& question) {
    const bool begins = messages_.empty() || messages_.back().role == "system";
    messages_.push_back({"user", begins ? pictures_.marked(question) : question});
    training::Interrupt interrupt;
    Answer answer(*model_.generator, tokenizer_, options_, interrupt, grammar_);
    models::PicturePrompt all = prompt();
    std::vector<std::int32_t>& ids = all.tokens;
    const std::int64_t room = model_.room();
    // The oldest questions go first, with their answers.
    while (static_cast<std::int64_t>(ids.size()) + std::min<std::int64_t>(options_.max_tokens, room / 4) > room &&
           drop_oldest())
      all = prompt();
    if (std::ssize(ids) > room) {
      print_now(fmt::format("the question has {} tokens with its markup; at most {} fit\n", ids.size(), room));
      messages_.pop_back();
      return;
    }
    if (ids.empty()) ids.push_back(tokenizer_.bos().value_or(0));
    answer.write(ids, all.images);
    print_now("\n");
    messages_.push_back({"assistant", answer.text()});
  }
  bool drop_oldest() {
    const std::size_t first = messages_.empty() || messages_[0].role != "system" ? 0 : 1;
    if (messages_.size() < first + 3) return false;
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(first),
                    messages_.begin() + static_cast<std::ptrdiff_t>(first + 2));
    return true;
  }

  void metrics() {
    const models::GenerationTimes& times = model_.generator->times();
    print_now(
        fmt::format("read {} tokens, {:.0f} a second; wrote {}, {:.1f} a second\n{}cache: {}\n", times.prompt_tokens,
                    static_cast<double>(times.prompt_tokens) / std::max(times.prompt_seconds, 1e-9), times.tokens,
                    static_cast<double>(times.tokens) / std::max(times.decode_seconds, 1e-9),
                    times.guessed > 0 ? guesses_line(times) + "\n" : "", model_.generator->cache().stats().str()));
  }
  void save(const std::string& file) {
    if (file.empty()) {
      print_now("/save needs the name of a file\n");
      return;
    }
    std::string text = std::string(kChatMark) + "\n\n";
    for (const data::ChatMessage& message : messages_)
      text += fmt::format("**{}**\n\n{}\n\n", message.role, message.content);
    try {
      io::require_output({"/save", file, {kChatMark}}, false, models_of(options_));
      io::write_file(file, text);
      print_now(fmt::format("{} messages are in {}\n", messages_.size(), printable(file)));
    } catch (const io::OutputExists&) {
      print_now(fmt::format("{} already exists and is not a conversation; name another file\n", printable(file)));
    } catch (const FormatError& error) {
      print_now(printable(error.what()) + "\n");
    }
  }

  LoadedModel& model_;
  const Pictures& pictures_;
  const TextOptions& options_;
  const data::Tokenizer& tokenizer_;
  const std::shared_ptr<models::TokenGrammar> grammar_;
  std::string format_;
  std::vector<data::ChatMessage> messages_;
};

/// The next line. Where another process reads them on a terminal, it is told to, and handles Ctrl-C meanwhile.
std::optional<std::string> next_line(LineReader& reader) {
  const std::string mark = waits_for_line();
  if (mark.empty()) return reader.next();
  const os::EndSignals ignored([](int) {});
  print_now(mark);
  return reader.next();
}

int chat(const TextOptions& options) try {
  const bool first = distributed::rank() == 0;
  const auto receipt = on_all_ranks([&] { return first ? begin_receipt(options) : nullptr; });
  const AnswerForm form = on_all_ranks([&] { return AnswerForm(options.form); });
  if (receipt && !form.file().empty()) receipt->file("form", form.file());
  if (receipt) add_image_files(*receipt, options);
  Pictures pictures(options);
  LoadedModel model = open_model(options);
  if (!leads(model)) return 0;
  pictures.open(model);
  if (receipt) {
    receipt->device(options.device, model.device);
    if (options.seed->count() > 0) receipt->seed("sampling", options.sampling.seed);
  }
  Chat chat(model, pictures, options, form);
  LineReader reader;
  while (const std::optional<std::string> line = next_line(reader)) {
    if (!chat.line(*line)) break;
  }
  if (receipt) {
    add_generation(*receipt, model);
    receipt->write(options.receipt);
  }
  return 0;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_chat(CLI::App& app) {
  const auto options = std::make_shared<TextOptions>();
  CLI::App* chat = app.add_subcommand("chat", "Talk with a language model; /help lists what it takes");
  add_model_options(*chat, *options);
  add_gpus_option(*chat, *options);
  add_guess_options(*chat, *options);
  add_image_options(*chat, *options);
  chat->add_option("--system", options->system, "the system message before the conversation");
  chat->add_option("--format", options->format,
                   "the chat format; jinja: the model's own template (default: the format recognized from the "
                   "template, else the template)")
      ->check(CLI::IsMember(formats()));
  add_sampling_options(*chat, *options);
  add_receipt_option(*chat, options->receipt, options->force);
  return {chat, [options] {
            options->sees = !options->images.empty();
            return run_on_ranks(*options, [options] { return cli::chat(*options); }, {.reads_lines = true});
          }};
}

}  // namespace etna::cli
