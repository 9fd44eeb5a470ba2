#include "text_answer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <utility>

#include <etna/data/tokenizers/stream_decoder.h>
#include <etna/device/error.h>
#include <etna/dist/dist.h>

#include "arguments.h"
#include "output.h"

namespace etna::cli {
namespace {

/// Reads "TOKEN=NUMBER". @throws CLI::ValidationError
std::pair<std::int32_t, float> bias_of(const std::string& text) {
  const std::size_t at = std::min(text.find('='), text.size());
  std::int32_t token = -1;
  double bias = std::numeric_limits<double>::quiet_NaN();
  const bool both = CLI::detail::lexical_cast(text.substr(0, at), token) && at < text.size() &&
                    CLI::detail::lexical_cast(text.substr(at + 1), bias);
  if (!both || token < 0 || std::isnan(bias) || bias == std::numeric_limits<double>::infinity())
    throw CLI::ValidationError("--logit-bias", text + " is not TOKEN=NUMBER, such as 29=-1.5, or 29=-inf");
  return {token, static_cast<float>(bias)};
}

}  // namespace

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option("-m,--model,model", options.model,
                 "a GGUF file, a folder of Hugging Face, a llama2.c checkpoint, or the folder of a training run")
      ->required();
  app.add_option("--tokenizer", options.tokenizer,
                 "the tokenizer for a model without one: a tokenizer's file, or a model that has it");
  app.add_option("--adapter", options.adapter,
                 "low-rank adapters for the model: a GGUF file, or a folder or .safetensors file of PEFT");
  app.add_option("--device", options.device, "cpu, vulkan:N, gpu (a real one) or auto");
  app.add_flag("--strict", options.strict,
               "fail instead of silently running on the CPU: for ops without a kernel for the device, and for a "
               "software rasterizer that is not named with its number");
  app.add_option("--gpu-layers", options.gpu_layers,
                 "layers of the model on the GPU, the last ones; the others stay on the CPU (auto: as many as fit)")
      ->check(CLI::IsMember({"auto"}) | number_in(training::integers(0)))
      ->capture_default_str();
  app.add_option(
         "--experts", options.experts,
         "where the experts of a mixture are: gpu, or cpu for a GPU too small for them; the rest of their layers "
         "is on the GPU")
      ->check(CLI::IsMember({"gpu", "cpu"}))
      ->capture_default_str();
  app.add_option("--context", options.context, "context length in tokens, in blocks of 64 (default: that of the model)")
      ->check(number_in(training::integers(1)));
  app.add_option("--cache", options.cache, "dtype of cached keys and values")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}))
      ->capture_default_str();
  app.add_flag("-q,--quiet", options.quiet, "print neither the device nor figures nor progress on standard error");
}

void add_guess_options(CLI::App& app, ModelOptions& options) {
  CLI::Option* guesses =
      app.add_option(
             "--guesses", options.guesses,
             "speculative decoding: tokens to guess per step, by prompt lookup or by the draft (then 4 by default, 2 "
             "with mtp); the text stays the same")
          ->check(number_in(training::integers(0, 64)))
          ->capture_default_str();
  app.add_option("--draft", options.draft,
                 "the draft model: a smaller one with the same vocabulary; or mtp, the model's own head for further "
                 "tokens");
  app.callback([guesses, &options] {
    if (!options.draft.empty() && guesses->count() > 0 && options.guesses == 0)
      throw CLI::ValidationError("--draft", "has no effect with --guesses 0; omit one of them");
  });
}

void add_sampling_options(CLI::App& app, TextOptions& options) {
  models::SamplingOptions& s = options.sampling;
  const CLI::Validator part = number_in({.least = 0, .most = 1}), any = number_in({});
  app.add_option("-n,--max-tokens", options.max_tokens, "generate at most so many tokens")
      ->check(number_in(training::integers(1)))
      ->capture_default_str();
  app.add_option("--temperature", s.temperature, "0: always the most probable token")
      ->check(number_in({.least = 0}))
      ->capture_default_str();
  app.add_option("--top-k", s.top_k, "sample from the K most probable tokens; 0: from all")
      ->check(number_in(training::integers(0)))
      ->capture_default_str();
  app.add_option("--top-p", s.top_p, "sample from the most probable tokens with this total probability; 1: from all")
      ->check(part)
      ->capture_default_str();
  app.add_option("--min-p", s.min_p, "sample from tokens with this fraction of the largest probability")
      ->check(part)
      ->capture_default_str();
  app.add_option("--typical-p", s.typical_p, "as --top-p, the most typical first; 1: off")
      ->check(part)
      ->capture_default_str();
  app.add_option("--repetition-penalty", s.repetition_penalty,
                 "divides the logits of tokens in the text so far; 1: off")
      ->check(number_in({.least = 0, .above = true}))
      ->capture_default_str();
  app.add_option("--presence-penalty", s.presence_penalty, "subtracted from the logits of tokens in the answer")
      ->check(any)
      ->capture_default_str();
  app.add_option("--frequency-penalty", s.frequency_penalty, "subtracted for each occurrence of a token in the answer")
      ->check(any)
      ->capture_default_str();
  // allow_extra_args(false): what follows the value may be the model.
  app.add_option_function<std::vector<std::string>>(
         "--logit-bias",
         [&s](const std::vector<std::string>& all) {
           for (const std::string& one : all) {
             const auto [token, bias] = bias_of(one);
             s.logit_bias[token] = bias;
           }
         },
         "TOKEN=NUMBER: added to the logit of a token's id, -inf forbids it; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  options.seed = app.add_option("--seed", s.seed, "of sampling (default: a new one each time)");
  app.add_option("--stop", options.stop, "end before this text; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  add_form_options(app, options.form);
}

void print_now(const std::string& text) {
  if (distributed::rank() != 0) return;
  print_all(text);
  if (std::fflush(stdout) != 0) throw Error("standard output cannot be written");
}

Answer::Answer(models::Generator& generator, const data::Tokenizer& tokenizer, const TextOptions& options,
               const training::Interrupt& interrupt, std::shared_ptr<models::TokenGrammar> grammar)
    : generator_(generator),
      tokenizer_(tokenizer),
      options_(options),
      interrupt_(interrupt),
      grammar_(std::move(grammar)),
      seed_(options.sampling.seed) {
  if (options.seed == nullptr || options.seed->count() == 0) {
    std::random_device device;
    seed_ = static_cast<std::uint64_t>(device()) << 32 | device();
  }
}

std::vector<std::int32_t> Answer::write(std::span<const std::int32_t> prompt,
                                        std::shared_ptr<const models::PromptImages> images) {
  data::StreamDecoder decoder(tokenizer_);
  for (const std::int32_t token : prompt)
    decoder.push(token);  // spaces at the start of an answer are not at that of a text
  models::GenerationOptions options{.max_tokens = options_.max_tokens, .sampling = options_.sampling};
  options.sampling.seed = seed_++;
  options.stop_tokens = tokenizer_.end_tokens();
  options.endless = options_.endless;
  options.grammar = grammar_;
  options.images = std::move(images);
  std::vector<std::int32_t> tokens;
  data::StopWords stops(options_.stop);
  text_.clear();
  const auto show = [&](const std::string& piece) {
    text_ += piece;
    print_now(piece);
  };
  reason_ = generator_.generate(prompt, options, [&](std::int32_t token) {
    tokens.push_back(token);
    show(stops.push(decoder.push(token)));
    return !stops.stopped() && !interrupt_.requested();
  });
  show(stops.push(decoder.finish()) + stops.finish());
  return tokens;
}

}  // namespace etna::cli
