#include <algorithm>
#include <cstdio>
#include <iostream>
#include <utility>

#include <fmt/format.h>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/etna.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>

#include "wikitext.h"

namespace wikitext {

using namespace etna;

namespace {

/// The special token that ends a text, if there is one.
std::optional<std::int32_t> end_of_text(const data::Tokenizer& tokenizer) {
  for (const std::int32_t id : tokenizer.special_tokens())
    if (tokenizer.token(id) == data::kEndOfText) return id;
  return std::nullopt;
}

/// With a cache of keys and values, and draws on the device.
void decode(const TextModel& model, const models::DecoderConfig& config, std::vector<std::int32_t>& ids,
            std::optional<std::int32_t> end, const GenerateOptions& wanted, Device device) {
  const std::unique_ptr<models::Decoder> decoder =
      models::decoder_of(config, model.module->state_dict(), {.device = device});
  models::Generator generator(*decoder, {.device = device, .cache = {.dtype = f32}});
  models::GenerationOptions options{.max_tokens = wanted.words, .endless = true, .sinks = 0};
  options.sampling = {
      .temperature = wanted.temperature, .top_k = wanted.top_k, .top_p = 1, .min_p = 0, .seed = wanted.seed};
  if (end) options.stop_tokens.push_back(*end);
  const auto most = static_cast<std::ptrdiff_t>(config.context);
  const std::vector<std::int32_t> prompt(std::max(ids.begin(), ids.end() - std::min(most, std::ssize(ids))), ids.end());
  generator.generate(prompt, options, [&](std::int32_t token) {
    ids.push_back(token);
    return true;
  });
}

/// With an LSTM, which remembers by itself.
void unroll(const TextModel& model, std::int64_t vocabulary, std::vector<std::int32_t>& ids,
            std::optional<std::int32_t> end, const GenerateOptions& wanted, Device device) {
  const training::StreamModel stream = model.on_streams(1, device);
  std::uint64_t state = wanted.seed;
  std::size_t read = 0;
  for (std::int64_t i = 0; i < wanted.words; ++i) {
    const std::size_t unread = ids.size() - std::exchange(read, ids.size());
    const std::vector<std::int32_t> window(ids.end() - static_cast<std::ptrdiff_t>(unread), ids.end());
    const Tensor tokens = from_vector(window, {1, static_cast<std::int64_t>(unread)}, device);
    const Tensor logits = stream.head(stream.hidden(tokens).select(0, 0).select(0, -1)).slice(0, 0, vocabulary);
    if (i == 0) models::check_logits(logits, "the prompt");
    const std::int32_t id = training::draw_token(logits.to_vector<float>(), wanted.temperature, wanted.top_k, state);
    if (end && id == *end) break;
    ids.push_back(id);
  }
}

}  // namespace

std::string generate(const TextModel& model, const data::Tokenizer& tokenizer, const GenerateOptions& options,
                     Device device) {
  NoGrad no_grad;
  model.module->eval();
  const std::optional<std::int32_t> end = end_of_text(tokenizer);
  std::vector<std::int32_t> ids = tokenizer.encode(options.prompt);
  std::size_t start = 0;
  if (ids.empty()) {
    ids = end ? std::vector<std::int32_t>{*end} : tokenizer.encode("\n");
    start = ids.size();
  }
  if (model.decoder)
    decode(model, *model.decoder, ids, end, options, device);
  else
    unroll(model, static_cast<std::int64_t>(tokenizer.size()), ids, end, options, device);
  model.module->train();
  return tokenizer.decode(std::span(ids).subspan(start));
}

int run_generate(const GenerateOptions& options) {
  const Device device = options.select();
  const SavedModel saved = load_model(options.run, device);
  std::vector<std::string> unknown;  // a tokenizer of byte pairs knows all
  saved.tokenizer->encode(options.prompt, data::SpecialTokens::recognize, &unknown);
  std::string list;
  for (const std::string& word : unknown) list += (list.empty() ? "" : ", ") + training::shortened(word, 40);
  if (!list.empty()) fmt::print(stderr, "the model does not know these words and reads <unk> for them: {}\n", list);
  fmt::print("{}\n", training::printable_lines(generate(saved.model, *saved.tokenizer, options, device)));
  return 0;
}

int run_chat(const GenerateOptions& options) {
  const Device device = options.select();
  const SavedModel saved = load_model(options.run, device);
  fmt::print("{}, {}; the model goes on with each line; an empty line or Ctrl-D ends\n", saved.settings.model,
             saved.model.description);
  GenerateOptions next = options;
  for (std::string line; std::getline(std::cin, line) && !line.empty();) {
    next.prompt += (next.prompt.empty() ? "" : " ") + line;
    const std::string all = generate(saved.model, *saved.tokenizer, next, device);
    const bool longer = all.size() > next.prompt.size();
    fmt::print("{}\n", training::printable_lines(longer ? all.substr(next.prompt.size()) : all));
    std::fflush(stdout);
    next.prompt = all;
  }
  return 0;
}

}  // namespace wikitext
