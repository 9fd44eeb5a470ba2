#include <algorithm>
#include <cstdio>
#include <random>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/stream_decoder.h>
#include <etna/device/error.h>
#include <etna/device/internal/os/terminal.h>
#include <etna/dist/dist.h>
#include <etna/models/model_file.h>
#include <etna/train/progress.h>

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

/// A file of text ends in a line break that is no part of the prompt.
std::string without_line_break(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

/// --prompt, --prompt-file, or what is piped in.
std::string prompt_of(const TextOptions& options) {
  const bool given = options.given_prompt->count() > 0, file = !options.prompt_file.empty();
  const bool piped = !given && !file && !os::is_terminal(stdin);
  if (piped || (given && options.prompt == "-") || options.prompt_file == "-")
    return without_line_break(standard_input());
  return file ? without_line_break(data::read_text_file(options.prompt_file)) : options.prompt;
}

int run_text(const TextOptions& options) try {
  const bool first = distributed::rank() == 0;
  const auto receipt = on_all_ranks([&] { return first ? begin_receipt(options) : nullptr; });
  const AnswerForm form = on_all_ranks([&] { return AnswerForm(options.form); });
  const std::string prompt = on_all_ranks([&] { return first ? prompt_of(options) : std::string(); });
  if (receipt && !options.prompt_file.empty() && options.prompt_file != "-")
    receipt->file("prompt", options.prompt_file);
  if (receipt && !form.file().empty()) receipt->file("form", form.file());
  Pictures pictures(options);
  if (receipt) add_image_files(*receipt, options);
  LoadedModel model = open_model(options, 1, false);
  if (!leads(model)) return 0;
  const data::Tokenizer& tokenizer = tokenizer_of(model, options.model);
  pictures.open(model);
  const data::TextPart marked{pictures.marked(prompt), data::SpecialTokens::as_text};
  models::PicturePrompt placed;
  if (!pictures.empty()) placed = pictures.prompt(tokenizer, std::span(&marked, 1), !options.no_special);
  std::vector<std::int32_t> ids =
      pictures.empty() ? tokenizer.encode_prompt(prompt, {.add_special = !options.no_special}) : placed.tokens;
  if (ids.empty()) ids.push_back(tokenizer.bos().value_or(tokenizer.eos().value_or(0)));
  if (std::ssize(ids) > model.room()) {
    print_error(fmt::format("the prompt has {} tokens, {} fit at once; give a shorter one{}", ids.size(), model.room(),
                            model.room() < model.model.decoder->config.context ? ", or a larger --context" : ""));
    return 2;
  }
  training::Interrupt interrupt;
  Answer answer(*model.generator, tokenizer, options, interrupt,
                form.grammar(tokenizer, model.model.decoder->config.vocabulary));
  if (receipt) {
    receipt->device(options.device, model.device);
    receipt->seed("sampling", answer.seed());
  }
  // What the model goes on with belongs to the text.
  print_now(prompt);
  try {
    answer.write(ids, placed.images);
  } catch (const models::SuspiciousWeights&) {
    print_now("\n");
    throw;
  }
  print_now("\n");
  if (!options.quiet) {
    const models::GenerationTimes& times = model.generator->times();
    std::fprintf(
        stderr, "%s\n",
        fmt::format("loaded in {:.2f} s; prompt of {} tokens: {:.0f} tokens/s; {} tokens: {:.1f} tokens/s ({})",
                    model.seconds, times.prompt_tokens,
                    static_cast<double>(times.prompt_tokens) / std::max(times.prompt_seconds, 1e-9), times.tokens,
                    static_cast<double>(times.tokens) / std::max(times.decode_seconds, 1e-9),
                    models::name(answer.reason()))
            .c_str());
    if (times.guessed > 0) std::fprintf(stderr, "%s\n", guesses_line(times).c_str());
  }
  if (receipt) {
    add_generation(*receipt, model);
    receipt->write(options.receipt);
  }
  return interrupt.requested() ? interrupt.exit_code() : 0;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_run(CLI::App& app) {
  const auto options = std::make_shared<TextOptions>();
  CLI::App* run = app.add_subcommand("run", "Let a language model go on with a text");
  add_model_options(*run, *options);
  add_gpus_option(*run, *options);
  add_guess_options(*run, *options);
  options->given_prompt = run->add_option("-p,--prompt", options->prompt,
                                          "the text to go on with; -: standard input, which is also read where it is "
                                          "no terminal and no prompt is given");
  run->add_option("--prompt-file", options->prompt_file, "a file with it, whose last line break is left out")
      ->excludes(options->given_prompt);
  add_image_options(*run, *options);
  run->add_flag("--no-special", options->no_special, "add no begin token to the prompt");
  run->add_flag("--endless", options->endless, "where the context is full, go on without the middle of the text");
  add_sampling_options(*run, *options);
  add_receipt_option(*run, options->receipt, options->force);
  return {run, [options] {
            options->sees = !options->images.empty();
            return run_on_ranks(*options, [options] { return run_text(*options); });
          }};
}

}  // namespace etna::cli
