#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

#include <fmt/format.h>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/stream_decoder.h>
#include <etna/device/error.h>
#include <etna/models/suspicious_weights.h>
#include <etna/train/interrupt.h>
#include <etna/train/terminal_text.h>

#include "generation.h"
#include "output.h"
#include "text_answer.h"

namespace etna::cli {
namespace {

using training::printable;

std::string prompt_of(const TextOptions& options) {
  if (options.prompt_file.empty()) return options.prompt;
  std::ifstream in(options.prompt_file, std::ios::binary);
  std::stringstream text;
  if (!in || !(text << in.rdbuf()))
    throw FormatError(fmt::format("{}: the file cannot be read, or is empty", options.prompt_file));
  return text.str();
}

}  // namespace

CLI::App* add_run(CLI::App& app, TextOptions& options) {
  CLI::App* run = app.add_subcommand("run", "Let a language model go on with a text");
  add_model_options(*run, options);
  add_guess_options(*run, options);
  CLI::Option* prompt = run->add_option("--prompt", options.prompt, "the text to go on with");
  run->add_option("--prompt-file", options.prompt_file, "a file with it")->excludes(prompt);
  run->add_flag("--no-special", options.no_special, "add no begin token to the prompt");
  run->add_flag("--endless", options.endless, "where the context is full, go on without the middle of the text");
  run->add_flag("--quiet", options.quiet, "no figures on standard error");
  add_sampling_options(*run, options);
  return run;
}

int run_text(const TextOptions& options) try {
  const std::string prompt = prompt_of(options);
  LoadedModel model = open_model(options);
  const data::Tokenizer& tokenizer = tokenizer_of(model, options.model);
  std::vector<std::int32_t> ids = tokenizer.encode_prompt(prompt, {.add_special = !options.no_special});
  if (ids.empty()) ids.push_back(tokenizer.bos().value_or(tokenizer.eos().value_or(0)));
  if (std::ssize(ids) > model.room()) {
    print_error(fmt::format("the prompt has {} tokens, {} fit at once; give a shorter one{}", ids.size(), model.room(),
                            model.room() < model.model.decoder->config.context ? ", or a larger --context" : ""));
    return 2;
  }
  training::Interrupt interrupt;
  Answer answer(*model.generator, tokenizer, options, interrupt);
  // What the model goes on with belongs to the text.
  print_now(prompt);
  try {
    answer.write(ids);
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
  return interrupt.requested() ? interrupt.exit_code() : 0;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace etna::cli
