// Language models from files, and texts that they write.
#include <chrono>
#include <utility>

#include <etna/models/generator.h>
#include <etna/models/model_file.h>

#include "call.h"

namespace etna::web {
namespace {

using Clock = std::chrono::steady_clock;

struct Loaded {
  models::Model model;
  Device device;
  /// Made with the first text; keeps its captured step and its cache from text to text.
  std::unique_ptr<models::Generator> generator;
};

/// A text that is being written, by one sequence of its model's generator.
struct Text {
  Loaded* model = nullptr;
  models::Generator::Id sequence = 0;
  data::DecodeState state;
  std::string rest;  ///< the first bytes of a character that the next token completes
};

Kept<Loaded>& loaded() {
  static Kept<Loaded> all("model");
  return all;
}
Kept<Text>& texts() {
  static Kept<Text> all("text");
  return all;
}

/// How many bytes at the end of a text begin a character of UTF-8 without ending it.
std::size_t unfinished_bytes(const std::string& text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

Json load(const Json& args) {
  const Device device = device_of(args);
  auto model = std::make_unique<Loaded>();
  model->device = device;
  model->model = models::load_model(args.at("path").get<std::string>(), {.device = device});
  if (model->model.tokenizer == nullptr && args.contains("tokenizer"))
    model->model.tokenizer = data::load_tokenizer(args.at("tokenizer").get<std::string>());
  const models::DecoderConfig& config = model->model.decoder->config;
  const Json result = {{"source", model->model.source}, {"architecture", config.architecture},
                       {"context", config.context},     {"vocabulary", config.vocabulary},
                       {"layers", config.layers},       {"width", config.width},
                       {"device", device.str()},        {"tokenizer", model->model.tokenizer != nullptr}};
  loaded().put(args.at("id"), std::move(model));
  return result;
}

models::GenerationOptions options_of(const Json& args, const data::Tokenizer& tokenizer) {
  models::GenerationOptions options;
  options.max_tokens = args.at("max_tokens");
  options.sampling.temperature = number_of(args.at("temperature"));
  options.sampling.top_k = args.at("top_k");
  options.sampling.top_p = number_of(args.at("top_p"));
  options.sampling.min_p = number_of(args.at("min_p"));
  options.sampling.repetition_penalty = number_of(args.at("repetition_penalty"));
  options.sampling.seed = args.at("seed").get<std::uint64_t>();
  options.stop_tokens = tokenizer.end_tokens();
  return options;
}

Json start(const Json& args) {
  Loaded& model = loaded().at(Json{{"id", args.at("model")}});
  const data::Tokenizer* tokenizer = model.model.tokenizer.get();
  if (tokenizer == nullptr) throw Error("generate: the model has no tokenizer; give load_model() its file");
  const std::vector<std::int32_t> prompt = tokenizer->encode_prompt(args.at("prompt").get<std::string>());
  if (model.generator == nullptr) {
    models::GeneratorOptions options{.device = model.device};
    if (model.device.is_cpu()) options.cache.dtype = f32;
    model.generator = std::make_unique<models::Generator>(*model.model.decoder, options);
  }
  if (!model.generator->has_room()) throw Error("generate: the model is writing another text; wait for it or stop it");
  auto text = std::make_unique<Text>();
  text->model = &model;
  // A prompt's words go before the answer: only without them does the answer begin a text.
  text->state.at_start = args.at("prompt").get<std::string>().empty();
  text->sequence = model.generator->join(prompt, options_of(args, *tokenizer));
  texts().put(args.at("id"), std::move(text));
  return {{"prompt_tokens", prompt.size()}};
}

/// Writes for some milliseconds, at least one step. @return the text since the last call, and "stopped" at its end
Json proceed(const Json& args) {
  Text& text = texts().at(args);
  models::Generator& generator = *text.model->generator;
  const auto end = Clock::now() + std::chrono::duration<double, std::milli>(number_of(args.at("milliseconds")));
  std::vector<std::int32_t> tokens;
  do {
    for (const models::GeneratedToken& token : generator.step()) {
      tokens.push_back(token.token);
      text.model->model.tokenizer->decode_next(token.token, text.state, text.rest);
    }
  } while (generator.stopped(text.sequence) == models::StopReason::none && Clock::now() < end);
  const models::StopReason reason = generator.stopped(text.sequence);
  const bool stopped = reason != models::StopReason::none;
  std::string rest;
  if (const std::size_t keep = unfinished_bytes(text.rest); keep > 0 && !stopped) {
    rest = text.rest.substr(text.rest.size() - keep);
    text.rest.resize(text.rest.size() - keep);
  }
  Json result = {{"text", text.rest}, {"tokens", tokens}};
  text.rest = rest;
  result["stopped"] = stopped ? Json(models::name(reason)) : Json(nullptr);
  return result;
}

/// Of a text that ended with its model: nothing.
Json stop(const Json& args) {
  if (const Text* text = texts().find(args)) text->model->generator->leave(text->sequence);
  texts().free(args.at("id"));
  return Json::object();
}

Json encode(const Json& args) {
  const Loaded& model = loaded().at(args);
  if (model.model.tokenizer == nullptr) throw Error("encode: the model has no tokenizer; give load_model() its file");
  return {{"tokens", model.model.tokenizer->encode_prompt(args.at("text").get<std::string>())}};
}

/// Texts that the model is writing end, too: the next call for one says that it was freed.
Json free_model(const Json& args) {
  const Loaded* model = loaded().find(args);
  texts().free_if([&](const Text& text) { return text.model == model; });
  loaded().free(args.at("id"));
  return Json::object();
}

}  // namespace

void add_model_methods(Methods& methods) {
  methods["load_model"] = load;
  methods["generate"] = start;
  methods["proceed"] = proceed;
  methods["stop"] = stop;
  methods["encode"] = encode;
  methods["free_model"] = free_model;
}

}  // namespace etna::web
