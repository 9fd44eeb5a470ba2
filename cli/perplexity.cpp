#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/device/error.h>
#include <etna/dist/dist.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>
#include <etna/train/progress.h>

#include "arguments.h"
#include "commands.h"
#include "generation.h"
#include "output.h"
#include "ranks.h"
#include "receipt_option.h"
#include "text_answer.h"

namespace etna::cli {

using training::printable;

namespace {

struct PerplexityOptions : ModelOptions {
  std::string file;
  std::int64_t chunk = 512;
  std::int64_t most = 0;
};
int perplexity(PerplexityOptions& options) try {
  const bool first = distributed::rank() == 0;
  const auto receipt = on_all_ranks([&] { return first ? begin_receipt(options) : nullptr; });
  if (receipt) receipt->file("text", options.file);
  const std::string text = on_all_ranks([&] { return first ? data::read_text_file(options.file) : std::string(); });
  options.logits = options.chunk;
  LoadedModel model = open_model(options);
  if (!leads(model)) return 0;
  if (receipt) receipt->device(options.device, model.device);
  const auto started = std::chrono::steady_clock::now();
  const data::Tokenizer& tokenizer = tokenizer_of(model, options.model);
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  const std::int64_t context = std::min(model.model.decoder->config.context, model.generator->cache().capacity());
  const std::int64_t chunk = std::min(options.chunk, context);
  const std::vector<std::int32_t> begin = tokenizer.encode_prompt("", {});
  const auto special = static_cast<std::int64_t>(begin.size());
  std::int64_t all = static_cast<std::int64_t>(ids.size());
  if (options.most > 0) all = std::min(all, options.most);
  if (all < 2 || chunk <= special) throw FormatError(fmt::format("{}: the text is too short", options.file));
  training::Interrupt interrupt;
  std::optional<training::Progress> progress;
  if (!options.quiet)
    progress.emplace(all, training::ProgressOptions{.title = "perplexity", .keep = false, .out = stderr});
  double sum = 0, squares = 0;
  std::int64_t count = 0;
  for (std::int64_t at = 0; at < all && !interrupt.requested(); at += chunk - special) {
    const std::int64_t end = std::min(all, at + chunk - special);
    std::vector<std::int32_t> part(begin);
    part.insert(part.end(), ids.begin() + at, ids.begin() + end);
    if (part.size() < 2) break;
    const auto length = static_cast<std::int64_t>(part.size());
    const Tensor logits = model.generator->logits(part).slice(0, 0, length - 1);
    models::check_logits(logits, "the text");
    const Tensor targets = from_vector(std::vector<std::int32_t>(part.begin() + 1, part.end()), model.device);
    const Tensor losses = cross_entropy(logits, targets, -100, 0, Reduction::none);
    for (const double loss : losses.to_vector<double>()) {
      sum += loss;
      squares += loss * loss;
      ++count;
    }
    if (progress) progress->update(end, {{"perplexity", std::exp(sum / static_cast<double>(count))}});
  }
  if (progress) progress->finish();
  const double mean = sum / static_cast<double>(count);
  const double error =
      std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean) / static_cast<double>(count));
  print_all(fmt::format("{} tokens in pieces of {}: {:.4f} nats a token, perplexity {:.3f} ± {:.3f}\n",
                        training::with_commas(count), chunk, mean, std::exp(mean), std::exp(mean) * error));
  if (receipt) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    receipt->number("load_seconds", model.seconds);
    receipt->number("tokens_read", static_cast<double>(count));
    receipt->number("tokens_read_per_second", static_cast<double>(count) / took.count());
    receipt->number("perplexity", std::exp(mean));
    receipt->write(options.receipt);
  }
  return interrupt.requested() ? interrupt.exit_code() : 0;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_perplexity(CLI::App& app) {
  const auto options = std::make_shared<PerplexityOptions>();
  CLI::App* perplexity = app.add_subcommand("perplexity", "How well a language model foretells a text");
  add_model_options(*perplexity, *options);
  add_gpus_option(*perplexity, *options);
  perplexity->add_option("-f,--file", options->file, "the text")->required();
  perplexity
      ->add_option("--chunk", options->chunk, "the text is cut into pieces of so many tokens, each read for itself")
      ->check(number_in(training::integers(2, 1 << 20)))
      ->capture_default_str();
  perplexity->add_option("-n,--tokens", options->most, "stop after about so many; 0: all")
      ->check(number_in(training::integers(0)));
  add_receipt_option(*perplexity, options->receipt, options->force);
  return {perplexity, [options] { return run_on_ranks(*options, [options] { return cli::perplexity(*options); }); }};
}

}  // namespace etna::cli
