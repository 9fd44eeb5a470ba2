#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>

#include "data/temporary_folder.h"
#include "serve/small_server.h"

// Endpoints, their replies and their errors.
namespace etna::serve {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Json chat(const std::string& text = "Hi") {
  return {{"model", "small"}, {"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", 5}, {"seed", 1}};
}
Json completion() { return {{"model", "small"}, {"prompt", "the river"}, {"max_tokens", 5}, {"seed", 1}}; }
Json with(Json body, const std::string& name, Json value) {
  body[name] = std::move(value);
  return body;
}

/// The JSON of each `data:` line; the last line must be [DONE].
std::vector<Json> data_of(const std::string& text) {
  std::vector<Json> all;
  bool done = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find("\n\n", at);
    const std::string line = text.substr(at, end - at);
    at = end == std::string::npos ? text.size() : end + 2;
    EXPECT_FALSE(done) << "after [DONE]: " << line;
    if (line == "data: [DONE]")
      done = true;
    else if (line.starts_with("data: "))
      all.push_back(Json::parse(line.substr(6)));
  }
  EXPECT_TRUE(done) << text;
  return all;
}

TEST(Http, CompletesPrompts) {
  const SmallServer server;
  const auto [status, reply] = server.ask("/v1/completions", completion());
  ASSERT_EQ(status, 200) << reply;
  EXPECT_EQ(reply["object"], "text_completion");
  EXPECT_EQ(reply["model"], "small");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(reply["usage"]["completion_tokens"], 5);
  EXPECT_EQ(reply["usage"]["total_tokens"], reply["usage"]["prompt_tokens"].get<int>() + 5);
  EXPECT_EQ(server.ask("/v1/completions", completion()).second["choices"], reply["choices"]) << "the seed decides";
  const auto echo = server.ask("/v1/completions", with(completion(), "echo", true)).second;
  EXPECT_EQ(echo["choices"][0]["text"], "the river" + reply["choices"][0]["text"].get<std::string>());
}

TEST(Http, CompletesTokensAndSeveralPrompts) {
  const SmallServer server;
  const auto tokens = server.ask("/v1/completions", with(completion(), "prompt", {1, 260, 261}));
  EXPECT_EQ(tokens.second["usage"]["prompt_tokens"], 3) << tokens.second;
  Json body = with(completion(), "prompt", {"a", "b"});
  body["n"] = 2;
  const auto four = server.ask("/v1/completions", body).second;
  ASSERT_EQ(four["choices"].size(), 4u) << four;
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(four["choices"][i]["index"], i);
  EXPECT_EQ(four["usage"]["completion_tokens"], 20);
  const auto arrays = server.ask("/v1/completions", with(completion(), "prompt", {{1, 260}, {1, 261, 262}}));
  EXPECT_EQ(arrays.second["usage"]["prompt_tokens"], 5) << arrays.second;
}

TEST(Http, StreamsTheTextThatItAnswersAtOnce) {
  const SmallServer server;
  const auto whole = server.ask("/v1/chat/completions", chat()).second;
  ASSERT_EQ(whole["object"], "chat.completion") << whole;
  Json body = with(chat(), "stream", true);
  body["stream_options"] = {{"include_usage", true}};
  const auto result = server.post("/v1/chat/completions", body.dump());
  ASSERT_TRUE(result);
  EXPECT_EQ(result->get_header_value("Content-Type"), "text/event-stream");
  const std::vector<Json> chunks = data_of(result->body);
  ASSERT_GE(chunks.size(), 3u);
  EXPECT_EQ(chunks[0]["choices"][0]["delta"]["role"], "assistant");
  std::string text, finish;
  for (const Json& chunk : chunks) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["id"], chunks[0]["id"]);
    if (chunk["choices"].empty()) continue;
    text += chunk["choices"][0]["delta"].value("content", "");
    if (chunk["choices"][0]["finish_reason"].is_string()) finish = chunk["choices"][0]["finish_reason"];
  }
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"].get<std::string>());
  EXPECT_EQ(finish, "length");
  EXPECT_EQ(chunks.back()["usage"], whole["usage"]);
}

TEST(Http, ChoicesOfARequestDiffer) {
  const SmallServer server;
  Json body = with(chat(), "n", 3);
  body["max_completion_tokens"] = 12;
  body["max_tokens"] = 12;
  const auto [status, reply] = server.ask("/v1/chat/completions", body);
  ASSERT_EQ(status, 200) << reply;
  ASSERT_EQ(reply["choices"].size(), 3u);
  EXPECT_NE(reply["choices"][0]["message"]["content"], reply["choices"][1]["message"]["content"]);
  EXPECT_EQ(reply["usage"]["completion_tokens"], 36);
}

TEST(Http, TellsLogProbabilities) {
  const SmallServer server;
  Json body = with(chat(), "logprobs", true);
  body["top_logprobs"] = 3;
  body["temperature"] = 0;
  const auto [status, reply] = server.ask("/v1/chat/completions", body);
  ASSERT_EQ(status, 200) << reply;
  const Json& content = reply["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 5u);
  for (const Json& token : content) {
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_LT(token["logprob"].get<double>(), 0);
    EXPECT_EQ(token["top_logprobs"][0]["logprob"], token["logprob"]) << "greedy takes the most probable";
    EXPECT_GE(token["top_logprobs"][0]["logprob"], token["top_logprobs"][1]["logprob"]);
  }
  body["stream"] = true;
  std::size_t tokens = 0;
  for (const Json& chunk : data_of(server.post("/v1/chat/completions", body.dump())->body)) {
    const Json& logprobs = chunk["choices"][0]["logprobs"];
    if (!logprobs.is_null()) tokens += logprobs["content"].size();
  }
  EXPECT_EQ(tokens, 5u);
  const auto legacy = server.ask("/v1/completions", with(completion(), "logprobs", 2)).second;
  EXPECT_EQ(legacy["choices"][0]["logprobs"]["tokens"].size(), 5u) << legacy;
  EXPECT_EQ(legacy["choices"][0]["logprobs"]["text_offset"][0], 0);
}

TEST(Http, AnswersHaveTheFormThatIsAskedFor) {
  const SmallServer server;
  Json body = chat();
  body["max_tokens"] = 400;
  const Json schema = {
      {"type", "object"},
      {"properties",
       {{"name", {{"enum", {"river", "sea"}}}}, {"size", {{"type", "integer"}, {"minimum", 0}, {"maximum", 99}}}}},
      {"required", {"name", "size"}},
      {"additionalProperties", false}};
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"name", "water"}, {"strict", true}, {"schema", schema}}}};
  for (int seed = 0; seed < 5; ++seed) {
    body["seed"] = seed;
    const auto [status, reply] = server.ask("/v1/chat/completions", body);
    ASSERT_EQ(status, 200) << reply;
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop") << reply;
    const std::string text = reply["choices"][0]["message"]["content"];
    const Json value = Json::parse(text, nullptr, false);
    ASSERT_TRUE(value.is_object()) << text;
    EXPECT_TRUE(value["name"] == "river" || value["name"] == "sea") << text;
    EXPECT_TRUE(value["size"] >= 0 && value["size"] <= 99) << text;
    EXPECT_EQ(value.size(), 2u) << text;
  }
  body.erase("response_format");
  const auto regex = server.ask("/v1/chat/completions", with(body, "regex", "a{3}b?c")).second;
  EXPECT_THAT(regex["choices"][0]["message"]["content"].get<std::string>(), testing::AnyOf("aaac", "aaabc"));
  const auto grammar = server.ask("/v1/completions", with(completion(), "grammar", "root ::= \"x\" \"y\"")).second;
  EXPECT_EQ(grammar["choices"][0]["text"], "xy");
}

TEST(Http, RefusesFormsThatItCannotFollow) {
  const SmallServer server;
  const auto refused = [&](const char* field, const Json& value) {
    const auto [status, reply] = server.ask("/v1/chat/completions", with(chat(), field, value));
    EXPECT_EQ(status, 400) << reply;
    EXPECT_EQ(reply["error"]["param"], field);
    return reply["error"]["message"].get<std::string>();
  };
  refused("regex", "(");
  refused("grammar", "root ::= (");
  refused("response_format",
          {{"type", "json_schema"}, {"json_schema", {{"name", "a"}, {"schema", {{"type", "nothing"}}}}}});
  Json both = with(chat(), "regex", "a");
  both["grammar"] = "root ::= \"x\"";
  EXPECT_THAT(server.ask("/v1/chat/completions", both).second["error"]["message"].get<std::string>(),
              HasSubstr("send one of them"));
}

TEST(Http, TakesWhatOfficialClientsSend) {
  const SmallServer server;
  Json body = chat();
  body.update({{"frequency_penalty", 0},
               {"presence_penalty", 0.5},
               {"store", false},
               {"parallel_tool_calls", true},
               {"service_tier", "auto"},
               {"metadata", {{"a", "b"}}},
               {"user", "me"},
               {"tools", Json::array()},
               {"tool_choice", nullptr},
               {"modalities", {"text"}},
               {"response_format", {{"type", "text"}}},
               {"stop", {"\n\n"}},
               {"logit_bias", {{"260", -100}}},
               {"top_p", 0.9},
               {"temperature", 0.5},
               {"n", 1},
               {"top_k", 40},
               {"min_p", 0.05},
               {"typical_p", 1},
               {"repetition_penalty", 1.1},
               {"priority", 1}});
  body["messages"] = {{{"role", "developer"}, {"content", "Be brief."}},
                      {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "Hi"}}}}},
                      {{"role", "assistant"}, {"content", "Yes?"}, {"refusal", nullptr}},
                      {{"role", "user"}, {"content", "Go on."}}};
  const auto [status, reply] = server.ask("/v1/chat/completions", body);
  EXPECT_EQ(status, 200) << reply;
}

TEST(Http, NamesTheFieldThatItRefuses) {
  const SmallServer server;
  const auto refused = [&](const Json& body, const char* path = "/v1/chat/completions") {
    const auto [status, reply] = server.ask(path, body);
    EXPECT_EQ(status, 400) << reply;
    EXPECT_EQ(reply["error"]["type"], "invalid_request_error");
    return reply["error"]["param"].is_string() ? reply["error"]["param"].get<std::string>() : "";
  };
  EXPECT_EQ(refused(with(chat(), "tempature", 1)), "tempature");
  EXPECT_EQ(refused(with(chat(), "temperature", 3)), "temperature");
  EXPECT_EQ(refused(with(chat(), "temperature", "hot")), "temperature");
  EXPECT_EQ(refused(with(chat(), "top_p", 0)), "top_p");
  EXPECT_EQ(refused(with(chat(), "max_tokens", -1)), "max_tokens");
  EXPECT_EQ(refused(with(chat(), "n", 1000)), "n");
  EXPECT_EQ(refused(with(chat(), "stop", {"a", "b", "c", "d", "e"})), "stop");
  EXPECT_EQ(refused(with(chat(), "stream_options", {{"include_usage", true}})), "stream_options");
  EXPECT_EQ(refused(with(chat(), "top_logprobs", 2)), "top_logprobs");
  EXPECT_EQ(refused(with(chat(), "logit_bias", {{"the", 1}})), "logit_bias");
  EXPECT_EQ(refused(with(chat(), "logit_bias", {{"5", 101}})), "logit_bias.5");
  EXPECT_EQ(refused(with(chat(), "store", true)), "store");
  EXPECT_EQ(refused(with(chat(), "audio", {{"voice", "alloy"}})), "audio");
  EXPECT_EQ(refused(with(chat(), "messages", Json::array())), "messages");
  EXPECT_EQ(refused(with(chat(), "messages", "Hi")), "messages");
  EXPECT_EQ(refused(with(chat(), "messages", {{{"role", "clown"}, {"content", "Hi"}}})), "messages[0].role");
  EXPECT_EQ(refused(with(chat(), "messages", {{{"role", "user"}}})), "messages[0].content");
  EXPECT_EQ(refused(with(chat(), "messages", {{{"role", "user"}, {"content", "a"}, {"weight", 1}}})),
            "messages[0].weight");
  EXPECT_EQ(refused(with(chat(), "messages",
                         {{{"role", "user"}, {"content", {{{"type", "video_url"}, {"video_url", {{"url", "x"}}}}}}}})),
            "messages[0].content[0].type");
  EXPECT_EQ(refused(with(chat(), "messages",
                         {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "x"}, {"detail", 1}}}}}})),
            "messages[0].content[0].detail");
  EXPECT_EQ(refused(with(chat(), "response_format", {{"type", "xml"}})), "response_format.type");
  EXPECT_EQ(refused(with(chat(), "response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "a"}}}})),
            "response_format.json_schema.schema");
  EXPECT_EQ(refused(with(completion(), "suffix", "end"), "/v1/completions"), "suffix");
  EXPECT_EQ(refused(with(completion(), "best_of", 3), "/v1/completions"), "best_of");
  EXPECT_EQ(refused(with(completion(), "prompt", {1, 99'999}), "/v1/completions"), "prompt[1]");
  EXPECT_EQ(refused(with(completion(), "prompt", {1, "a"}), "/v1/completions"), "prompt[1]");
  EXPECT_EQ(refused(with(completion(), "prompt", Json::array()), "/v1/completions"), "prompt");
  EXPECT_EQ(refused(with(completion(), "prompt", 5), "/v1/completions"), "prompt");
  EXPECT_EQ(refused({{"content", "a"}, {"with_peaces", true}}, "/tokenize"), "with_peaces");
  EXPECT_EQ(refused({{"tokens", {1, -4}}}, "/detokenize"), "tokens[1]");
  EXPECT_TRUE(server.idle());
}

TEST(Http, RefusesABodyThatIsNoJsonObject) {
  const SmallServer server;
  const auto refused = [&](const std::string& body) {
    const auto [status, reply] = SmallServer::read(server.post("/v1/completions", body));
    EXPECT_EQ(status, 400) << reply;
    return reply["error"]["code"].get<std::string>();
  };
  EXPECT_EQ(refused("{\"model\": "), "invalid_json");
  EXPECT_EQ(refused(""), "invalid_json");
  EXPECT_EQ(refused("{\"model\": \"\xff\xfe\"}"), "invalid_json");
  EXPECT_EQ(refused(std::string(100'000, '[')), "json_too_deep");
  EXPECT_EQ(refused("[]"), "invalid_type");
  EXPECT_EQ(refused("{\"model\": \"a\", \"model\": \"b\"}"), "json_duplicate");
}

TEST(Http, TellsStatusesApart) {
  const SmallServer server;
  const auto unknown = server.ask("/v1/chat/completions", with(chat(), "model", "gpt-4"));
  EXPECT_EQ(unknown.first, 404);
  EXPECT_EQ(unknown.second["error"]["code"], "model_not_found");
  EXPECT_EQ(server.get("/v1/models/nothing").first, 404);
  EXPECT_EQ(server.get("/v2/models").first, 404);
  EXPECT_EQ(server.ask("/v2/models", chat()).first, 404);
  const auto wrong = server.client().Get("/v1/completions");
  EXPECT_EQ(wrong->status, 405);
  EXPECT_EQ(wrong->get_header_value("Allow"), "POST");
  EXPECT_EQ(server.client().Options("/v1/completions")->status, 405);
  EXPECT_EQ(server.client().Delete("/v1/models/small")->status, 405);
  EXPECT_EQ(server.client().Post("/v1/completions", completion().dump(), "text/plain")->status, 415);
  const auto head = server.client().Head("/health");
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(server.get("/health").second["status"], "ok");
  EXPECT_FALSE(head->has_header("Access-Control-Allow-Origin"));
}

TEST(Http, ListsModels) {
  const SmallServer server;
  const auto list = server.get("/v1/models").second;
  EXPECT_EQ(list["data"][0]["id"], "small");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(server.get("/v1/models/small").second, list["data"][0]);
}

TEST(Http, EmbedsTextsAtLengthOne) {
  const SmallServer server;
  const auto [status, reply] =
      server.ask("/v1/embeddings", {{"model", "small"}, {"input", {"the river", "the river", "a b c"}}});
  ASSERT_EQ(status, 200) << reply;
  const auto vector = reply["data"][0]["embedding"].get<std::vector<double>>();
  EXPECT_EQ(vector.size(), 64u);
  double sum = 0;
  for (const double x : vector) sum += x * x;
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(reply["data"][1]["embedding"], reply["data"][0]["embedding"]);
  EXPECT_NE(reply["data"][2]["embedding"], reply["data"][0]["embedding"]);
  const auto text =
      server.ask("/v1/embeddings", {{"model", "small"}, {"input", "the river"}, {"encoding_format", "base64"}});
  EXPECT_EQ(text.second["data"][0]["embedding"].get<std::string>().size(), 344u) << "64 floats";
  const auto few = server.ask("/v1/embeddings", {{"model", "small"}, {"input", "the river"}, {"dimensions", 2}}).second;
  const auto two = few["data"][0]["embedding"].get<std::vector<double>>();
  EXPECT_NEAR(two[0] * two[0] + two[1] * two[1], 1, 1e-5);
  EXPECT_NEAR(two[0] * vector[1], two[1] * vector[0], 1e-5);
  EXPECT_EQ(server.ask("/v1/embeddings", {{"model", "small"}, {"input", "a"}, {"dimensions", 65}}).first, 400);
  EXPECT_EQ(server.ask("/v1/embeddings", {{"model", "small"}, {"input", Json::array()}}).first, 400);
}

TEST(Http, RanksDocuments) {
  const SmallServer server;
  Json body = {{"model", "small"},
               {"query", "the river"},
               {"documents", {"a b c", "the river", {{"text", "c"}}}},
               {"top_n", 2},
               {"return_documents", true}};
  const auto [status, reply] = server.ask("/v1/rerank", body);
  ASSERT_EQ(status, 200) << reply;
  ASSERT_EQ(reply["results"].size(), 2u);
  EXPECT_EQ(reply["results"][0]["index"], 1);
  EXPECT_NEAR(reply["results"][0]["relevance_score"].get<double>(), 1, 1e-5);
  EXPECT_EQ(reply["results"][0]["document"]["text"], "the river");
  EXPECT_LE(reply["results"][1]["relevance_score"], reply["results"][0]["relevance_score"]);
}

TEST(Http, TokenizesAndBack) {
  const SmallServer server;
  const auto tokens = server.ask("/tokenize", {{"content", "the river."}}).second["tokens"];
  EXPECT_EQ(server.ask("/detokenize", {{"tokens", tokens}}).second["content"], "the river.");
  const auto pieces = server.ask("/tokenize", {{"content", "\xc3\xa9"}, {"with_pieces", true}}).second["tokens"];
  EXPECT_EQ(pieces.back()["piece"], Json::array({0xa9})) << "a part of a character is bytes: " << pieces;
  const auto prompt = server.ask("/apply-template", {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}).second;
  EXPECT_EQ(prompt["prompt"], "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Http, CountsWhatItDoes) {
  const SmallServer server;
  server.ask("/v1/completions", completion());
  server.ask("/v1/completions", with(completion(), "n", 0));
  // A request is counted once its reply is written.
  EXPECT_TRUE(soon([&] { return server.service.requests().counts.size() == 2; }));
  const auto metrics = server.client().Get("/metrics");
  EXPECT_THAT(metrics->body,
              AllOf(HasSubstr("etna_http_requests_total{endpoint=\"/v1/completions\",status=\"200\"} 1"),
                    HasSubstr("etna_http_requests_total{endpoint=\"/v1/completions\",status=\"400\"} 1"),
                    HasSubstr("etna_tokens_total 5"), HasSubstr("etna_first_token_seconds_count 1"),
                    HasSubstr("etna_sequences_running 0"), HasSubstr("etna_kv_cache_blocks{model=\"small\"}")));
  const auto slots = server.get("/slots").second;
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[0]["is_processing"], false);
}

TEST(Http, AsksForAKey) {
  const SmallServer server({.keys = {"first-key", "second-key"}});
  const auto status = [&](const httplib::Headers& headers) {
    return server.client().Get("/v1/models", headers)->status;
  };
  EXPECT_EQ(status({}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer first-ke"}}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer "}}), 401);
  EXPECT_EQ(status({{"Authorization", "Basic first-key"}}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer first-key"}}), 200);
  EXPECT_EQ(status({{"x-api-key", "second-key"}}), 200);
  EXPECT_EQ(server.client().Get("/health")->status, 200);
  const auto [code, reply] = server.ask("/v1/completions", completion());
  EXPECT_EQ(code, 401);
  EXPECT_EQ(reply["error"]["code"], "invalid_api_key");
}

TEST(Http, AnswersToItsOwnNamesOnlyWhereNoKeyIsNeeded) {
  const SmallServer server({.allow_hosts = {"etna.example"}});
  const auto status = [](const SmallServer& at, const char* host) {
    return at.client().Get("/v1/models", {{"Host", host}})->status;
  };
  for (const char* host : {"localhost", "localhost:80", "127.0.0.1:8080", "[::1]:8080", "10.1.2.3", "etna.example:1"})
    EXPECT_EQ(status(server, host), 200) << host;
  for (const char* host : {"evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example"})
    EXPECT_EQ(status(server, host), 403) << host;
  const SmallServer locked({.keys = {"k"}});
  EXPECT_EQ(status(locked, "any.example"), 401);
}

TEST(Http, KeepsTheClientsRequestIdOrMakesOne) {
  const SmallServer server;
  EXPECT_EQ(server.client().Get("/health", {{"X-Request-Id", "abc"}})->get_header_value("X-Request-Id"), "abc");
  EXPECT_THAT(server.client().Get("/health")->get_header_value("X-Request-Id"), testing::StartsWith("req_"));
}

TEST(Keys, AreReadFromAFile) {
  const TemporaryFolder folder;
  const auto keys_of = [&](const std::string& text) {
    std::ofstream(folder / "keys") << text;
    return read_keys((folder / "keys").string());
  };
  EXPECT_THAT(keys_of("# mine\nabc\r\n\ndef  \n"), ElementsAre("abc", "def"));
  EXPECT_THROW(keys_of("# none\n\n"), FormatError);
  EXPECT_THROW(keys_of("two words\n"), FormatError);
  EXPECT_THROW(read_keys((folder / "nothing").string()), FormatError);
}

}  // namespace
}  // namespace etna::serve
