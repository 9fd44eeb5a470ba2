#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include <etna/data/tokenizers/stream_decoder.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/serve/answer_fields.h>
#include <etna/serve/api_error.h>
#include <etna/serve/collect.h>
#include <etna/serve/endpoints.h>
#include <etna/serve/openai_json.h>
#include <etna/serve/prompt_logprobs.h>
#include <etna/serve/text_input.h>

// POST /v1/completions
namespace etna::serve {
namespace {

constexpr std::size_t kMaxPrompts = 64;

struct CompletionRequest {
  std::size_t model = 0;
  std::vector<TextInput> prompts;
  AnswerOptions options;
  bool echo = false;

  std::int64_t choices() const { return std::ssize(prompts) * options.choices; }
  const TextInput& prompt_of(std::int64_t choice) const {
    return prompts[static_cast<std::size_t>(choice / options.choices)];
  }
};

CompletionRequest read_completion(Fields& fields, const Service& service) {
  CompletionRequest request;
  request.model = service.model_index(fields.string("model"));
  request.prompts = read_inputs(fields, "prompt", service, request.model, kMaxPrompts);
  request.options = read_answer_options(fields, service);
  // OpenAI's default for this endpoint.
  if (!request.options.max_tokens) request.options.max_tokens = 16;
  request.echo = fields.flag_if("echo").value_or(false);
  if (const auto top = fields.integer_if("logprobs", {.least = 0, .most = models::kMaxLogprobs})) {
    request.options.logprobs = true;
    request.options.top_logprobs = *top;
    // Clients that score texts drop the last element, and count on it: an end of the text counts as a token for them.
    if (request.echo && request.options.max_tokens == 1) request.options.ignore_eos = true;
  }
  fields.neutral("suffix", {""}, "text is written at the end only");
  fields.neutral("best_of", {1, request.options.choices});
  read_neutral_fields(fields);
  if (request.choices() > service.options().max_choices) {
    throw bad_request(
        "n",
        fmt::format("{} prompts with n = {} are {} texts; this server writes at most {} for a request",
                    request.prompts.size(), request.options.choices, request.choices(), service.options().max_choices));
  }
  return request;
}

std::shared_ptr<EventSource> write_texts(Service& service, const CompletionRequest& request, const HttpRequest& http) {
  const std::uint64_t seed = request.options.seed.value_or(new_seed());
  Job job{request.model, {}, http.client, request.options.priority, http.receipt};
  for (const TextInput& prompt : request.prompts) {
    for (std::int64_t i = 0; i < request.options.choices; ++i) {
      job.sequences.push_back(
          {prompt.tokens,
           generation_options(request.options, service, request.model, std::ssize(prompt.tokens), i, seed),
           request.options.stop});
    }
  }
  return service.engine().submit(std::move(job));
}

/// The prompt as text.
std::string echoed(const Service& service, const CompletionRequest& request, std::int64_t choice) {
  const TextInput& prompt = request.prompt_of(choice);
  if (!prompt.text.empty() || service.model(request.model).tokenizer == nullptr) return prompt.text;
  return data::replace_invalid_utf8(service.tokenizer(request.model).decode(prompt.tokens));
}

/// The object `logprobs` of a choice, or of an event of a stream.
class LegacyLogprobs {
 public:
  /// Those of a prompt: its first token has none. @param bytes of the prompt's text
  void add_prompt(const TextInput& prompt, const std::vector<TokenLogprobs>& logprobs, const data::Tokenizer* tokenizer,
                  std::size_t bytes) {
    std::string first;
    std::optional<data::StreamDecoder> decoder;
    if (tokenizer != nullptr) {
      decoder.emplace(*tokenizer);
      first = tokenizer->token(prompt.tokens.front());
    }
    for (std::size_t i = 0; i < prompt.tokens.size(); ++i) {
      if (i == 0)
        add_token(first, nullptr, nullptr);
      else
        add_token(logprobs[i - 1].chosen.text, logprobs[i - 1].chosen.logprob, top_of(logprobs[i - 1]));
      // A token's own text need not be what it adds: special ones add nothing.
      if (decoder) offset_ = std::min(bytes, offset_ + decoder->push(prompt.tokens[i]).size());
    }
    offset_ = bytes;
  }
  void add(const std::vector<TokenLogprobs>& tokens) {
    for (const TokenLogprobs& token : tokens) {
      add_token(token.chosen.text, token.chosen.logprob, top_of(token));
      offset_ += token.chosen.text.size();
    }
  }
  Json take() { return std::exchange(json_, empty()); }

 private:
  static Json empty() {
    return {{"tokens", Json::array()},
            {"token_logprobs", Json::array()},
            {"top_logprobs", Json::array()},
            {"text_offset", Json::array()}};
  }
  static Json top_of(const TokenLogprobs& token) {
    Json top = Json::object();
    // The most probable comes first, and tokens may have equal texts: parts of characters.
    for (const TokenProbability& other : token.top) top.emplace(data::replace_invalid_utf8(other.text), other.logprob);
    return top;
  }
  void add_token(const std::string& text, Json logprob, Json top) {
    json_["tokens"].push_back(data::replace_invalid_utf8(text));
    json_["token_logprobs"].push_back(std::move(logprob));
    json_["top_logprobs"].push_back(std::move(top));
    json_["text_offset"].push_back(offset_);
  }

  Json json_ = empty();
  std::size_t offset_ = 0;  ///< in bytes, of the next token in the text
};

/// By prompt: the log-probabilities of its tokens. Empty unless asked for.
using PromptLogprobs = std::vector<std::vector<TokenLogprobs>>;

PromptLogprobs logprobs_of_prompts(Service& service, const CompletionRequest& request, const HttpRequest& http) {
  PromptLogprobs all;
  if (!request.echo || !request.options.logprobs) return all;
  for (const TextInput& prompt : request.prompts)
    all.push_back(prompt_logprobs(service, request.model, http, prompt.tokens, request.options.top_logprobs));
  return all;
}

/// A choice begins with those of its prompt, if they are wanted.
void add_prompt(const Service& service, const CompletionRequest& request, const PromptLogprobs& prompts,
                std::int64_t choice, LegacyLogprobs& logprobs) {
  if (prompts.empty()) return;
  logprobs.add_prompt(request.prompt_of(choice), prompts[static_cast<std::size_t>(choice / request.options.choices)],
                      service.model(request.model).tokenizer, echoed(service, request, choice).size());
}

Json reply_head(const Service& service, const CompletionRequest& request, const std::string& id) {
  return {{"id", id},
          {"object", "text_completion"},
          {"created", std::time(nullptr)},
          {"model", service.model(request.model).name}};
}

void stream_texts(Service& service, const CompletionRequest& request, const PromptLogprobs& prompts, SentEvents& sent,
                  bool include_usage) {
  Json chunk = reply_head(service, request, new_id("cmpl-"));
  std::vector<LegacyLogprobs> all(static_cast<std::size_t>(request.choices()));
  const auto send = [&](std::int64_t index, const std::string& text, Json logprobs, Json finish) {
    chunk["choices"] = Json::array(
        {{{"text", text}, {"index", index}, {"logprobs", std::move(logprobs)}, {"finish_reason", std::move(finish)}}});
    if (include_usage) chunk["usage"] = nullptr;
    sent.send(json_text(chunk));
  };
  for (std::int64_t i = 0; request.echo && i < request.choices(); ++i) {
    LegacyLogprobs& logprobs = all[static_cast<std::size_t>(i)];
    add_prompt(service, request, prompts, i, logprobs);
    send(i, echoed(service, request, i), prompts.empty() ? Json() : logprobs.take(), nullptr);
  }
  Usage usage;
  while (const std::optional<AnswerEvent> event = sent.next()) {
    const bool last = event->kind == EventKind::finish;
    if (last && event->finish == FinishReason::failed) {
      sent.send(json_text(stream_error_json(event->error)));
      return;
    }
    Json logprobs;
    if (!event->logprobs.empty()) {
      all[static_cast<std::size_t>(event->choice)].add(event->logprobs);
      logprobs = all[static_cast<std::size_t>(event->choice)].take();
    }
    send(event->choice, event->text, std::move(logprobs), last ? Json(openai_name(event->finish)) : Json());
    if (last) add_usage(usage, event->usage, event->choice % request.options.choices == 0);
  }
  if (sent.gone()) return;
  if (include_usage) {
    chunk["choices"] = Json::array();
    chunk["usage"] = usage_json(usage);
    sent.send(json_text(chunk));
  }
  sent.send("[DONE]");
}

}  // namespace

HttpReply answer_completions(Service& service, const HttpRequest& http) {
  const Json body = parse_json(http.body);
  Fields fields(body, "");
  const CompletionRequest request = read_completion(fields, service);
  const StreamFields stream = read_stream_fields(fields);
  fields.finish();
  const PromptLogprobs prompts = logprobs_of_prompts(service, request, http);
  std::shared_ptr<EventSource> source = write_texts(service, request, http);
  if (!stream.stream) {
    const std::vector<CollectedChoice> choices = collect(*source, request.choices(), http);
    Json reply = reply_head(service, request, new_id("cmpl-"));
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      LegacyLogprobs logprobs;
      add_prompt(service, request, prompts, index, logprobs);
      logprobs.add(choices[i].logprobs);
      reply["choices"].push_back({{"text", (request.echo ? echoed(service, request, index) : "") + choices[i].text},
                                  {"index", i},
                                  {"logprobs", request.options.logprobs ? logprobs.take() : Json()},
                                  {"finish_reason", openai_name(choices[i].finish)}});
    }
    reply["usage"] = usage_json(usage_of(choices, std::ssize(request.prompts)));
    reply["timings"] = timings_json(choices.back().timings);
    return {.body = json_text(reply)};
  }
  source = with_first(first_event(*source, http), source);
  return {.type = "text/event-stream", .pieces = [=, &service](const PieceWriter& write) {
            SentEvents sent(source, http, write, service.options().comment_seconds);
            stream_texts(service, request, prompts, sent, stream.include_usage);
          }};
}

}  // namespace etna::serve
