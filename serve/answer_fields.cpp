#include <etna/serve/answer_fields.h>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/serve/api_error.h>

namespace etna::serve {
namespace {

void read_logit_bias(Fields& fields, models::SamplingOptions& sampling) {
  const Json* biases = fields.object_if("logit_bias");
  if (biases == nullptr) return;
  Fields tokens(*biases, fields.path_of("logit_bias"));
  for (const auto& [name, value] : biases->items()) {
    std::int32_t token = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (error != std::errc() || end != name.data() + name.size() || token < 0) {
      throw bad_request(fields.path_of("logit_bias"),
                        fmt::format("logit_bias has '{:.64}'; wanted the id of a token, such as \"50256\"", name));
    }
    sampling.logit_bias[token] = static_cast<float>(tokens.real_if(name, {.least = -100, .most = 100}).value_or(0));
  }
}

}  // namespace

AnswerOptions read_answer_options(Fields& fields, const Service& service) {
  AnswerOptions options;
  models::SamplingOptions& s = options.sampling;
  s.temperature = fields.real_if("temperature", {.least = 0, .most = 2}).value_or(s.temperature);
  s.top_p = fields.real_if("top_p", {.least = 0, .most = 1, .above = true}).value_or(s.top_p);
  s.top_k = std::max<std::int64_t>(0, fields.integer_if("top_k", {.least = -1, .most = 1 << 30}).value_or(s.top_k));
  s.min_p = fields.real_if("min_p", {.least = 0, .most = 1}).value_or(s.min_p);
  s.typical_p = fields.real_if("typical_p", {.least = 0, .most = 1, .above = true}).value_or(s.typical_p);
  s.repetition_penalty =
      fields.real_if("repetition_penalty", {.least = 0, .most = 100, .above = true}).value_or(s.repetition_penalty);
  s.presence_penalty = fields.real_if("presence_penalty", {.least = -2, .most = 2}).value_or(0);
  s.frequency_penalty = fields.real_if("frequency_penalty", {.least = -2, .most = 2}).value_or(0);
  read_logit_bias(fields, s);
  if (const auto seed = fields.integer_if("seed")) options.seed = static_cast<std::uint64_t>(*seed);
  options.max_tokens = fields.integer_if("max_tokens", {.least = 0, .most = 1 << 30});
  options.stop = fields.strings("stop", 4);
  options.choices = fields.integer_if("n", {.least = 1, .most = service.options().max_choices}).value_or(1);
  options.ignore_eos = fields.flag_if("ignore_eos").value_or(false);
  options.priority = fields.integer_if("priority", {.least = -1000, .most = 1000}).value_or(0);
  options.format = read_output_format(fields);
  const std::int64_t most = service.options().max_tokens;
  if (most > 0 && options.max_tokens.value_or(0) > most) {
    throw bad_request(fields.path_of("max_tokens"),
                      fmt::format("max_tokens is {}; this server allows at most {}", *options.max_tokens, most));
  }
  return options;
}

OutputFormat read_output_format(Fields& fields) {
  OutputFormat format;
  std::string from;
  const auto set = [&](const char* field, OutputForm form, std::string source) {
    if (!from.empty())
      throw bad_request(fields.path_of(field),
                        fmt::format("{} and {} both say which form the answer has; send one of them", from, field));
    from = field;
    format.form = form;
    format.source = std::move(source);
  };
  if (const Json* given = fields.object_if("response_format")) {
    Fields kind(*given, fields.path_of("response_format"));
    kind.any("type");
    const std::string type = *kind.word_if("type", {"text", "json_object", "json_schema"});
    if (type == "json_object") set("response_format", OutputForm::json_object, "");
    if (type == "json_schema") {
      kind.any("json_schema");
      Fields schema(*kind.object_if("json_schema"), kind.path_of("json_schema"));
      format.name = schema.string("name");
      schema.string_if("description");
      // Every schema is followed strictly, also one that does not ask for it.
      schema.flag_if("strict");
      const Json& source = schema.any("schema");
      if (!source.is_object() && !source.is_boolean())
        throw bad_request(
            schema.path_of("schema"),
            fmt::format("{} is {}; wanted a JSON Schema, an object", schema.path_of("schema"), shown(source)),
            "invalid_type");
      set("response_format", OutputForm::json_schema, json_text(source));
      schema.finish();
    }
    kind.finish();
  }
  if (auto grammar = fields.string_if("grammar")) set("grammar", OutputForm::gbnf, std::move(*grammar));
  if (auto regex = fields.string_if("regex")) set("regex", OutputForm::regex, std::move(*regex));
  return format;
}

void read_neutral_fields(Fields& fields) {
  fields.string_if("user");
  fields.string_if("safety_identifier");
  fields.string_if("prompt_cache_key");
  fields.object_if("metadata");
  fields.neutral("prompt_cache_retention", {"in_memory", "in-memory"});
  fields.neutral("store", {false}, "nothing is stored");
  fields.neutral("service_tier", {"auto", "default"});
}

StreamFields read_stream_fields(Fields& fields) {
  StreamFields stream;
  stream.stream = fields.flag_if("stream").value_or(false);
  if (const Json* given = fields.object_if("stream_options")) {
    if (!stream.stream) throw bad_request("stream_options", "stream_options is given, but stream is not true");
    Fields options(*given, fields.path_of("stream_options"));
    stream.include_usage = options.flag_if("include_usage").value_or(false);
    options.neutral("include_obfuscation", {false});
    options.finish();
  }
  return stream;
}

models::GenerationOptions generation_options(const AnswerOptions& options, const Service& service, std::size_t model,
                                             std::int64_t prompt_tokens, std::int64_t choice, std::uint64_t seed) {
  const ServedModel& served = service.model(model);
  models::GenerationOptions result{.sampling = options.sampling};
  result.sampling.seed = seed + static_cast<std::uint64_t>(choice);
  const std::int64_t room = std::max<std::int64_t>(1, served.context - prompt_tokens + 1);
  const std::int64_t most = service.options().max_tokens > 0 ? service.options().max_tokens : room;
  result.max_tokens = std::min(options.max_tokens.value_or(most), room);
  if (served.tokenizer != nullptr && !options.ignore_eos) result.stop_tokens = served.tokenizer->end_tokens();
  if (options.logprobs) result.logprobs = options.top_logprobs;
  result.grammar = service.grammars().compile(served, options.format);
  return result;
}

}  // namespace etna::serve
