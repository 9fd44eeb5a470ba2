// Language models from files, and texts that they write.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include <etna/data/tokenizers/stream_decoder.h>

#include "models.h"

namespace etna::web {
namespace {

using Clock = std::chrono::steady_clock;

/// A text that is being written, by one sequence of its model's generator.
struct Text {
  LoadedModel* model;
  models::Generator::Id sequence;
  data::StreamDecoder decoder;
  data::StopWords stops;
};

Kept<LoadedModel>& loaded() {
  static Kept<LoadedModel> all("model");
  return all;
}
Kept<Text>& texts() {
  static Kept<Text> all("text");
  return all;
}

/// What a page's model can remember unless told: some models are trained on more than a page has room for.
constexpr std::int64_t kCacheTokens = 4096;

/// Of the arguments "context" and "cache", which may be null.
models::KvCacheOptions cache_options(const Json& args, const models::Model& model, Device device) {
  models::KvCacheOptions options;
  const Json &context = args.at("context"), &dtype = args.at("cache");
  if (!context.is_null() && !(context.is_number_integer() && context >= 1 && context <= 1 << 30))
    throw Error("load_model: context is " + context.dump() + "; it is a number of tokens, 1 or more");
  options.tokens = context.is_null() ? std::min<std::int64_t>(model.decoder->config.context, kCacheTokens)
                                     : context.get<std::int64_t>();
  const std::map<std::string, DType> dtypes = {{"f32", f32}, {"f16", f16}, {"bf16", bf16}, {"q8_0", u8}};
  if (dtype.is_null()) {
    options.dtype = device.is_cpu() ? f32 : f16;
    return options;
  }
  const auto found = dtype.is_string() ? dtypes.find(dtype.get<std::string>()) : dtypes.end();
  if (found == dtypes.end())
    throw Error("load_model: there is no cache " + dtype.dump() + "; there are f32, f16, bf16 and q8_0");
  options.dtype = found->second;
  return options;
}

Json load(const Json& args) {
  const Device device = device_of(args);
  auto model = std::make_unique<LoadedModel>();
  model->device = device;
  model->path = args.at("path");
  model->model = models::load_model(model->path, {.device = device});
  if (model->model.tokenizer == nullptr && args.contains("tokenizer"))
    model->model.tokenizer = data::load_tokenizer(args.at("tokenizer").get<std::string>());
  const models::DecoderConfig& config = model->model.decoder->config;
  model->cache = cache_options(args, model->model, device);
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
  models::SamplingOptions& sampling = options.sampling;
  sampling.top_k = args.at("top_k");
  sampling.seed = args.at("seed").get<std::uint64_t>();
  const std::pair<const char*, double*> numbers[] = {
      {"temperature", &sampling.temperature},
      {"top_p", &sampling.top_p},
      {"min_p", &sampling.min_p},
      {"typical_p", &sampling.typical_p},
      {"repetition_penalty", &sampling.repetition_penalty},
      {"presence_penalty", &sampling.presence_penalty},
      {"frequency_penalty", &sampling.frequency_penalty},
  };
  for (const auto& [name, number] : numbers) *number = number_of(args.at(name));
  for (const auto& [token, bias] : args.at("logit_bias").items()) {
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), id);
    if (error != std::errc() || end != token.data() + token.size())
      throw Error("generate: logit_bias has '" + token + "', which is no token's number");
    sampling.logit_bias[id] = static_cast<float>(number_of(bias));
  }
  options.stop_tokens = tokenizer.end_tokens();
  options.endless = args.at("endless");
  return options;
}

Json start(const Json& args) {
  LoadedModel& model = model_with(args.at("model"));
  const data::Tokenizer* tokenizer = model.model.tokenizer.get();
  if (tokenizer == nullptr) throw Error("generate: the model has no tokenizer; give load_model() its file");
  const std::vector<std::int32_t> prompt = tokenizer->encode_prompt(args.at("prompt").get<std::string>());
  if (model.generator == nullptr)
    model.generator = std::make_unique<models::Generator>(
        *model.model.decoder, models::GeneratorOptions{.device = model.device, .cache = model.cache});
  if (!model.generator->has_room()) throw Error("generate: the model is writing another text; wait for it or stop it");
  data::StreamDecoder decoder(*tokenizer);
  // A prompt's words go before the answer: only without them does the answer begin a text.
  for (const std::int32_t token : prompt) decoder.push(token);
  data::StopWords stops(args.at("stop").get<std::vector<std::string>>());
  const models::Generator::Id sequence = model.generator->join(prompt, options_of(args, *tokenizer));
  texts().put(args.at("id"), std::make_unique<Text>(Text{&model, sequence, std::move(decoder), std::move(stops)}));
  return {{"prompt_tokens", prompt.size()}};
}

/// Writes for some milliseconds, at least one step. @return the text since the last call, and "stopped" at its end
Json proceed(const Json& args) {
  Text& text = texts().at(args);
  models::Generator& generator = *text.model->generator;
  const auto end = Clock::now() + std::chrono::duration<double, std::milli>(number_of(args.at("milliseconds")));
  std::vector<std::int32_t> tokens;
  std::string shown;
  do {
    for (const models::GeneratedToken& token : generator.step()) {
      tokens.push_back(token.token);
      shown += text.stops.push(text.decoder.push(token.token));
      if (text.stops.stopped()) break;
    }
  } while (!text.stops.stopped() && generator.stopped(text.sequence) == models::StopReason::none && Clock::now() < end);
  const models::StopReason reason = generator.stopped(text.sequence);
  Json stopped;
  if (text.stops.stopped()) {
    generator.leave(text.sequence);
    stopped = "stop word";
  } else if (reason != models::StopReason::none) {
    shown += text.stops.push(text.decoder.finish()) + text.stops.finish();
    stopped = text.stops.stopped() ? "stop word" : models::name(reason);
  }
  return {{"text", shown}, {"tokens", tokens}, {"stopped", stopped}};
}

/// Of a text that ended with its model: nothing.
Json stop(const Json& args) {
  if (const Text* text = texts().find(args)) text->model->generator->leave(text->sequence);
  texts().free(args.at("id"));
  return Json::object();
}

Json encode(const Json& args) {
  const LoadedModel& model = model_with(args.at("id"));
  if (model.model.tokenizer == nullptr) throw Error("encode: the model has no tokenizer; give load_model() its file");
  return {{"tokens", model.model.tokenizer->encode_prompt(args.at("text").get<std::string>())}};
}

/// Texts that the model is writing end, too: the next call for one says that it was freed.
Json free_model(const Json& args) {
  const LoadedModel* model = find_model(args.at("id"));
  texts().free_if([&](const Text& text) { return text.model == model; });
  loaded().free(args.at("id"));
  return Json::object();
}

}  // namespace

LoadedModel& model_with(const Json& id) { return loaded().at(Json{{"id", id}}); }
LoadedModel* find_model(const Json& id) { return loaded().find(Json{{"id", id}}); }

void set_decoder(LoadedModel& model, std::unique_ptr<models::Decoder> decoder) {
  texts().free_if([&](const Text& text) { return text.model == &model; });
  model.generator.reset();
  model.model.decoder = std::move(decoder);
  model.tuned = true;
}

void add_model_methods(Methods& methods) {
  methods["load_model"] = load;
  methods["generate"] = start;
  methods["proceed"] = proceed;
  methods["stop"] = stop;
  methods["encode"] = encode;
  methods["free_model"] = free_model;
}

}  // namespace etna::web
